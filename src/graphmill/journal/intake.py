"""The items of a source as jobs: each is identified, compared with its record, and skipped if that is valid."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import groupby, islice
from struct import Struct
from typing import Any, TypeVar

import msgspec

from graphmill.core.errors import ChangedError, DuplicateIdError, UsageError, message_of
from graphmill.core.job import Effect, Job, sample_id
from graphmill.core.json import canonical, digest, item_key, json_bytes
from graphmill.core.result import Status
from graphmill.journal.records import RecordedOutcome, RunRecord
from graphmill.journal.resume import (
    NO_PAST_WORK,
    OnChange,
    RecordedItem,
    ResumeRules,
    RunItem,
    SkipItem,
    ValidSteps,
    decide,
    past_work,
)
from graphmill.journal.store import Archive

_NO_OUTCOMES: Mapping[bytes, RecordedOutcome] = {}
T = TypeVar("T")

CHUNK = 500
_ID_CHARS = 16
_MOST_NAMED = 5


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


class ItemRecord(msgspec.Struct, frozen=True, gc=False):
    """What a job's rows need: keys, position, the input as stored, and which of its steps are done already.

    If ``is_suspected``, the process has died under it.
    """

    key: bytes
    generation: int
    position: int
    content: bytes
    body: bytes | None
    valid: ValidSteps
    is_suspected: bool = False


class _Item(msgspec.Struct, frozen=True, gc=False):
    """An item with its name and keys."""

    position: int
    draft: ItemDraft
    name: str
    key: bytes
    content: bytes


class Intake:
    """The jobs of a run: iterate it once or, for an async source, asynchronously.

    ``records`` holds what the rows of running jobs need, by job id. ``count`` is the number of items so far, ``known``
    how many of them have a result, and ``done`` counts the results that stay valid. With ``has_past`` something is
    recorded of unfinished items; with ``is_whole`` these are all items of the run, not only some that run again.
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
        self._rules = ResumeRules(run.generation, on_change, reuses_inputs=not is_whole)
        # A source that may be slow is read one item at a time, so that no item waits until the next one is known.
        self._chunk = CHUNK if isinstance(items, list | tuple | range) or getattr(items, "is_stored", False) else 1
        self._suspects = suspects
        self.is_whole = is_whole
        self._seen = SeenKeys()
        self._found = SeenRows()
        self._edited = EditedItems()
        self._has_past = has_past
        self._hash = blake2b(digest_size=16)
        self.records: dict[str, ItemRecord] = {}
        self._given = 0  # jobs that were left to do
        self.count = 0
        self.known = 0
        self.done: Counter[Status] = Counter()

    def series(self) -> Iterable[Job] | AsyncIterable[Job]:
        """Return what the engine runs: iterated in a thread, or, for an async source, on the loop."""
        if isinstance(self._items, AsyncIterable):
            return self._asynchronously()
        return self._plainly()

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
        """Close the connection."""
        self._seen.close()
        self._lookup.close()

    def _plainly(self) -> Iterator[Job]:
        items = iter(self._items)
        try:
            if self._run.rows:
                yield from self._looked_up(items)
                return
            # Not starmap: a StopIteration of an item's own code would end the source.
            for position, given in enumerate(items):
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
        """Return the job of an item in a run that has no results."""
        item = self._item(position, given)
        self._hash.update(item.content)
        self.count += 1
        if self._seen.add(item.key) > 1:
            raise _repeated(item)
        return self._job(item, self._decide_new(item))

    def _admit(self, chunk: Sequence[tuple[int, Any]]) -> Iterator[Job]:
        """Return the jobs of a chunk; what is wrong with an item is raised after those before it."""
        items, error = _until_wrong(self._item(position, given) for position, given in chunk)
        self.count += len(items)
        self._hash.update(b"".join([item.content for item in items]))
        left, wrong = _until_wrong(self._left(items))
        for item, decision in left:
            if not self._edited:
                yield self._job(item, decision)
        if (first := wrong or error) is not None:
            raise first

    def _left(self, items: Sequence[_Item]) -> Iterator[tuple[_Item, RunItem]]:
        """Return those of a chunk that run; count the others.

        The store settles most of them as ``decide`` would: a result that succeeded with this content is skipped.
        """
        if not items:
            return
        rows = self._lookup.settled([item.key for item in items], [item.content for item in items])
        asked = [item.key for item, row in zip(items, rows, strict=True) if row is None]
        outcomes = self._lookup.outcomes(asked) if asked else _NO_OUTCOMES
        settled = 0
        try:
            for item, row in zip(items, rows, strict=True):
                if row is not None:
                    if not self._found.add(row):
                        raise _repeated(item)
                    settled += 1
                    continue
                outcome = outcomes.get(item.key)
                self._require_once(item, outcome)
                if outcome is None:
                    yield item, self._decide_new(item)
                elif (decision := self._decide_again(item, outcome)) is not None:
                    yield item, decision
        finally:
            if settled:  # all at once: nearly every item of a resume is one of them
                self.known += settled
                self.done[Status.SUCCEEDED] += settled

    def _decide_new(self, item: _Item) -> RunItem:
        """Run an item that has no result; its notes are only read if something is recorded of unfinished items."""
        recorded = self._recorded(item, None) if self._has_past else None
        return RunItem(self._rules.generation, item.content, recorded)

    def _decide_again(self, item: _Item, outcome: RecordedOutcome) -> RunItem | None:
        """Decide about an item that has a result; None if it is not run."""
        self.known += 1
        decision = decide(self._recorded(item, outcome), content=item.content, rules=self._rules)
        if isinstance(decision, RunItem):
            self._seen.add(item.key)  # it will have another row
            return decision
        if isinstance(decision, SkipItem):
            self.done[decision.status] += 1
        else:
            self._edited.add(item.name, item.position)
        return None

    def _recorded(self, item: _Item, outcome: RecordedOutcome | None) -> RecordedItem:
        return RecordedItem(
            outcome,
            read_notes=lambda: self._lookup.notes(item.key),
            read_last_steps=lambda: self._lookup.last_steps(item.key),
            is_suspect=item.key in self._suspects,
        )

    def _require_once(self, item: _Item, outcome: RecordedOutcome | None) -> None:
        # What has a result is known by its row: a bit each, where the keys of what is new go to disk.
        # What is new when this reading began may be done since.
        if outcome is None:
            is_new = self._seen.add(item.key) == 1
        else:
            is_new = self._found.add(outcome.row) and item.key not in self._seen
        if not is_new:
            raise _repeated(item)

    def _item(self, position: int, item: Any) -> _Item:
        """Name an item by its own id, or by its content and, from the second one like it on, a number."""
        draft = self._identify(position, item)
        name = draft.id
        try:
            content = digest(canonical(draft.input))
        except (TypeError, ValueError, RecursionError) as error:
            content = _no_content(draft, position, error)
        if name is None:
            mark = b"=%d" % draft.sample if draft.sample else b"="  # not to be taken for the key of an item
            count = self._seen.add(content + mark)
            name = content.hex()[:_ID_CHARS]
            if count > 1:
                name += f"~{count}"
            name = sample_id(name, draft.sample)
        if draft.position is not None:
            position = draft.position
        return _Item(position, draft, name, item_key(name), content)

    def _job(self, item: _Item, decision: RunItem) -> Job:
        draft, name, position = item.draft, item.name, item.position
        generation, content = decision.generation, decision.content
        work = NO_PAST_WORK
        if decision.recorded is not None:  # reads the item's steps
            work = past_work(decision.recorded, generation, (draft.job or draft).effect)
        valid = work.valid
        self.records[name] = ItemRecord(
            item.key,
            generation,
            position,
            content,
            json_bytes(draft.input) if content else None,
            valid,
            work.is_suspected,
        )
        job = draft.job or Job(
            id=name,
            graph=draft.graph,
            input=draft.input,
            priority=draft.priority,
            key=draft.lane,
            effect=draft.effect,
            sample=draft.sample,
        )
        first_generation = valid.since or generation
        is_in_place = position == self._given
        self._given += 1
        if decision.recorded is None and is_in_place and first_generation == 1:
            return job
        past = msgspec.structs.replace(
            work.past, position=None if is_in_place else position, generation=first_generation
        )
        if work.instead is not None:
            return msgspec.structs.replace(job, graph=work.instead, effect="repeatable", past=past)
        return msgspec.structs.replace(job, past=past)


