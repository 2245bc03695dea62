"""The items of a source as jobs: each is identified, compared with what is recorded, and skipped if that is still valid."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import msgspec

from graphmill.core.errors import ChangedError, DuplicateIdError, UsageError, message_of
from graphmill.core.job import Effect, Job, Past, sample_id
from graphmill.core.json import canonical, digest, item_key, json_bytes
from graphmill.core.result import Kind, Status
from graphmill.engine.results.recorder import FailedAttempts
from graphmill.journal.answers import is_answered
from graphmill.journal.bodies import in_order
from graphmill.journal.records import ItemNotes, RecordedOutcome, RunRecord, StepRow
from graphmill.journal.resume import NOT_COUNTED, ambiguous, poisoned, used_by, valid_steps
from graphmill.journal.seen import SeenKeys, SeenRows
from graphmill.journal.store import Archive

_NO_FAILED: Mapping[str, FailedAttempts] = MappingProxyType({})
_NO_OUTCOMES: Mapping[bytes, RecordedOutcome] = {}
OnChange = Literal["refuse", "invalidate", "keep"]
T = TypeVar("T")

CHUNK = 500
MOST_CRASHES_ALONE = 3
_ID_CHARS = 16


class ItemDraft(msgspec.Struct, frozen=True, gc=False):
    """An item as its source gives it: what it is called, if it says so, and what is to be done with it."""

    id: str | None
    graph: Callable[[Any], Any]
    input: Any
    priority: int = 0
    lane: str = ""
    effect: Effect = "repeatable"
    position: int | None = None
    job: Job | None = None
    sample: int = 0


Identify = Callable[[int, Any], ItemDraft]


class JobRecord(msgspec.Struct, frozen=True, gc=False):
    """What a job's rows need: its keys, where it stands in the source, its input as stored; and what it has done before.

    ``steps``, ``intended``, ``failed`` and ``since`` are what stands of its steps; ``is_suspected``: the process has died under it.
    """

    key: bytes
    generation: int
    position: int
    content: bytes
    body: bytes | None
    steps: Sequence[StepRow] = ()
    intended: frozenset[str] = frozenset()
    failed: Mapping[str, FailedAttempts] = _NO_FAILED
    since: int = 0
    is_suspected: bool = False


class _Item(msgspec.Struct, frozen=True, gc=False):
    """An item with its name and keys."""

    position: int
    draft: ItemDraft
    name: str
    key: bytes
    content: bytes


class Intake:
    """Iterate it once, or, for an async source, asynchronously: it gives the jobs to be done.

    ``records`` are what the rows of the jobs under way need, by their ids. ``count`` are the items so far, ``known`` those of
    them that have a result; ``done`` counts the results that stand. ``has_past`` says that something is recorded of items that
    are not finished, ``is_whole`` that these are all the items of the run, and not only some that are done again.
    """

    def __init__(
        self,
        items: Any,
        identify: Identify,
        *,
        run: RunRecord,
        archive: Archive,
        on_change: OnChange,
        suspects: frozenset[bytes],
        has_past: bool,
        is_whole: bool,
    ) -> None:
        self._items = items
        self._identify = identify
        self._run = run
        self._lookup = archive.lookup(run)
        self._on_change = on_change
        # A source that may be slow is read one item at a time, so that no item waits until the next one is known.
        self._chunk = CHUNK if isinstance(items, list | tuple | range) or getattr(items, "is_stored", False) else 1
        self._suspects = suspects
        self.is_whole = is_whole
        self._seen = SeenKeys()
        self._found = SeenRows()
        self._edited = EditedItems()
        self._has_past = has_past
        self._hash = blake2b(digest_size=16)
        self.records: dict[str, JobRecord] = {}
        self._given = 0  # jobs that were left to do
        self.count = 0
        self.known = 0
        self.done: Counter[Status] = Counter()

    def series(self) -> Iterable[Job] | AsyncIterable[Job]:
        """Give what the engine runs: iterated in a thread, or, for an async source, on the loop."""
        return self._asynchronously() if isinstance(self._items, AsyncIterable) else self._plainly()

    @property
    def input_hash(self) -> str:
        """The hash of all items so far, in their order."""
        return self._hash.hexdigest()

    def orphans(self) -> list[bytes]:
        """List the items that have results and were not in the source."""
        if self._run.rows <= self.known:  # of before this reading; more rows than items are of several generations
            return []
        return [key for row, key in self._lookup.rows() if row not in self._found and key not in self._seen]

    def close(self) -> None:
        """Let go of the disk."""
        self._seen.close()
        self._lookup.close()

    def _plainly(self) -> Iterator[Job]:
        items = iter(self._items)
        try:
            if self._run.rows:
                yield from self._looked_up(items)
                return
            for position, given in enumerate(
                items
            ):  # not starmap: a StopIteration of an item's own code would end the source
                yield self._new(position, given)
        finally:
            if isinstance(items, Generator):
                items.close()  # it ends with its reader, not when the last one forgets it

    def _looked_up(self, items: Iterator[Any]) -> Iterator[Job]:
        entries = enumerate(items)
        is_over = False
        while not is_over:
            chunk, error = _until_wrong(islice(entries, self._chunk))
            is_over = len(chunk) < self._chunk
            yield from self._admit(chunk)
            if self._edited and (is_over or error is not None or self._chunk == 1):
                raise self._edited.refusal()
            if error is not None:
                raise error

    async def _asynchronously(self) -> AsyncIterator[Job]:
        position = 0
        try:
            async for item in self._items:
                for job in await self._admitted(position, item):
                    yield job
                position += 1
        finally:
            if close := getattr(self._items, "aclose", None):
                await close()

    async def _admitted(self, position: int, item: Any) -> Sequence[Job]:
        """Look an item up in a thread: the store may be slow, and must not hold the loop."""
        if not self._run.rows:
            return [self._new(position, item)]
        jobs = await asyncio.to_thread(lambda: list(self._admit([(position, item)])))
        if self._edited:
            raise self._edited.refusal()
        return jobs

    def _new(self, position: int, given: Any) -> Job:
        """Give the job of an item in a run that has no results."""
        item = self._item(position, given)
        self._hash.update(item.content)
        self.count += 1
        if self._seen.add(item.key) > 1:
            raise _repeated(item)
        return self._job(item, self._run.generation)

    def _admit(self, chunk: Sequence[tuple[int, Any]]) -> Iterator[Job]:
        """Give the jobs of a chunk; what is wrong with an item is raised after those before it."""
        items, error = _until_wrong(self._item(position, given) for position, given in chunk)
        self.count += len(items)
        self._hash.update(b"".join([item.content for item in items]))
        left, wrong = _until_wrong(self._left(items))
        for item, outcome, generation in left:
            if not self._edited:
                yield self._job(item if outcome is None else self._again(item, outcome), generation, outcome)
        if (first := wrong or error) is not None:
            raise first

    def _left(self, items: Sequence[_Item]) -> Iterator[tuple[_Item, RecordedOutcome | None, int]]:
        """Give those of a chunk that are to be done, with what is recorded of each, and in which generation; count the others."""
        rows = self._lookup.settled([item.key for item in items], [item.content for item in items]) if items else ()
        asked = [item.key for item, row in zip(items, rows, strict=True) if row is None]
        outcomes = self._lookup.outcomes(asked) if asked else _NO_OUTCOMES
        settled = 0
        try:
            for item, row in zip(items, rows, strict=True):
                if row is None:
                    outcome = outcomes.get(item.key)
                    self._require_once(item, outcome)
                    generation = self._generation(item, outcome)
                    if generation is not None:
                        yield item, outcome, generation
                elif self._found.add(row):
                    settled += 1
                else:
                    raise _repeated(item)
        finally:
            if settled:  # all at once: nearly every item of a resume is one of them
                self.known += settled
                self.done[Status.SUCCEEDED] += settled

    def _require_once(self, item: _Item, outcome: RecordedOutcome | None) -> None:
        # What has a result is known by its row: a bit each, where the keys of what is new go to disk.
        # What is new when this reading began may be done since.
        is_new = (
            self._seen.add(item.key) == 1
            if outcome is None
            else self._found.add(outcome.row) and item.key not in self._seen
        )
        if not is_new:
            raise _repeated(item)

    def _again(self, item: _Item, outcome: RecordedOutcome) -> _Item:
        """Prepare an item that has a result to be done again: it will have another row, and, if it was stored, it is what it was."""
        self._seen.add(item.key)
        return item if self.is_whole else msgspec.structs.replace(item, content=outcome.content)

    def _item(self, position: int, item: Any) -> _Item:
        """Name an item: by its own id, which may stand once, else by its content and, from the second like it on, a number."""
        draft = self._identify(position, item)
        name = draft.id
        try:
            content = digest(canonical(draft.input))
        except (TypeError, ValueError, RecursionError) as error:
            content = _no_content(draft, position, error)
        if name is None:
            count = self._seen.add(
                content + (b"=%d" % draft.sample if draft.sample else b"=")
            )  # not to be taken for the key of an item
            name = content.hex()[:_ID_CHARS] if count == 1 else f"{content.hex()[:_ID_CHARS]}~{count}"
            name = sample_id(name, draft.sample)
        return _Item(position if draft.position is None else draft.position, draft, name, item_key(name), content)

    def _generation(self, item: _Item, outcome: RecordedOutcome | None) -> int | None:
        """Tell in which generation an item is to be done; None if what is recorded stands."""
        if outcome is None:
            return self._run.generation
        self.known += 1
        wanted = max(self._run.generation, outcome.wanted)
        if outcome.generation < wanted:
            return wanted
        if item.content == outcome.content or self._on_change == "keep":
            if outcome.status is Status.PAUSED and is_answered(self._lookup.notes(item.key).steps, outcome.generation):
                return outcome.generation + 1
            self.done[outcome.status] += 1
            return None
        if self._on_change == "invalidate":
            return outcome.generation + 1
        self._edited.add(item.name, item.position)
        return None

    def _job(self, item: _Item, generation: int, outcome: RecordedOutcome | None = None) -> Job:
        draft, name, position = item.draft, item.name, item.position
        body = json_bytes(draft.input) if item.content else None
        record = self.records[name] = JobRecord(item.key, generation, position, item.content, body)
        job = draft.job or Job(
            id=name,
            graph=draft.graph,
            input=draft.input,
            priority=draft.priority,
            key=draft.lane,
            effect=draft.effect,
            sample=draft.sample,
        )
        if self._has_past or outcome is not None:
            job = self._with_past(job, record, outcome)
            generation = self.records[name].since or generation
        is_in_place = position == self._given
        self._given += 1
        if is_in_place and generation == 1:
            return job
        past = msgspec.structs.replace(job.past, position=None if is_in_place else position, generation=generation)
        return msgspec.structs.replace(job, past=past)

    def _with_past(self, job: Job, record: JobRecord, outcome: RecordedOutcome | None) -> Job:
        """Add what earlier processes have recorded of a job that is not finished."""
        notes = self._lookup.notes(record.key)
        if outcome is not None:
            notes = replace(notes, steps=in_order(notes.steps, self._lookup.last_steps(record.key)))
        stands = valid_steps(notes, record.generation, outcome)
        past = _past(notes, stands.since, is_suspect=record.key in self._suspects)
        if notes.suspect is not None and notes.suspect.alone >= MOST_CRASHES_ALONE:
            past = msgspec.structs.replace(past, crashes=MOST_CRASHES_ALONE)
            return msgspec.structs.replace(job, graph=poisoned, effect="repeatable", past=past)
        if job.effect == "unsafe" and "" in stands.intended:
            return msgspec.structs.replace(job, graph=ambiguous, effect="repeatable", past=past)
        is_suspected = notes.suspect is not None and notes.suspect.crashes > 0
        self.records[job.id] = msgspec.structs.replace(record, **stands._asdict(), is_suspected=is_suspected)
        return msgspec.structs.replace(job, past=past)


def _no_content(draft: ItemDraft, position: int, error: Exception) -> bytes:
    if draft.id is not None:  # known by its id; that it is still the same can not be told
        return b""
    raise UsageError(
        f"the item at position {position} can not be told from others after a restart: {message_of(error)}; "
        "give it an id, or make it plain data"
    ) from error


def _repeated(item: _Item) -> DuplicateIdError:
    return DuplicateIdError(item.name, first=None, second=item.position)


def _until_wrong(entries: Iterable[T]) -> tuple[list[T], Exception | None]:
    """Take entries, and what was raised instead of the next one: what came before a mistake counts."""
    taken: list[T] = []
    try:
        for entry in entries:
            taken.append(entry)  # noqa: PERF402
    except Exception as error:  # noqa: BLE001
        return taken, error
    return taken, None


def _past(notes: ItemNotes, since: int, *, is_suspect: bool) -> Past:
    """Count the failed attempts of the job itself, not of its steps."""
    failed = [
        attempt
        for attempt in notes.attempts
        if attempt.generation >= since and attempt.kind is not None and not attempt.path
    ]
    return Past(
        attempts=max((attempt.attempt for attempt in failed), default=0),
        counted=sum(attempt.kind not in NOT_COUNTED for attempt in failed),
        crashes=sum(attempt.kind is Kind.CRASH for attempt in failed),
        is_suspect=is_suspect,
        usage=used_by(failed),
    )


_MOST_NAMED = 5


class EditedItems:
    """Counts them and keeps the names of the first."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._count = 0

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, name: str, position: int) -> None:
        """Note one."""
        self._count += 1
        if len(self._first) < _MOST_NAMED:
            self._first.append(f"{name!r:.80} (position {position})")

    def refusal(self) -> ChangedError:
        """Name them all, or the first and how many more there are; and what can be done."""
        more = f" and {self._count - len(self._first):,} more" if self._count > len(self._first) else ""
        named = f"{', '.join(self._first)}{more}"
        if self._count == 1:
            said = f"the item {named} is not what it was when its result was recorded"
            return ChangedError(
                f"{said}; go on with --on-change invalidate (do it again) or --on-change keep (keep its old result)"
            )
        said = f"the items {named} are not what they were when their results were recorded"
        return ChangedError(
            f"{said}; go on with --on-change invalidate (do them again) or --on-change keep (keep their old results)"
        )
