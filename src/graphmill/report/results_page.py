"""The table of a run's items: what went in, how it ended, and what came out; one page of it at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from graphmill.core.job import row_number
from graphmill.core.json import MISSING, field_inside, text_or_json
from graphmill.core.result import Result, Status
from graphmill.core.usage import cost_text
from graphmill.datasets.row import ROW_FIELDS, SCORES, row_of
from graphmill.datasets.selection import FieldFilter, UnseenFields
from graphmill.journal.records import Entry, Query, RunRecord
from graphmill.journal.store import Archive
from graphmill.report.scores import output_field, scored_entries
from graphmill.report.text import NOTHING, Column, failure_text, status_text, table_lines
from graphmill.scoring.score import GRADED

USUAL_COLUMNS = ("row", "id", "status", "score", "rounds", "cost", "input", "output")
_TITLES = {"row": "#"}
_NUMBERS = ("row", "score", "rounds", "cost", "attempts", "queued_s", "duration_s")
_SHORT = ("score", "rounds", "cost")
_LONG_CHARS = 60
_ID_CHARS = 40
_WIDE_CHARS = 400  # a cell is made no longer, however wide the terminal is


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsQuery:
    """Which results to show: of one status or flag, those that all filters take, and which page of them."""

    status: str | None = None
    filters: Sequence[FieldFilter] = ()
    offset: int = 0
    limit: int = 20

    def selection(self) -> Query:
        """Return what of this the archive can select by itself."""
        if self.status is None:
            return Query()
        if self.status == "degraded":
            return Query(is_degraded=True)
        if self.status == "partial":
            return Query(statuses=frozenset(), or_partial=True)
        return Query(statuses=frozenset({Status(self.status)}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsPage:
    """Some results of a run, each as its row with the number of the row; ``has_more`` says that others follow."""

    run: RunRecord
    query: ResultsQuery
    rows: Sequence[Mapping[str, Any]]
    results: Sequence[Result] = field(default=())
    has_more: bool = False


def results_page(archive: Archive, run: RunRecord, query: ResultsQuery) -> ResultsPage:
    """Read one page of a run's results, holding no more than that. UsageError for an unknown filter field."""
    found = list(islice(_selected(archive, run, query), query.limit + 1))
    page = found[: query.limit]
    return ResultsPage(
        run=run,
        query=query,
        rows=[_row(entry) for entry in page],
        results=[entry.result for entry in page],
        has_more=len(found) > query.limit,
    )


def _selected(archive: Archive, run: RunRecord, query: ResultsQuery) -> Iterator[Entry]:
    selection = query.selection()
    if not query.filters:
        return scored_entries(archive, run, replace(selection, offset=query.offset, limit=query.limit + 1))
    return islice(_filtered(scored_entries(archive, run, selection), query.filters), query.offset, None)


def _filtered(entries: Iterator[Entry], filters: Sequence[FieldFilter]) -> Iterator[Entry]:
    unseen = UnseenFields(each.field for each in filters)
    for entry in entries:
        row = _row(entry)
        found = {each.field: _value_of(row, each.field) for each in filters}
        unseen.note(found, partial(_names, row))
        if all(each.takes(found[each.field]) for each in filters):
            yield entry
    unseen.require_none("no result has a field")


def _row(entry: Entry) -> dict[str, Any]:
    """Return a result as its row, with the number of the row and what other commands have found out about it."""
    result = entry.result
    found = {name: output_field(result, name) for name in ("score", "rounds")}
    numbers = {name: value if isinstance(value, int | float) else None for name, value in found.items()}
    return {"row": row_number(result.position), **row_of(result), **numbers}


def _value_of(row: Mapping[str, Any], name: str, default: Any = MISSING) -> Any:
    """Return a field of a row: its own, one of its outputs, inputs or metadata, or a score; dots lead into a value."""
    scores = row.get(SCORES) or {}
    if name in scores:
        return _short_score(scores[name])
    for base in (row, *(row.get(part) for part in ("output", "input", "metadata", SCORES))):
        found = field_inside(base, name)
        if found is not MISSING and not (base is row and found is None and name in _SHORT):
            return found
    return default


