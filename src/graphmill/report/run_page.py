"""One run in short: what it was to do, what came of it, and what can be done now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from graphmill.core.json import to_json
from graphmill.core.result import FAILURES, Result
from graphmill.journal.ports import Store
from graphmill.journal.records import Query, RunRecord
from graphmill.report.dead_letters import failure_record
from graphmill.report.next_steps import next_lines
from graphmill.report.run_view import RunView, run_record, status_lines, view_of
from graphmill.report.text import ERRORS_SHOWN, columns, error_lines, shown, size

_ORDER = (
    "source",
    "graph",
    "models",
    "options",
    "input",
    "seed",
    "policy",
    "commit",
    "versions",
)  # what a reader looks for first
_MOST_ENTRIES = 50
_MOST_OF_ONE = 15
_KEY_CHARS = 40
_VALUE_CHARS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """A run, how many bytes it takes, and its first failures."""

    view: RunView
    size: int
    first: Sequence[Result]


def run_page(store: Store, run: RunRecord) -> RunPage:
    """Read what a page on a run shows."""
    failed = Query(statuses=FAILURES, limit=ERRORS_SHOWN)
    first = [entry.result for entry in store.archive.entries(run, failed)]
    return RunPage(view=view_of(store.archive, run), size=store.size(run), first=first)


def page_lines(page: RunPage) -> list[str]:
    """Show the run's state and figures, its first failures, its manifest in short and the commands that go on."""
    run = page.view.run
    lines = [*status_lines(page.view), *error_lines(page.first, page.view.failed), ""]
    lines += [f"manifest, generation {run.generation}, {size(page.size)} in the journal:"]
    graph = {name: value for name, value in run.manifest.get("graph", {}).items() if name != "models"}
    lines += [
        f"  {line}" for line in _manifest_lines({**run.manifest, "graph": graph, "models": ", ".join(page.view.models)})
    ]
    return [*lines, "", *next_lines(page.view)] if page.view.done or page.view.can_go_on else lines


def _manifest_lines(manifest: Mapping[str, Any]) -> list[str]:
    entries = list(islice(_entries(manifest), _MOST_ENTRIES + 1))
    rows = [(shown(key, _KEY_CHARS), shown(text, _VALUE_CHARS)) for key, text in entries[:_MOST_ENTRIES]]
    return (
        [*columns(rows), *(["...and more"] if len(entries) > _MOST_ENTRIES else []), "--json shows all of it"]
        if rows
        else []
    )


def _entries(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Give each entry one line, and the first of a mapping one each; what is not set has none."""
    places = {key: place for place, key in enumerate(_ORDER)}
    for key, value in sorted(manifest.items(), key=lambda entry: places.get(entry[0], len(places))):
        if not isinstance(value, Mapping):
            yield from [(str(key), _text(value))] if _is_set(value) else ()
            continue
        found = [(f"{key}.{name}", _text(entry)) for name, entry in value.items() if _is_set(entry)]
        yield from found[:_MOST_OF_ONE]
        if len(found) > _MOST_OF_ONE:
            yield str(key), f"...and {len(found) - _MOST_OF_ONE:,} more"


def _is_set(value: Any) -> bool:
    return value not in (None, "", {}, [])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value)


def page_record(page: RunPage) -> dict[str, Any]:
    """Give the page as data."""
    return run_record(page.view) | {
        "bytes": page.size,
        "manifest": page.view.run.manifest,
        "failures": [failure_record(result) for result in page.first],
    }
