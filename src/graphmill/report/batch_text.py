"""A batch inside a job in words: how many items went well, and the first that did not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphmill.core.json import to_json
from graphmill.core.result import Status
from graphmill.report.text import ERRORS_SHOWN, columns, counted, counts_line, tries
from graphmill.report.trace import Branch, error_message, visible

_ITEM_CHARS = 40
_MESSAGE_CHARS = 120
_KEYS = frozenset({"results", "errors", "outcomes", "count"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemError:
    """An item that failed; ``item`` is empty where only its index is known."""

    index: int
    item: str = ""
    message: str
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchView:
    """A batch by its node's path, or the output that holds it. ``rest`` items have neither succeeded nor failed, for the ``reason``."""

    name: str
    count: int
    succeeded: int
    failed: int
    rest: int = 0
    reason: str = "cancelled"
    errors: Sequence[ItemError] = ()
    is_ended: bool = True

    def summary(self) -> str:
        """Say how many items succeeded, as in '8/10 items succeeded, 2 failed'."""
        if not self.is_ended:  # how many there are is known at its end only
            told = ((self.failed, "failed"), (self.rest, self.reason))
            return f"{counted(self.succeeded, 'item')} succeeded so far" + "".join(
                f", {count:,} {word}" for count, word in told if count
            )
        return counts_line({Status.SUCCEEDED: self.succeeded, Status.FAILED: self.failed}, self.count, rest=self.reason)


def batch_lines(view: BatchView) -> list[str]:
    """Show a batch: the summary, the first five errors with index and item, and how many more there are."""
    first = view.errors[:ERRORS_SHOWN]
    rows = [
        (f"[{error.index}]", error.item, f"{visible(error.message, _MESSAGE_CHARS)} ({tries(error.attempts)})")
        for error in first
    ]
    more = [f"  ...and {view.failed - len(first):,} more"] if view.failed > len(first) else []
    return [f"{view.name}: {view.summary()}", *(f"  {line}" for line in columns(_without_empty(rows))), *more]


def batches_of(trace: Branch, output: Any = None) -> list[BatchView]:
    """Give the batches of a job: those that its steps tell of, outside of any item or round, and those that its outputs hold."""
    held = list(batches_held(output))
    seen = [_with_items(batch_view(branch), held) for branch in _outermost(trace)]
    told = {_sign(view) for view in seen}
    return [*seen, *(view for view in held if _sign(view) not in told)]


def batch_view(branch: Branch) -> BatchView:
    """Give a batch as it has summed itself up; while it is under way, as its steps tell of it."""
    if (noted := branch.batch) is not None:
        errors = [_error(entry, visible(entry["item"], _ITEM_CHARS)) for entry in noted.errors]
        return BatchView(
            name=branch.path,
            count=noted.count,
            succeeded=noted.succeeded,
            failed=noted.failed,
            rest=noted.cancelled,
            errors=errors,
        )
    counts = branch.counts
    rest = branch.item_count - counts["succeeded"] - counts["failed"]
    errors = [_step_error(item) for item in branch.items if item.standing == "failed"]
    return BatchView(
        name=branch.path,
        count=branch.item_count,
        succeeded=counts["succeeded"],
        failed=counts["failed"],
        rest=rest,
        reason="without a step that ended",
        errors=errors,
        is_ended=False,
    )


def batches_held(output: Any) -> Iterator[BatchView]:
    """Give the batches whose whole output is among a job's outputs."""
    if not isinstance(output, Mapping):
        return
    if _is_batch(output):
        yield _held("items", output)
        return
    for name, value in output.items():
        if isinstance(value, Mapping) and _is_batch(value):
            yield _held(str(name), value)


def _is_batch(value: Mapping[str, Any]) -> bool:
    return value.keys() >= _KEYS and isinstance(value["errors"], list) and isinstance(value["count"], int)


def _held(name: str, value: Mapping[str, Any]) -> BatchView:
    entries = [entry for entry in value["errors"] if isinstance(entry, Mapping)]
    errors = [_error(entry, visible(to_json(entry.get("item")), _ITEM_CHARS)) for entry in entries]
    count, failed = value["count"], value.get("error_count", len(errors))
    rest = value.get("cancelled_count", 0)
    return BatchView(
        name=name,
        count=count,
        succeeded=value.get("success_count", count - failed),
        failed=failed,
        rest=rest,
        errors=errors,
    )


def _error(entry: Mapping[str, Any], item: str) -> ItemError:
    message = ": ".join(filter(None, (str(entry.get("kind", "")), str(entry.get("error", "")))))
    return ItemError(index=entry.get("index", 0), item=item, message=message, attempts=entry.get("attempts", 1))


def _outermost(branch: Branch) -> Iterator[Branch]:
    if branch.is_batch:
        yield branch
        return
    for child in branch.children:
        if child.place == "node":
            yield from _outermost(child)


def _step_error(item: Branch) -> ItemError:
    steps = [branch.row for branch in (item, *item.walk()) if branch.row is not None and branch.row.error is not None]
    last = max(steps, key=lambda row: row.began_s + row.duration_s)
    return ItemError(index=item.number, message=error_message(last.error), attempts=last.attempts)


def _with_items(view: BatchView, held: Sequence[BatchView]) -> BatchView:
    """Name the items of a batch where the outputs hold the same batch: steps know items by their index only."""
    same = next((other for other in held if view.errors and _sign(other) == _sign(view)), None)
    return view if same is None else replace(view, errors=same.errors)


def _sign(view: BatchView) -> tuple[int, int, tuple[int, ...]]:
    return view.count, view.failed, tuple(error.index for error in view.errors[:ERRORS_SHOWN])


def _without_empty(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Leave out columns that hold nothing."""
    kept = [column for column in zip(*rows, strict=True) if any(column)]
    return list(zip(*kept, strict=True))