def _short_score(score: Mapping[str, Any]) -> Any:
    """Return what a table shows of a score: its name or, if it is neither right nor wrong, how much it is."""
    return score["value"] if score["outcome"] == GRADED else score["outcome"]


def _names(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names that a filter may use, those of outputs and inputs first."""
    for part in ("output", "input"):
        if isinstance(row[part], Mapping):
            yield from map(str, row[part])
    yield from ROW_FIELDS


def results_lines(page: ResultsPage, columns: Sequence[str] = (), width: int | None = None) -> list[str]:
    """Draw the page as a table, and say how to see more of it."""
    if not page.rows:
        return [_nothing(page.query)]
    names = columns or _usual_columns(page.rows)
    rows = [
        [_cell(row, result, name, is_wide=width is not None) for name in names]
        for row, result in zip(page.rows, page.results, strict=True)
    ]
    lines = table_lines(
        [_column(name, is_wide=width is not None, is_asked=bool(columns)) for name in names], rows, width
    )
    if page.has_more:
        lines.append(f"...and more; add --offset {page.query.offset + len(page.rows)}")
    return lines


def _usual_columns(rows: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """Return the columns with one for each scorer of the run, after the status."""
    scorers = dict.fromkeys(name for row in rows for name in row.get(SCORES) or ())
    at = USUAL_COLUMNS.index("score")
    return [*USUAL_COLUMNS[:at], *scorers, *USUAL_COLUMNS[at:]]


def _nothing(query: ResultsQuery) -> str:
    if query.offset:
        return f"no results after the first {query.offset:,}"
    if query.status is not None or query.filters:
        return "no such results"
    return "no results yet"


def _column(name: str, *, is_wide: bool, is_asked: bool) -> Column:
    if name in _NUMBERS:
        return Column(title=_TITLES.get(name, name), is_number=True, is_optional=name in _SHORT and not is_asked)
    if name in ("id", "status"):
        return Column(title=name, most=_ID_CHARS, can_shrink=name == "id")
    return Column(title=name, most=_WIDE_CHARS if is_wide else _LONG_CHARS, can_shrink=True)


def _cell(row: Mapping[str, Any], result: Result, name: str, *, is_wide: bool) -> str:
    if name == "status":
        return status_text(result)
    if name == "cost":
        return cost_text(result.cost_nano, result.unpriced) if result.cost_nano else NOTHING
    if name == "output" and not result.is_success:
        return _why(result)
    value = _value_of(row, name, None)
    if value is None:
        return NOTHING
    if name == "score" and isinstance(value, float):
        return f"{value:.2f}"
    return _short_text(value, _WIDE_CHARS if is_wide else _LONG_CHARS, item_id=result.item_id)


def _why(result: Result) -> str:
    """Say why an item has no output."""
    if result.error is not None:
        return failure_text(result.error)
    asked = next(iter(result.questions.values()), None)
    return NOTHING if asked is None else f"asks: {_short_text(asked, _LONG_CHARS)}"


def _short_text(value: Any, width: int, *, item_id: str = "") -> str:
    """Write the start of a value: a text as it is, several values by name, without empty ones and the item's id."""
    if isinstance(value, Mapping):
        entries = {
            name: entry
            for name, entry in value.items()
            if entry not in (None, "") and not (name == "id" and str(entry) == item_id)
        }
        if len(entries) == 1:
            return _short_text(next(iter(entries.values())), width)
        return ", ".join(f"{name}: {_plain(entry, width)}" for name, entry in islice(entries.items(), width))
    return _plain(value, width)


def _plain(value: Any, width: int) -> str:
    return " ".join(text_or_json(value)[: width * 2].split())


def results_record(page: ResultsPage, columns: Sequence[str] = ()) -> dict[str, Any]:
    """Return the page as data: whole rows, or only the columns that are asked for."""
    rows: Sequence[Mapping[str, Any]] = page.rows
    if columns:
        rows = [{name: _value_of(row, name, None) for name in columns} for row in rows]
    more = page.query.offset + len(page.rows) if page.has_more else None
    return {"run": page.run.id, "offset": page.query.offset, "items": rows, "next_offset": more}
