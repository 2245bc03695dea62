"""The list of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphmill.core.errors import DamagedError
from graphmill.journal.ports import Store
from graphmill.journal.records import RunRecord
from graphmill.report.run_view import NAME_CHARS, RunView, graph_name, run_record, view_of
from graphmill.report.text import columns, moment, shown, size

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
