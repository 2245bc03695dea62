"""What the journal holds, as values: runs, and the rows that their owners write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from graphmill.core.result import Kind, Result, Status
from graphmill.core.usage import RunUsage, Usage
from graphmill.engine.jobs.context import ASK

# By model; that of a row is in no other row, so that all of a run add up to what it has used.
Spent = Mapping[str, Usage]
_ASKED = f"{ASK}#"
_BATCH_NAMED_SO = f"{ASK}#batch"  # the summary of a batch node that has this id
REHEARSE = "rehearse"  # an option in manifests: the script that answers in place of models
RECORD_PROMPTS = "record_prompts"  # an option in manifests; without it a run records what is sent to models


class RunState(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


class RunStatus(NamedTuple):
    """A run's state, its cause in one word, and whether its process lives.

    A run is paused by request, interrupted (its process died), by an outage, its budget or a question; it failed by
    fail_fast, max_failures, deadline, stuck, journal or an error.
    """

    state: RunState
    cause: str = ""
    is_live: bool = False

    def __str__(self) -> str:
        is_in_reason = self.cause in ("", "error", "request", "question", "outage", "budget")
        return str(self.state) if is_in_reason else f"{self.state} ({self.cause})"


RUNNING = RunStatus(RunState.RUNNING, is_live=True)
HELD = RunStatus(RunState.PAUSED, "request", is_live=True)
STOPPING = RunStatus(RunState.RUNNING, "stopping", is_live=True)  # it starts nothing more
INTERRUPTED = RunStatus(RunState.PAUSED, "interrupted")  # never stored: a run that was live and whose owner has died
FINISHED = RunStatus(RunState.FINISHED)
CANCELLED = RunStatus(RunState.CANCELLED)
SOURCE_FAILED = RunStatus(RunState.FAILED, "error")
PAUSE_CAUSES = ("request", "outage", "budget", "question", "error")  # in the order of their codes in a journal
FAILURE_CAUSES = ("error", "fail_fast", "max_failures", "deadline", "stuck", "journal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The process that runs a run, or was the last to do so; ``since`` is seconds of the store's wall clock."""

    host: str
    pid: int
    since: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A run as the store knows it. Times are seconds of the store's wall clock.

    ``reason`` says why it ended, or what it waits for. Results of a lower ``generation`` than the run's run again.
    ``is_read`` says that the source was read to the end. ``total`` is None where it is unknown. ``elapsed_s`` adds up
    the time that the run was under way before its present or last owner, and with that one's once it has ended in
    order.

    ``rows`` counts its results, ``steps`` the outcomes of steps inside them, ``notes`` the noted attempts, steps and
    suspicions, and ``orphans`` the items that have left the source. ``epoch`` is the number of owners it has had.
    ``usage`` adds up what its rows have spent.
    """

    number: int
    id: str
    status: RunStatus
    reason: str
    owner: Owner | None
    epoch: int
    generation: int
    created_at: float
    changed_at: float
    elapsed_s: float
    total: int | None
    is_read: bool
    rows: int
    steps: int = 0
    notes: int = 0
    orphans: int = 0
    manifest: Mapping[str, Any]
    usage: RunUsage = field(default_factory=RunUsage)

    @property
    def state(self) -> RunState:
        """The state of the run."""
        return self.status.state

    def is_outdated(self, generation: int) -> bool:
        """Whether a result of this generation is from before a change, and an unfinished run redoes it."""
        return generation < self.generation and self.state is not RunState.FINISHED

    @property
    def is_live(self) -> bool:
        """Whether a process is at work on it, though it may start nothing new."""
        return self.status.is_live

    @property
    def is_interrupted(self) -> bool:
        """Whether its process died."""
        return self.status == INTERRUPTED

    @property
    def options(self) -> Mapping[str, Any]:
        """The options that its manifest records."""
        return self._noted("options")

    @property
    def graph(self) -> Mapping[str, Any]:
        """What its manifest says of its graph; empty if each job brought its own."""
        return self._noted("graph")

    @property
    def graph_name(self) -> str:
        """The name of its graph; empty if each job brought its own."""
        return str(self.graph.get("name") or "")

    @property
    def policy(self) -> Mapping[str, Any]:
        """The rules it runs under, as ``policy_from`` reads them; empty if its program alone knows them."""
        return self._noted("policy")

    @property
    def source(self) -> Mapping[str, Any]:
        """Where its items come from: ``path``, ``run`` or ``item``; empty if from standard input or a program."""
        return self._noted("source")

    @property
    def is_single(self) -> bool:
        """Whether it is a run of one job, as ``graphmill run`` starts it."""
        return "item" in self.source

    @property
    def is_rehearsal(self) -> bool:
        """Whether a script answered in place of models."""
        return REHEARSE in self.options

    @property
    def samples(self) -> int:
        """How often it runs each item."""
        return int(self.options.get("samples", 1))

    @property
    def scored_id(self) -> str:
        """The id of the run that it scores; empty if it is not a scoring pass."""
        return str(self.manifest.get("of") or "")

    @property
    def is_pass(self) -> bool:
        """Whether it is a scoring pass over another run."""
        return bool(self.scored_id)

    def _noted(self, name: str) -> Mapping[str, Any]:
        found = self.manifest.get(name)
        return found if isinstance(found, Mapping) else {}

    def elapsed_at(self, now: float) -> float:
        """Return how long it was under way until now or, if its process died, until its last record."""
        if self.owner is None or not (self.is_live or self.is_interrupted):
            return self.elapsed_s
        return self.elapsed_s + max(0.0, (now if self.is_live else self.changed_at) - self.owner.since)


class ResultRow(msgspec.Struct, frozen=True, gc=False):
    """The outcome of one item in one generation; recorded once.

    Bodies are canonical JSON; ``content`` is the input's hash. ``more`` holds usage, cost and flags; ``is_degraded``
    and ``is_partial`` are two of the flags, for counts. Usage covers all that led to the outcome, whichever rows name
    it too; ``spent`` is what no earlier row has named.
    """

    key: bytes
    generation: int
    item_id: str
    position: int
    content: bytes
    status: Status
    kind: Kind | None
    attempts: int
    queued_s: float
    duration_s: float
    input: bytes | None
    output: bytes | None
    error: bytes | None
    more: bytes | None = None
    is_degraded: bool = False
    spent: Spent | None = None
    is_partial: bool = False


class StepRow(NamedTuple):
    """The outcome of one step inside a job; recorded once for each (key, generation, path, content).

    ``began_s`` counts from the start of the job. A row without attempts is a note: what the job's program has decided,
    as an output or, if like a failure it must not outlive its generation, as an error.
    """

    key: bytes
    generation: int
    path: str
    content: bytes
    attempts: int
    duration_s: float
    output: bytes | None
    error: bytes | None
    usage: bytes | None = None
    began_s: float = 0.0
    spent: Spent | None = None

    @property
    def is_note(self) -> bool:
        """Whether it is a note, and not a step's outcome."""
        return not self.attempts

    @property
    def is_answer(self) -> bool:
        """Whether it is what a person has answered to a question of its job."""
        if self.attempts:
            return False
        name = self.path.rpartition("/")[2]
        return name.startswith(_ASKED) and name != _BATCH_NAMED_SO

    @property
    def noted(self) -> bytes | None:
        """What it says, if it is a note."""
        return self.error if self.output is None else self.output


