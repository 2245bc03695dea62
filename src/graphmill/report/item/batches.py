"""A batch inside a job in words: how many items succeeded, and the first that did not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphmill.core.json import to_json
from graphmill.core.result import Status
from graphmill.report.item.trace import BatchNote, TracePart, error_message, visible
from graphmill.report.text import ERRORS_SHOWN, align_columns, count_text, counts_line, more_lines

_ITEM_CHARS = 40
_MESSAGE_CHARS = 120
_KEYS = frozenset({"results", "errors", "outcomes", "count"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchItemError:
    """A failed item; ``item`` is empty where only its index is known."""

    index: int
    item: str = ""
    message: str
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchView:
    """A batch, named by its node's path or by the output that holds it.

    ``rest`` items have neither succeeded nor failed; ``rest_word`` says what became of them.
    """

    name: str
    count: int
    succeeded: int
    failed: int
    rest: int = 0
    rest_word: str = "cancelled"
    errors: Sequence[BatchItemError] = ()
    is_ended: bool = True

    def summary(self) -> str:
        """Say how many items succeeded: '8/10 items succeeded, 2 failed'."""
        counts = {Status.SUCCEEDED: self.succeeded, Status.FAILED: self.failed}
        if self.is_ended:
            return counts_line(counts, self.count, rest=self.rest_word)
        parts = [f"{count_text(self.succeeded, 'item')} succeeded so far"]  # the total is known only at the end
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        if self.rest:
            parts.append(f"{self.rest:,} {self.rest_word}")
        return ", ".join(parts)


def batch_lines(view: BatchView) -> list[str]:
    """Show a batch: the summary, the first errors with index and item, and how many more there are."""
    first = view.errors[:ERRORS_SHOWN]
    rows = [(f"[{error.index}]", error.item, _error_text(error)) for error in first]
    lines = [f"{view.name}: {view.summary()}", *(f"  {line}" for line in align_columns(_without_empty_columns(rows)))]
    return lines + more_lines(view.failed - len(first))


def _error_text(error: BatchItemError) -> str:
    return f"{visible(error.message, _MESSAGE_CHARS)} ({count_text(error.attempts, 'attempt')})"


def _without_empty_columns(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    used = [column for column in zip(*rows, strict=True) if any(column)]
    return list(zip(*used, strict=True))


def batches_of(trace: TracePart, output: Any = None) -> list[BatchView]:
    """Return a job's batches: those in its trace, outside of any item or round, and those its outputs hold."""
    in_output = list(_batches_in(output))
    in_trace = [_with_items(batch_view(part), in_output) for part in _outermost_batches(trace)]
    known = {_identity(view) for view in in_trace}
    return [*in_trace, *(view for view in in_output if _identity(view) not in known)]


def batch_view(part: TracePart) -> BatchView:
    """Return a batch as it summed itself up at its end; while it is running, as far as its steps say."""
    if part.batch is not None:
        return _from_note(part.path, part.batch)
    counts = part.counts
    return BatchView(
        name=part.path,
        count=part.item_count,
        succeeded=counts["succeeded"],
        failed=counts["failed"],
        rest=part.item_count - counts["succeeded"] - counts["failed"],
        rest_word="without a finished step",
        errors=[_step_error(item) for item in part.items if item.status == "failed"],
        is_ended=False,
    )


def _from_note(path: str, note: BatchNote) -> BatchView:
    return BatchView(
        name=path,
        count=note.count,
        succeeded=note.succeeded,
        failed=note.failed,
        rest=note.cancelled,
        errors=[_item_error(entry, visible(entry["item"], _ITEM_CHARS)) for entry in note.errors],
    )


def _batches_in(output: Any) -> Iterator[BatchView]:
    """Find batches among a job's outputs, by the fields that every batch output has."""
    if not isinstance(output, Mapping):
        return
    if _is_batch(output):
        yield _from_output("items", output)
        return
    for name, value in output.items():
        if isinstance(value, Mapping) and _is_batch(value):
            yield _from_output(str(name), value)


def _is_batch(value: Mapping[str, Any]) -> bool:
    return value.keys() >= _KEYS and isinstance(value["errors"], list) and isinstance(value["count"], int)


def _from_output(name: str, value: Mapping[str, Any]) -> BatchView:
    entries = [entry for entry in value["errors"] if isinstance(entry, Mapping)]
    failed = value.get("error_count", len(entries))
    return BatchView(
        name=name,
        count=value["count"],
        succeeded=value.get("success_count", value["count"] - failed),
        failed=failed,
        rest=value.get("cancelled_count", 0),
        errors=[_item_error(entry, visible(to_json(entry.get("item")), _ITEM_CHARS)) for entry in entries],
    )


def _item_error(entry: Mapping[str, Any], item: str) -> BatchItemError:
    message = ": ".join(filter(None, (str(entry.get("kind", "")), str(entry.get("error", "")))))
    return BatchItemError(index=entry.get("index", 0), item=item, message=message, attempts=entry.get("attempts", 1))


def _step_error(item: TracePart) -> BatchItemError:
    steps = [part.row for part in (item, *item.walk()) if part.row is not None and part.row.error is not None]
    last = max(steps, key=lambda row: row.began_s + row.duration_s)
    return BatchItemError(index=item.number, message=error_message(last.error), attempts=last.attempts)


def _outermost_batches(part: TracePart) -> Iterator[TracePart]:
    if part.is_batch:
        yield part
        return
    for child in part.children:
        if child.kind == "node":
            yield from _outermost_batches(child)


def _with_items(view: BatchView, in_output: Sequence[BatchView]) -> BatchView:
    """Add the items of errors from an output that holds the same batch; steps only know their index."""
    if view.errors:
        for other in in_output:
            if _identity(other) == _identity(view):
                return replace(view, errors=other.errors)
    return view


def _identity(view: BatchView) -> tuple[int, int, tuple[int, ...]]:
    return view.count, view.failed, tuple(error.index for error in view.errors[:ERRORS_SHOWN])
