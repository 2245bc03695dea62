"""The list of runs, and the page on one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from shlex import quote
from typing import Any

from graphmill.core.errors import DamagedError
from graphmill.core.json import text_or_json
from graphmill.core.result import FAILURES, Result
from graphmill.core.usage import NO_USAGE, Usage, cost_text
from graphmill.journal.records import Query, RunRecord
from graphmill.journal.store import Store
from graphmill.report.failures import failure_record
from graphmill.report.next_commands import next_lines
from graphmill.report.results_page import ResultsPage, ResultsQuery, results_lines, results_page
from graphmill.report.run_view import (
    NAME_CHARS,
    RunView,
    prompt_of,
    run_record,
    source_name,
    status_lines,
    tags_of,
    view_of,
)
from graphmill.report.scores import figures_of_run, headlines_of_passes, score_lines
from graphmill.report.text import (
    ERRORS_SHOWN,
    NOTHING,
    Column,
    align_columns,
    error_lines,
    local_time,
    one_line,
    size_text,
    table_lines,
)
from graphmill.scoring.figures import Figure, ScoreFigures

_ITEMS_CHARS = 80
_COLUMNS = (
    Column(title="", most=1),
    Column(title="id", most=64),
    Column(title="state"),
    Column(title="started"),
    Column(title="graph", most=NAME_CHARS, can_shrink=True),
    Column(title="model", most=NAME_CHARS, can_shrink=True, is_optional=True),
    Column(title="source", most=NAME_CHARS, can_shrink=True, is_optional=True),
    Column(title="items", most=_ITEMS_CHARS),
    Column(title="cost", is_number=True, is_optional=True),
    Column(title="tags", most=NAME_CHARS, can_shrink=True, is_optional=True),
    Column(title="size", is_number=True),
)
_RESULTS_SHOWN = 5
_FIRST_KEYS = ("source", "graph", "models", "options", "input", "seed", "policy", "commit", "versions")
_MOST_ENTRIES = 50
_MOST_IN_ONE = 15
_KEY_CHARS = 40
_VALUE_CHARS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsView:
    """Some of the runs of a store, oldest first, each with its size; ``older`` counts those before them."""

    runs: Sequence[tuple[RunView, int | None]]
    older: int = 0


def runs_view(store: Store, runs: Sequence[RunRecord], *, limit: int) -> RunsView:
    """Count the results of the newest of these runs, each followed by its scoring passes.

    A damaged one is marked and does not affect the others.
    """
    ids = {run.id for run in runs}
    own = [run for run in runs if run.scored_id not in ids]
    newest = own[max(0, len(own) - limit) :]
    listed = []
    for run in newest:
        passes = [each for each in runs if each.scored_id == run.id]
        scores = _headlines(store, run, passes)
        listed += [_view_and_size(store, each, scores.get(each.id)) for each in (run, *passes)]
    return RunsView(runs=listed, older=len(own) - len(newest))


def _headlines(store: Store, run: RunRecord, passes: Sequence[RunRecord]) -> Mapping[str, Figure]:
    try:
        return headlines_of_passes(store.archive, run, passes)
    except DamagedError:  # the run or the pass that is damaged says so itself
        return {}


def _view_and_size(store: Store, run: RunRecord, score: Figure | None) -> tuple[RunView, int | None]:
    try:
        return replace(view_of(store.archive, run), score=score), store.size(run)
    except DamagedError as error:
        return RunView(run=run, counts={}, kinds={}, elapsed_s=run.elapsed_s, damage=str(error)), None


def runs_lines(view: RunsView, width: int | None = None) -> list[str]:
    """Show the runs as a table, newest last, running ones with a star; shortened if it is wider than ``width``."""
    rows = [_row(run, bytes_) for run, bytes_ in view.runs]
    lines = table_lines(_COLUMNS, rows)
    if width is not None and max(map(len, lines)) > width:
        lines = table_lines(_COLUMNS[:-1], [_short_row(row) for row in rows], width)
    if view.older:
        return [f"...and {view.older:,} older; --limit shows more", *lines]
    return lines


def _short_row(row: Sequence[str]) -> tuple[str, ...]:
    """Leave out the year, the size and repeated words."""
    star, name, state, started, *middle, items, cost, tags, _ = row
    return star, name, state, started.partition("-")[2], *middle, items.replace(" items succeeded", ""), cost, tags


def _row(view: RunView, bytes_: int | None) -> tuple[str, ...]:
    run = view.run
    state, items = str(run.status), view.summary()
    if view.score is not None:
        items += f" · {view.score}"
    if view.damage:
        state, items = "damaged", view.damage
    usage = sum(run.usage.values(), NO_USAGE)
    return (
        "*" if run.is_live else "",
        view.name,
        state,
        local_time(run.created_at),
        _graph_text(run) or NOTHING,
        _models_text(view.models),
        source_name(run),
        items,
        _cost_text(usage),
        _tags_text(run),
        NOTHING if bytes_ is None else size_text(bytes_),
    )


def _cost_text(usage: Usage) -> str:
    if usage.unpriced and not usage.cost_nano:
        return "unknown"
    return cost_text(usage.cost_nano, usage.unpriced)


def _graph_text(run: RunRecord) -> str:
    """Return the name of a graph or, if it is one prompt, the beginning of that."""
    if prompt := prompt_of(run):
        return f'"{one_line(" ".join(prompt.split()), NAME_CHARS - 2)}"'
    return run.graph_name


def _models_text(models: Sequence[str]) -> str:
    if len(models) <= 1:
        return "".join(models)
    return f"{models[0]} +{len(models) - 1}"


def _tags_text(run: RunRecord) -> str:
    return " ".join(f"{name}={value}" for name, value in tags_of(run).items())


def runs_record(view: RunsView) -> dict[str, Any]:
    """Return the runs as data."""
    return {"runs": [run_record(run) | {"bytes": bytes_} for run, bytes_ in view.runs], "older": view.older}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """A run, how many bytes it takes, its first results and failures, and the figures of its scores."""

    view: RunView
    size: int
    results: ResultsPage
    first: Sequence[Result]
    scores: Sequence[ScoreFigures] = ()


def run_page(store: Store, run: RunRecord, *, by: Sequence[str] = (), cluster: str | None = None) -> RunPage:
    """Read what the page on a run shows; ``by`` and ``cluster`` are fields for the figures of its scores."""
    failed = Query(statuses=FAILURES, limit=ERRORS_SHOWN)
    return RunPage(
        view=view_of(store.archive, run),
        size=store.size(run),
        results=results_page(store.archive, run, ResultsQuery(limit=_RESULTS_SHOWN)),
        first=[entry.result for entry in store.archive.entries(run, failed)],
        scores=figures_of_run(store.archive, run, by=by, cluster=cluster),
    )


def page_lines(page: RunPage, width: int | None = None) -> list[str]:
    """Show a run's state and usage, its scores, its first results and failures, and the next commands."""
    view = page.view
    lines = [*status_lines(view), *_about_lines(view), *score_lines(page.scores)]
    if page.results.rows:
        lines += ["", *results_lines(page.results, width=width)]
        if page.results.has_more:
            lines[-1] = f"...and more: graphmill results {quote(view.name)}"
        if not view.is_single:
            lines.append(f"one of them with its steps: graphmill show {quote(view.name)} {page.results.rows[0]['row']}")
    if page.first:
        lines += ["", "failures:", *error_lines(page.first, view.failed)]
    if view.done or view.outdated or view.can_resume:
        lines += ["", *next_lines(view)]
    return lines


