"""A job's recorded steps as a tree: nodes, items of batches, rounds of loops, and what each step returned."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from graphmill.core.result import TraceStep
from graphmill.core.usage import NO_USAGE, Usage
from graphmill.journal.bodies import usage_from
from graphmill.journal.records import AttemptRow, StepRow

PartKind = Literal["node", "item", "round"]
PartStatus = Literal["succeeded", "failed", "unfinished"]

MOST_BYTES = 2000
_BATCH = "#batch"  # a batch's summary is recorded under its node's path with this suffix
# outer[1]/inner[0]@2/call: a node, one of its items, a node in that, its item, the second round, a step in that.
_PATH_PART = re.compile(r"/?([^/\[@]+)|\[(\d+)\]|@(\d+)|(.)", re.DOTALL)
_NODE_OUTPUT = 3
_NODE_TAIL = re.compile(rb'\},"[^"]*",\[[^\[\]]*\]\]\Z')
_SERIES_SHOWN = (20, 6, 3)  # items or rounds of one node: at the top, inside one item or round, deeper
_FIRST_SHOWN = 3
_NODES_SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNote:
    """What a batch recorded at its end. ``failed`` includes ``timed_out``; ``at_s`` is about when it ended."""

    generation: int
    at_s: float
    succeeded: int
    failed: int
    timed_out: int
    cancelled: int
    is_degraded: bool
    errors: Sequence[Mapping[str, Any]]

    @property
    def count(self) -> int:
        """How many items there were."""
        return self.succeeded + self.failed + self.cancelled

    @property
    def is_failed(self) -> bool:
        """Whether the batch itself failed, not only some of its items."""
        return self.failed > 0 and not self.is_degraded


class TracePart:
    """One part of a trace: a recorded step if it has a ``row``, else what contains the steps below it.

    ``number`` is the index of an item or the number of a round, ``calls`` what the step said to models. All times are
    seconds since the job began.
    """

    def __init__(self, path: str, kind: PartKind, name: str, number: int = 0) -> None:
        self.path = path
        self.kind: PartKind = kind
        self.name = name
        self.number = number
        self.row: StepRow | None = None
        self.note: BatchNote | None = None
        self.failed_attempts: list[AttemptRow] = []
        self.calls: list[TraceStep] = []
        self.below: dict[str, TracePart] = {}

    @cached_property
    def children(self) -> Sequence[TracePart]:
        """The parts below, in order: items and rounds by number, nodes by when they began."""
        return sorted(self.below.values(), key=lambda part: (part.kind, part.number, part.began_s))

    @cached_property
    def began_s(self) -> float:
        """When its first step began."""
        return min((row.began_s for row in self.rows()), default=0.0 if self.note is None else self.note.at_s)

    @cached_property
    def ended_s(self) -> float:
        """When its last step ended."""
        return max((row.began_s + row.duration_s for row in self.rows()), default=self.began_s)

    @cached_property
    def step_count(self) -> int:
        """How many steps have ended in it."""
        return (self.row is not None) + sum(part.step_count for part in self.below.values())

    @cached_property
    def usage(self) -> Usage | None:
        """What its steps used, with failed attempts of unfinished ones. A step's usage includes nested steps."""
        if self.row is not None:
            return usage_from(self.row.usage)
        below = [part.usage for part in self.below.values()]
        failed = [usage_from(attempt.usage) for attempt in self.failed_attempts]
        found = [usage for usage in (*below, *failed) if usage is not None]
        if found:
            return sum(found, NO_USAGE)
        return None

    @cached_property
    def status(self) -> PartStatus:
        """As far as steps and notes say: a batch failed if all items did, anything else as its last step ended."""
        if self.row is not None:
            is_failed = self.row.error is not None
        elif self.batch is not None:
            is_failed = self.batch.is_failed
        elif not self.step_count:
            return "unfinished"
        elif self.is_batch:
            is_failed = self.counts["failed"] == len(self.items)
        else:
            return max(self.children, key=lambda part: (part.ended_s, part.number)).status
        if is_failed:
            return "failed"
        return "succeeded"

    @property
    def is_batch(self) -> bool:
        """Whether it has items."""
        return bool(self.items) or self.batch is not None

    @cached_property
    def batch(self) -> BatchNote | None:
        """The summary that a batch recorded at its end; None while it is running, also in a later generation."""
        newest = max((row.generation for row in self.rows()), default=0)
        if self.note is not None and self.note.generation >= newest:
            return self.note
        return None

    @cached_property
    def items(self) -> Sequence[TracePart]:
        """Its items that have a recorded step."""
        return [part for part in self.children if part.kind == "item"]

    @cached_property
    def rounds(self) -> Sequence[TracePart]:
        """Its rounds."""
        return [part for part in self.children if part.kind == "round"]

    @cached_property
    def counts(self) -> Counter[str]:
        """How many of its items have which status."""
        return Counter(part.status for part in self.items)

    @property
    def item_count(self) -> int:
        """How many items there are at least; an item without a step is known by later ones."""
        if self.items:
            return self.items[-1].number + 1
        return 0

    def grow(self, path: str) -> TracePart:
        """Return the part at a path; make it if it is missing."""
        part = self
        for end, kind, name, number in _split(path):
            prefix = path[:end]
            if prefix not in part.below:
                part.below[prefix] = TracePart(prefix, kind, name, number)
            part = part.below[prefix]
        return part

    def find(self, path: str) -> TracePart | None:
        """Return the part at a path, or None."""
        part: TracePart | None = self
        for end, *_ in _split(path):
            if part is not None:
                part = part.below.get(path[:end])
        return part

    def walk(self) -> Iterator[TracePart]:
        """Go through everything below, in order."""
        for part in self.children:
            yield part
            yield from part.walk()

    def rows(self) -> Iterator[StepRow]:
        """Go through the rows of its steps; a step that has a row hides those below it."""
        if self.row is not None:
            yield self.row
        else:
            for part in self.below.values():
                yield from part.rows()


