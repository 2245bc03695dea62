"""A job's steps as a tree: nodes, the items of their batches, the rounds of their loops, and what is inside of those."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from graphmill.core.usage import NO_USAGE, Usage
from graphmill.journal.bodies import usage_from
from graphmill.journal.records import AttemptRow, StepRow

Place = Literal["node", "item", "round"]
Standing = Literal["succeeded", "failed", "unfinished"]

# outer[1]/inner[0]@2/call: a node, one of its items, a node in that, its item, the second round, a step in that.
_PART = re.compile(r"/?([^/\[@]+)|\[(\d+)\]|@(\d+)|(.)", re.DOTALL)


class Branch:
    """A part of a job by its path: a step if it has a row, else what holds the steps below it.

    ``number`` is the index of an item or the number of a round.
    """

    def __init__(self, path: str, place: Place, name: str, number: int = 0) -> None:
        self.path = path
        self.place: Place = place
        self.name = name
        self.number = number
        self.row: StepRow | None = None
        self.note: BatchNote | None = None
        self.failed_attempts: list[AttemptRow] = []
        self.below: dict[str, Branch] = {}

    @cached_property
    def children(self) -> Sequence[Branch]:
        """What is below, in order: items and rounds by number, nodes by when they began."""
        return sorted(self.below.values(), key=lambda branch: (branch.place, branch.number, branch.began_s))

    @cached_property
    def began_s(self) -> float:
        """When its first step began, from the job's beginning."""
        return min((row.began_s for row in self._rows()), default=0.0 if self.note is None else self.note.at_s)

    @cached_property
    def ended_s(self) -> float:
        """When its last step ended."""
        return max((row.began_s + row.duration_s for row in self._rows()), default=self.began_s)

    @cached_property
    def step_count(self) -> int:
        """How many steps have ended in it."""
        return (self.row is not None) + sum(branch.step_count for branch in self.below.values())

    @cached_property
    def usage(self) -> Usage | None:
        """What its steps have used, failed attempts of unfinished ones too; a step's own usage holds that of the steps it has called."""
        if self.row is not None:
            return usage_from(self.row.usage)
        below = [branch.usage for branch in self.below.values()]
        failed = [usage_from(attempt.usage) for attempt in self.failed_attempts]
        found = [usage for usage in (*below, *failed) if usage is not None]
        return sum(found, NO_USAGE) if found else None

    @cached_property
    def standing(self) -> Standing:
        """How it stands, as far as steps and notes tell: a batch failed if all items did, anything else as what ended last in it did."""
        if self.row is not None:
            return "succeeded" if self.row.error is None else "failed"
        if self.batch is not None:
            return "failed" if self.batch.is_failed else "succeeded"
        if not self.step_count:
            return "unfinished"
        if self.is_batch:
            return "failed" if self.counts["failed"] == len(self.items) else "succeeded"
        return max(self.children, key=lambda branch: (branch.ended_s, branch.number)).standing

    @property
    def is_batch(self) -> bool:
        """Whether it has items."""
        return bool(self.items) or self.batch is not None

    @cached_property
    def batch(self) -> BatchNote | None:
        """What a batch has noted at its end; None while it is under way, also once more."""
        newest = max((row.generation for row in self._rows()), default=0)
        return self.note if self.note is not None and self.note.generation >= newest else None

    @cached_property
    def items(self) -> Sequence[Branch]:
        """Its items, as far as a step of them was begun."""
        return [branch for branch in self.children if branch.place == "item"]

    @cached_property
    def rounds(self) -> Sequence[Branch]:
        """Its rounds."""
        return [branch for branch in self.children if branch.place == "round"]

    @cached_property
    def counts(self) -> Counter[str]:
        """How many of its items stand how."""
        return Counter(branch.standing for branch in self.items)

    @property
    def item_count(self) -> int:
        """How many items there were at least: one without a step is known by those after it."""
        return self.items[-1].number + 1 if self.items else 0

    def grow(self, path: str) -> Branch:
        """Give the part at a path, made if it is not there."""
        branch = self
        for end, place, name, number in _parts(path):
            part = path[:end]
            if part not in branch.below:
                branch.below[part] = Branch(part, place, name, number)
            branch = branch.below[part]
        return branch

    def find(self, path: str) -> Branch | None:
        """Give the part at a path, None if there is none."""
        branch: Branch | None = self
        for end, *_ in _parts(path):
            branch = None if branch is None else branch.below.get(path[:end])
        return branch

    def walk(self) -> Iterator[Branch]:
        """Go through all that is below, in order."""
        for branch in self.children:
            yield branch
            yield from branch.walk()

    def _rows(self) -> Iterator[StepRow]:
        if self.row is not None:
            yield self.row
        else:
            for branch in self.below.values():
                yield from branch._rows()


