"""The list of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from shlex import quote
from typing import Any

from graphmill.core.errors import DamagedError
from graphmill.core.job import JOB_ID
from graphmill.core.json import to_json
from graphmill.core.result import FAILURES, Kind, Result, Status
from graphmill.journal.ports import Store
from graphmill.journal.records import Query, RunRecord, RunState
from graphmill.report.failures import failure_record
from graphmill.report.run_view import NAME_CHARS, RunView, graph_name, run_record, status_lines, view_of
from graphmill.report.text import ERRORS_SHOWN, columns, counted, error_lines, moment, shown, size

_HEAD = (" ", "id", "state", "begun", "graph", "items", "size")
_DAMAGE_CHARS = 80
_GRAPH = 4
_LEAST_NAME = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsView:
    """Some of the runs of a store, oldest first, each with its size; ``older`` is how many came before them."""

    runs: Sequence[tuple[RunView, int | None]]
    older: int = 0


def runs_view(store: Store, runs: Sequence[RunRecord], *, limit: int) -> RunsView:
    """Count the newest of these runs; one that is damaged says so and hinders no other."""
    newest = runs[max(0, len(runs) - limit) :]
    return RunsView(runs=[_counted(store, run) for run in newest], older=len(runs) - len(newest))


def _counted(store: Store, run: RunRecord) -> tuple[RunView, int | None]:
    try:
        return view_of(store.archive, run), store.size(run)
    except DamagedError as error:
        return RunView(run=run, counts={}, kinds={}, elapsed_s=run.elapsed_s, damage=str(error)), None


def runs_lines(view: RunsView, width: int | None = None) -> list[str]:
    """Show the runs as a table, newest last, with a star at those under way; in short where it would be wider than this."""
    lines = [f"...and {view.older:,} older; --limit shows more"] if view.older else []
    table = _table([_HEAD, *(_row(run, bytes_) for run, bytes_ in view.runs)])
    return [*lines, *(table if width is None or max(map(len, table)) <= width else _narrow(view, width))]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    return columns(rows, gap="  ")


def _narrow(view: RunsView, width: int) -> list[str]:
    """Leave out the year, the size and words that repeat; if that is not enough, cut the names of graphs."""
    rows = [_HEAD[:-1], *(_short(_row(run, bytes_)) for run, bytes_ in view.runs)]
    over = max(map(len, _table(rows))) - width
    most = max(_LEAST_NAME, max(len(row[_GRAPH]) for row in rows) - over)
    return _table([(*row[:_GRAPH], shown(row[_GRAPH], most), *row[_GRAPH + 1 :]) for row in rows])


def _short(row: Sequence[str]) -> tuple[str, ...]:
    star, name, state, begun, graph, items, _ = row
    return star, name, state, begun.partition("-")[2], graph, items.replace(" items succeeded", "")


def _row(view: RunView, bytes_: int | None) -> tuple[str, ...]:
    run = view.run
    return (
        "*" if run.state.is_live else " ",
        view.name,
        "damaged" if view.damage else str(run.state),
        moment(run.created_at),
        shown(graph_name(run.manifest), NAME_CHARS) or "-",
        shown(view.damage, _DAMAGE_CHARS) if view.damage else view.summary(),
        "-" if bytes_ is None else size(bytes_),
    )


def runs_record(view: RunsView) -> dict[str, Any]:
    """Give the runs as data."""
    return {"runs": [run_record(run) | {"bytes": bytes_} for run, bytes_ in view.runs], "older": view.older}


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


_ID_CHARS = 40
_COMMAND_CHARS = 37  # a longer one does not push away what the others do


def next_lines(view: RunView, *, is_written: bool = False) -> list[str]:
    """Name the commands that make sense now, each with what it does; to export it is none where its rows are written already."""
    steps = list(_steps(view, is_written=is_written))
    width = max((len(command) for command, _ in steps if len(command) <= _COMMAND_CHARS), default=0)
    return [f"{command:<{width}}   {does}" for command, does in steps]


def retry_lines(view: RunView, failed: int, kind: Kind | None) -> list[str]:
    """Name the command that runs the failed items again, unless each is a job with a graph of its own."""
    if view.is_of_jobs:
        return []
    only = ("", "") if kind is None else (f" --kind {kind}", f", kinds=[{str(kind)!r}]")
    again = (
        f"graphmill retry {quote(view.name)}{only[0]}"
        if view.has_graph
        else f"gm.retry({view.name!r}, graph=function{only[1]})"
    )
    return [f"{again}   runs {_items(failed, 'failed ')} again"]


def _steps(view: RunView, *, is_written: bool) -> Iterator[tuple[str, str]]:
    name = quote(view.name)
    if view.run.state.is_live:
        yield f"graphmill status {name} --watch", "follows it"
        yield f"graphmill cancel {name}", "ends it"
    if view.waiting and not view.run.state.is_live and view.run.state is not RunState.CANCELLED:
        yield _answering(view, name)
    if view.can_go_on and (view.left or not view.waiting or view.run.state is RunState.INTERRUPTED):
        yield _going_on(view, name)
        if view.is_held_by_model and view.can_be_opened:
            yield f"graphmill resume {name} --model OTHER", "goes on with another model"
    if view.is_single:
        yield f"graphmill show {name} {JOB_ID}", "shows the job and its steps"
    elif view.failed or view.degraded:
        yield (
            f"graphmill errors {name}",
            "tells what failed, and why" if view.failed else "tells which items are degraded",
        )
    if view.failed and not view.run.state.is_live:
        yield from _again(view, name)
    if view.done and not view.is_single and not is_written:
        yield f"graphmill export {name} FILE", f"writes {counted(view.done, 'row')}, as .jsonl, .json or .csv"


def _going_on(view: RunView, name: str) -> tuple[str, str]:
    does = f"goes on with {_items(view.left)} to do" if view.left else "goes on with it"
    if view.needs_source:
        return f"graphmill resume {name} --source FILE", f"{does}; its items came by standard input"
    if not view.can_be_opened:
        return _in_program(view), "goes on with it, in the program that has them"
    return f"graphmill resume {name}", does


def _answering(view: RunView, name: str) -> tuple[str, str]:
    count, item = view.counts.get(Status.PAUSED, 0), view.waiting[0].job_id
    does = f"answers {_items(count)} that {'waits' if count == 1 else 'wait'}"
    if not (view.can_be_opened or view.needs_source):
        return _in_program(view, f", answers={{{shown(item, _ID_CHARS)!r}: …}}"), does
    source = " --source FILE" if view.needs_source else ""
    return f"graphmill resume {name}{source} --answer {quote(shown(item, _ID_CHARS))}=VALUE", does


def _in_program(view: RunView, more: str = "") -> str:
    call = "BatchExecutor(journal=…).start(jobs" if view.is_of_jobs else "gm.batch(function, items"
    return f"{call}, run_id={view.name!r}{more})"


def _again(view: RunView, name: str) -> Iterator[tuple[str, str]]:
    doubtful = view.kinds.get(Kind.AMBIGUOUS, 0)
    if view.failed > doubtful and not view.is_of_jobs:
        again = f"graphmill retry {name}" if view.has_graph else f"gm.retry({view.name!r}, graph=function)"
        yield again, f"runs {_items(view.failed - doubtful, 'failed ')} again"
    if doubtful:
        yield (
            f"graphmill errors {name} --kind ambiguous",
            f"tells which {doubtful:,} may have happened; retry --item ID runs one again",
        )


def _items(count: int, word: str = "") -> str:
    return f"the {word}item" if count == 1 else f"the {count:,} {word}items"