def _no_content(draft: ItemDraft, position: int, error: Exception) -> bytes:
    if draft.id is not None:  # known by its id; whether it has changed cannot be known
        return b""
    raise UsageError(
        f"the item at position {position} can't be identified after a restart: {message_of(error)}; "
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
            return ChangedError(
                f"item {named} has changed since its result was recorded; use --on-change invalidate to redo it, or "
                "--on-change keep to keep its result"
            )
        return ChangedError(
            f"items {named} have changed since their results were recorded; use --on-change invalidate to redo them, "
            "or --on-change keep to keep their results"
        )


# -- which items have been read: by their keys, on disk, and by their rows, one bit each

_BITS = 21  # address a byte of the filter: with a million keys, one new key in seventy is taken for a known one
_UNUSED = 32 - _BITS
_numbers = Struct("<II").unpack_from
_WAITING = 10_000  # stored in their order, many go to one page
# One statement for all, which leaves Python's lock to the run: they come side by side in one value.
_STORE = """
WITH RECURSIVE places (place) AS (
  SELECT 1 UNION ALL SELECT place + :length FROM places WHERE place + :length < length(:keys)
)
INSERT INTO seen SELECT substr(:keys, place, :length), 1 FROM places
"""


class SeenKeys:
    """Counts keys. Not for two threads at once.

    A filter in memory recognises new keys, as nearly all are; only a key that may be known is looked up on disk.
    """

    def __init__(self) -> None:
        # The empty name is a private file that SQLite unlinks as soon as it is open.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("CREATE TABLE seen (key BLOB PRIMARY KEY, times INTEGER NOT NULL) WITHOUT ROWID")
        self._database.execute("BEGIN")
        self._filter = bytearray(2**_BITS)
        self._new: list[bytes] = []
        self._is_used = False

    def add(self, key: bytes) -> int:
        """Count a key; return how often it has been seen by now, this time included."""
        self._is_used = True
        bits, (first, second) = self._filter, _numbers(key)  # _places, without a call
        one, bit, two, other = first >> _UNUSED, 1 << (first & 7), second >> _UNUSED, 1 << (second & 7)
        if bits[one] & bit and bits[two] & other:
            return self._again(key)
        bits[one] |= bit
        bits[two] |= other
        self._new.append(key)
        if len(self._new) >= _WAITING:
            self._store()
        return 1

    def __contains__(self, key: bytes) -> bool:
        if not self._is_used:
            return False
        one, bit, two, other = _places(key)
        if not (self._filter[one] & bit and self._filter[two] & other):
            return False
        self._store()
        return self._database.execute("SELECT 1 FROM seen WHERE key = ?", (key,)).fetchone() is not None

    def close(self) -> None:
        """Forget them all."""
        self._database.close()

    def _again(self, key: bytes) -> int:
        self._store()
        statement = "INSERT INTO seen VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET times = times + 1 RETURNING times"
        return int(self._database.execute(statement, (key,)).fetchone()[0])

    def _store(self) -> None:
        self._new.sort()
        self._new.sort(key=len)
        for length, keys in groupby(self._new, len):
            self._database.execute(_STORE, {"keys": b"".join(keys), "length": length})
        self._new.clear()


def _places(key: bytes) -> tuple[int, int, int, int]:
    """Return the two bits of a key, each as its byte and its mask."""
    first, second = _numbers(key)
    return first >> _UNUSED, 1 << (first & 7), second >> _UNUSED, 1 << (second & 7)


class SeenRows:
    """Which rows were seen."""

    def __init__(self) -> None:
        self._bits = bytearray()

    def add(self, number: int) -> bool:
        """Mark a number; return whether it was not marked before."""
        place, bit = number >> 3, 1 << (number & 7)
        if place >= len(self._bits):
            self._bits.extend(bytes(max(1024, place + 1 - len(self._bits))))
        if self._bits[place] & bit:
            return False
        self._bits[place] |= bit
        return True

    def __contains__(self, number: int) -> bool:
        place = number >> 3
        return place < len(self._bits) and bool(self._bits[place] & 1 << (number & 7))