def trace_of(
    steps: Iterable[StepRow], attempts: Iterable[AttemptRow] = (), calls: Iterable[TraceStep] = ()
) -> TracePart:
    """Build the tree of a job's steps; the newest generation of a step wins. The job's own attempts are left out.

    Of ``calls`` those of models are used.
    """
    root = TracePart("", "node", "")
    latest_s = 0.0
    for row in steps:
        if row.is_note:
            if row.path.endswith(_BATCH):
                root.grow(row.path.removesuffix(_BATCH)).note = _read_batch_note(row, latest_s)
            continue
        latest_s = max(latest_s, row.began_s + row.duration_s)
        part = root.grow(row.path)
        if part.row is None or row.generation >= part.row.generation:
            part.row = row
    for attempt in attempts:
        if attempt.path and attempt.kind is not None:
            root.grow(attempt.path).failed_attempts.append(attempt)
    for call in calls:
        if call.model is not None:
            root.grow(call.path).calls.append(call)
    return root


def _read_batch_note(row: StepRow, at_s: float) -> BatchNote:
    found = json.loads(row.noted or b"{}")
    return BatchNote(
        generation=row.generation,
        at_s=at_s,
        succeeded=found["succeeded"],
        failed=found["failed"] + found["timed_out"],
        timed_out=found["timed_out"],
        cancelled=found["cancelled"],
        is_degraded=found["degraded"],
        errors=found["errors"],
    )


def _split(path: str) -> Iterator[tuple[int, PartKind, str, int]]:
    """Yield for each part of a path where it ends, its kind, its name and its number."""
    for found in _PATH_PART.finditer(path):
        name, index, round_number, other = found.groups()
        if index is not None:
            yield found.end(), "item", f"[{index}]", int(index)
        elif round_number is not None:
            yield found.end(), "round", f"round {round_number}", int(round_number)
        elif other != "/":
            yield found.end(), "node", name or other, 0


@dataclass(frozen=True, slots=True)
class FoldedPart:
    """A part of a trace with the children to show; ``hidden`` counts the others by status."""

    part: TracePart
    children: Sequence[FoldedPart]
    hidden: Counter[str]


def fold(part: TracePart, *, level: int = 0) -> FoldedPart:
    """Choose what to show: all of a few, of many the first and the failed. ``level`` counts items and rounds around."""
    nodes = [child for child in part.children if child.kind == "node"]
    shown = nodes[:_NODES_SHOWN] + _select(part.items, level) + _select(part.rounds, level)
    hidden: Counter[str] = Counter(child.status for child in part.children)
    hidden.subtract(child.status for child in shown)
    inner = [fold(child, level=level + (child.kind != "node")) for child in shown]
    return FoldedPart(part, inner, +hidden)


def _select(series: Sequence[TracePart], level: int) -> list[TracePart]:
    most = _SERIES_SHOWN[min(level, len(_SERIES_SHOWN) - 1)]
    if len(series) <= most:
        return list(series)
    first, rest = series[:_FIRST_SHOWN], series[_FIRST_SHOWN:]
    failed = [part for part in rest if part.status == "failed"][: most - len(first)]
    return [*first, *failed]


def read_body(body: bytes | None) -> Any:
    """Parse a stored JSON value."""
    if body is None:
        return None
    return json.loads(body)


def read_output(row: StepRow) -> tuple[Any, str | None]:
    """Return a step's output and, for a workflow node, the action it returned."""
    return _split_output(read_body(row.output))


def _split_output(value: Any) -> tuple[Any, str | None]:
    """Split a node's output, which is stored with its action and flags; any other value has no action."""
    if isinstance(value, list) and len(value) == _NODE_OUTPUT:
        values, action, flags = value
        if isinstance(values, dict) and isinstance(action, str) and isinstance(flags, list):
            return values, action
    return value, None


def body_text(body: bytes | None, chars: int) -> str:
    """Return the beginning of a stored value as text; a long one is not parsed."""
    if body is None:
        return "null"
    if len(body) > MOST_BYTES:
        is_node = body.startswith(b"[{") and _NODE_TAIL.search(body[-MOST_BYTES:]) is not None
        return visible(body[is_node : chars * 4].decode(errors="ignore"), chars)
    value, action = _split_output(json.loads(body))
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return visible(text if action in (None, "default") else f"{action}: {text}", chars)


def error_message(body: bytes | None) -> str:
    """Return the kind and the message of a stored failure."""
    error = read_body(body)
    if isinstance(error, dict):
        return ": ".join(str(error[name]) for name in ("kind", "message") if error.get(name))
    if error is None:
        return ""
    return str(error)


def visible(text: str, chars: int) -> str:
    """Make text fit one line: cut, and with control characters escaped."""
    escaped = "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode() for char in text[:chars]
    )
    if len(escaped) <= chars and len(text) <= chars:
        return escaped
    return escaped[: chars - 1] + "…"