def _about_lines(view: RunView) -> list[str]:
    """Name the models, the source and the tags, as far as there are any."""
    named = {"model": ", ".join(view.models), "source": source_name(view.run), "tags": _tags_text(view.run)}
    text = " · ".join(f"{name} {one_line(value, _VALUE_CHARS)}" for name, value in named.items() if value)
    return [f"  {text}"] if text else []


def manifest_lines(page: RunPage) -> list[str]:
    """Show what a run was started with."""
    view, run = page.view, page.view.run
    graph = {name: value for name, value in run.graph.items() if name != "models"}
    return [
        f"run {view.name}, manifest of generation {run.generation}, {size_text(page.size)} in the journal:",
        *_manifest_lines({**run.manifest, "graph": graph, "models": ", ".join(view.models)}),
    ]


def _manifest_lines(manifest: Mapping[str, Any]) -> list[str]:
    entries = list(islice(_manifest_entries(manifest), _MOST_ENTRIES + 1))
    if not entries:
        return []
    lines = align_columns(
        [(one_line(key, _KEY_CHARS), one_line(text, _VALUE_CHARS)) for key, text in entries[:_MOST_ENTRIES]]
    )
    if len(entries) > _MOST_ENTRIES:
        lines.append("...and more")
    return [f"  {line}" for line in [*lines, "--json shows all of it"]]


def _manifest_entries(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the entries that are set, the important ones first; those of a mapping one by one."""
    first = [key for key in _FIRST_KEYS if key in manifest]
    for key in [*first, *(key for key in manifest if key not in _FIRST_KEYS)]:
        value = manifest[key]
        if not isinstance(value, Mapping):
            if _is_set(value):
                yield str(key), text_or_json(value)
            continue
        found = [(f"{key}.{name}", text_or_json(entry)) for name, entry in value.items() if _is_set(entry)]
        yield from found[:_MOST_IN_ONE]
        if len(found) > _MOST_IN_ONE:
            yield str(key), f"...and {len(found) - _MOST_IN_ONE:,} more"


def _is_set(value: Any) -> bool:
    return value not in (None, "", {}, [])


def page_record(page: RunPage) -> dict[str, Any]:
    """Return the page as data."""
    return run_record(page.view) | {
        "bytes": page.size,
        "manifest": page.view.run.manifest,
        "results": page.results.rows,
        "failures": [failure_record(result) for result in page.first],
        "scores": [figures.to_json() for figures in page.scores],
    }