def trace_of(steps: Iterable[StepRow], attempts: Iterable[AttemptRow] = ()) -> Branch:
    """Make the tree of a job's steps; of one done in several generations the last counts. The job's own attempts are left out."""
    root = Branch("", "node", "")
    latest_s = 0.0
    for row in steps:
        if row.is_note:
            _take_note(root, row, latest_s)
            continue
        latest_s = max(latest_s, row.began_s + row.duration_s)
        branch = root.grow(row.path)
        if branch.row is None or row.generation >= branch.row.generation:
            branch.row = row
    for attempt in attempts:
        if attempt.path and attempt.kind is not None:
            root.grow(attempt.path).failed_attempts.append(attempt)
    return root


def _take_note(root: Branch, row: StepRow, at_s: float) -> None:
    if row.path.endswith(BATCH):
        root.grow(row.path.removesuffix(BATCH)).note = batch_note(row, at_s)


def _parts(path: str) -> Iterator[tuple[int, Place, str, int]]:
    """Give the parts of a path: where each ends, what it is, its name and its number."""
    for found in _PART.finditer(path):
        name, index, round_number, other = found.groups()
        if index is not None:
            yield found.end(), "item", f"[{index}]", int(index)
        elif round_number is not None:
            yield found.end(), "round", f"round {round_number}", int(round_number)
        elif other != "/":
            yield found.end(), "node", name or other, 0


_MOST = (20, 6, 3)  # items or rounds of one node: outside of any other, inside of one, inside of two or more
_FIRST = 3
_MOST_NODES = 100


@dataclass(frozen=True, slots=True)
class Folded:
    """A part of a trace with what is shown of it; ``hidden`` counts by standing what is not."""

    branch: Branch
    children: Sequence[Folded]
    hidden: Counter[str]


def folded(branch: Branch, *, level: int = 0) -> Folded:
    """Choose what is shown of a part; ``level`` says how many items and rounds it is inside of."""
    nodes = [child for child in branch.children if child.place == "node"]
    shown = nodes[:_MOST_NODES] + _chosen(branch.items, level) + _chosen(branch.rounds, level)
    hidden: Counter[str] = Counter(child.standing for child in branch.children)
    hidden.subtract(child.standing for child in shown)
    inner = [folded(child, level=level + (child.place != "node")) for child in shown]
    return Folded(branch, inner, +hidden)


def _chosen(series: Sequence[Branch], level: int) -> list[Branch]:
    most = _MOST[min(level, len(_MOST) - 1)]
    if len(series) <= most:
        return list(series)
    first, rest = series[:_FIRST], series[_FIRST:]
    failed = [branch for branch in rest if branch.standing == "failed"][: most - len(first)]
    return [*first, *failed]


BATCH = "#batch"  # after the path of its node


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNote:
    """``failed`` counts those that timed out too; ``at_s`` is about when it ended, from the job's beginning."""

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
        """Whether the batch has failed, and not only some of its items."""
        return self.failed > 0 and not self.is_degraded


def batch_note(row: StepRow, at_s: float) -> BatchNote:
    """Read a note."""
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


MOST_BYTES = 2000
_NODE_OUTPUT = 3
_NODE_TAIL = re.compile(rb'\},"[^"]*",\[[^\[\]]*\]\]\Z')


def body_text(body: bytes | None, chars: int) -> str:
    """Give the beginning of a stored value as text, without reading all of a long one."""
    if body is None:
        return "null"
    return visible(_beginning(body, chars) if len(body) > MOST_BYTES else _plain_text(body), chars)


def visible(text: str, chars: int) -> str:
    """Make text fit for a line: cut, and with what a terminal would obey written out."""
    cut = text[:chars]
    told = "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode() for char in cut
    )
    return told if len(told) <= chars and len(text) <= chars else told[: chars - 1] + "…"


def read_body(body: bytes | None) -> Any:
    """Read what a row holds as JSON."""
    return None if body is None else json.loads(body)


def read_output(row: StepRow) -> tuple[Any, str | None]:
    """Give the output of a step and, of a workflow's node, the action it returned."""
    return _parted(read_body(row.output))


def error_message(body: bytes | None) -> str:
    """Give the kind and the message of a stored failure."""
    error = read_body(body)
    if not isinstance(error, dict):
        return "" if error is None else str(error)
    return ": ".join(str(error[name]) for name in ("kind", "message") if error.get(name))


def _beginning(body: bytes, chars: int) -> str:
    is_node = body.startswith(b"[{") and _NODE_TAIL.search(body[-MOST_BYTES:]) is not None
    return body[is_node : chars * 4].decode(errors="ignore")


def _plain_text(body: bytes) -> str:
    value, action = _parted(json.loads(body))
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if action in (None, "default") else f"{action}: {text}"


def _parted(value: Any) -> tuple[Any, str | None]:
    """Tell a node's output, which is kept with its action and flags, from any other value."""
    if isinstance(value, list) and len(value) == _NODE_OUTPUT:
        values, action, flags = value
        if isinstance(values, dict) and isinstance(action, str) and isinstance(flags, list):
            return values, action
    return value, None