class AttemptRow(NamedTuple):
    """A failed attempt that another follows; or, with kind None, an unsafe attempt that is about to start.

    ``path`` names the step inside the job, and is empty for the job itself. The second of two with the same (key,
    generation, path, attempt) replaces the first.
    """

    key: bytes
    generation: int
    path: str
    attempt: int
    kind: Kind | None
    error: bytes | None
    usage: bytes | None = None
    spent: Spent | None = None


class CallRow(NamedTuple):
    """A call of a model by a step; ``encode`` returns it as JSON, in the thread that writes."""

    key: bytes
    generation: int
    path: str
    encode: Callable[[], bytes]


class WantedRow(NamedTuple):
    """An item whose results below this generation do not count: it is to be done again."""

    key: bytes
    generation: int


class SuspectRow(NamedTuple):
    """An item that was under way when the whole process died: how often so far, and how often nothing else was."""

    key: bytes
    crashes: int
    alone: int


class OrphansRow(NamedTuple):
    """All the items that have results but are no longer in the source; replaces what was noted before."""

    keys: Sequence[bytes]


class RunRow(NamedTuple):
    """What changes in a run's own record; None leaves a field as it is.

    ``more_s`` is added to its elapsed time, and ``spent``, which no item's row tells, to its usage.
    """

    status: RunStatus | None = None
    reason: str | None = None
    total: int | None = None
    is_read: bool | None = None
    more_s: float = 0.0
    generation: int | None = None
    manifest: Mapping[str, Any] | None = None
    spent: Spent | None = None


Row = ResultRow | StepRow | AttemptRow | CallRow | WantedRow | SuspectRow | OrphansRow | RunRow


class RecordedOutcome(NamedTuple):
    """What a resume needs to know of an item's result of the highest generation.

    ``wanted`` is the least generation that counts, 0 for any. ``row`` identifies the result among those of the run: the
    rows of a run lie close together.
    """

    row: int
    generation: int
    status: Status
    content: bytes
    wanted: int
    kind: Kind | None = None
    is_partial: bool = False


class RunRequest(NamedTuple):
    """What somebody asks of a live run through the store: ``word`` is pause, unpause, cancel, cancel_item or limit."""

    word: str
    argument: str = ""


class ResultCount(NamedTuple):
    """How many current results of a run have this status, kind and generation, and are degraded or partial or not."""

    status: Status
    kind: Kind | None
    generation: int
    number: int
    is_degraded: bool = False
    is_partial: bool = False


class StoredCall(NamedTuple):
    """A call of a model as it was recorded; ``body`` is JSON."""

    generation: int
    body: bytes


class Entry(NamedTuple):
    """A result in the archive; ``at`` is when it was committed."""

    key: bytes
    generation: int
    at: float
    is_orphaned: bool
    result: Result


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemNotes:
    """What the journal holds of one item beside its results: failed attempts, steps and suspicions."""

    attempts: Sequence[AttemptRow] = ()
    steps: Sequence[StepRow] = ()
    suspect: SuspectRow | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemHistory(ItemNotes):
    """Everything the journal holds of one item, with its results by generation and the generation wanted."""

    entries: Sequence[Entry] = ()
    calls: Sequence[StoredCall] = ()
    wanted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which results to read; None selects all. Only the highest generation of each item counts.

    ``or_partial`` also selects partial ones, whatever ``statuses`` and ``kinds`` say. ``position`` is that in the
    source, ``from_position`` and ``from_generation`` the least, ``id_prefix`` how the item's id begins. ``offset``
    leaves out the first that are selected.
    """

    statuses: frozenset[Status] | None = None
    kinds: frozenset[Kind] | None = None
    is_degraded: bool = False
    or_partial: bool = False
    position: int | None = None
    from_position: int = 0
    from_generation: int = 0
    id_prefix: str | None = None
    offset: int = 0
    limit: int | None = None


EVERYTHING = Query()
