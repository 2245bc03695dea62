"""A journal: a store, and how a run in it is started, resumed or retried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graphmill.core.errors import ChangedError, GraphmillError, UnknownRunError, UsageError
from graphmill.core.fingerprint import changed
from graphmill.core.job import Job
from graphmill.core.json import item_key
from graphmill.core.result import ANSWER_CAUSES, FAILURES, Kind, Result, Status
from graphmill.core.usage import Usage, spent_nano
from graphmill.journal.answers import answer_rows
from graphmill.journal.intake import Identify, Intake, ItemDraft
from graphmill.journal.records import (
    RECORD_PROMPTS,
    Entry,
    Query,
    ResultCount,
    Row,
    RunRecord,
    RunRow,
    SuspectRow,
    WantedRow,
)
from graphmill.journal.resume import CRASHES_TO_SUSPECT, OnChange, generation_after_change, suspicion
from graphmill.journal.scratch import HeldFile, InFlightFile, forget_held, held_before, held_path, left_behind
from graphmill.journal.store import Archive, Ledger, Store, open_store
from graphmill.journal.writer import JournalWriter

_WANTED_AT_ONCE = 1000
_CHANGE_HINT = "--on-change invalidate (on_change='invalidate': {}) or keep (keep them)"
_ALL_AGAIN = "redo them"
_SOME_AGAIN = "redo only steps whose node or input changed"
_OF_GRAPH = ("graph", "fingerprints", "kept")  # what a manifest says of the graph that made the results
_HINT_OF_RETRY = "--on-change keep (on_change='keep': keep what is not retried)"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingPlan:
    """A run to start, or to resume if it exists: ``run`` is its record, where that was read already.

    The ``manifest`` is stored when the run is new; otherwise it is compared with the stored one. ``on_graph`` says what
    to do if the graph has changed, where that differs from ``on_change`` for items; ``words`` describe such changes
    better, and ``remedy`` is the command to continue with if there are no others. With ``is_elsewhere`` items may come
    from another file than before.
    """

    items: Any
    identify: Identify
    manifest: Mapping[str, Any]
    run_id: str | None = None
    run: RunRecord | None = None
    total: int | None = None
    on_change: OnChange = "refuse"
    on_graph: OnChange | None = None
    words: Mapping[str, str] = field(default_factory=dict)
    remedy: str = ""
    is_elsewhere: bool = False
    answers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which items run again: without any of these, all that failed and are not ambiguous.

    ``items`` are ids, ``kinds`` those of failures. With ``partial`` all that succeeded with less than all; then failed
    ones only if ``kinds`` names them. A model's refusal, or an answer that was cut or did not fit, is an answer: only
    with ``resample``, or if its item is named, the model is asked for another.
    """

    items: frozenset[str] | None = None
    kinds: frozenset[Kind] | None = None
    partial: bool = False
    resample: bool = False

    def query(self) -> Query:
        """Return among which results the selected ones are."""
        if self.items is not None:  # only a person cancels an item, or is waited for, and names it again
            return Query(statuses=FAILURES | {Status.CANCELLED, Status.WAITING}, kinds=self.kinds, or_partial=True)
        is_of_failures = self.kinds is not None or not self.partial
        return Query(statuses=FAILURES if is_of_failures else frozenset(), kinds=self.kinds, or_partial=self.partial)

    def takes(self, result: Result) -> bool:
        """Return whether one of these results is selected; an ambiguous one only if it or its kind is named."""
        if self.items is not None:
            return result.job_id in self.items
        if result.is_partial:
            return self.partial
        if result.error is not None and result.error.cause in ANSWER_CAUSES:
            return self.resample
        return self.kinds is not None or result.error is None or result.error.kind is not Kind.AMBIGUOUS


_ALL = Selection()


class Journal:
    """The runs of one store; gm.open_journal gives one."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @property
    def archive(self) -> Archive:
        """What readers ask."""
        return self.store.archive

    def find(self, run_id: str) -> RunRecord | None:
        """Find a run by its whole id."""
        try:
            found = self.archive.find(run_id)
        except UnknownRunError:
            return None
        if found.id == run_id:
            return found
        return None

    def recorder(
        self, jobs: Any, *, run_id: str | None, total: int | None, answers: Mapping[str, Any] | None = None
    ) -> JournalWriter:
        """Start or resume a run over jobs."""
        return self.begin(
            RecordingPlan(
                items=jobs, identify=_identify_job, manifest={}, run_id=run_id, total=total, answers=answers or {}
            )
        )

    def begin(self, plan: RecordingPlan) -> JournalWriter:
        """Start a new run, or resume the one of that id; blocks. ChangedError if it is not what it was."""
        ledger = self.store.take(self._find_or_create(plan).id)
        with _release_on_error(ledger):
            _require_samples(ledger.run, plan.manifest)
            if plan.on_change == "refuse" and not plan.is_elsewhere:
                _require_source(ledger.run, plan.manifest)
            answers = answer_rows(self.archive, ledger.run, plan.answers)
            run, pending = self._update_manifest(
                ledger,
                plan.manifest,
                plan.on_graph or plan.on_change,
                words=plan.words,
                hint=plan.remedy,
                defers_graph=plan.on_graph == "keep",  # other models: only once an item needs them
            )
            if answers:
                ledger.append(answers)
                run = replace(run, notes=run.notes + len(answers))
            if plan.total is not None and plan.total != run.total:
                ledger.append([RunRow(total=plan.total)])
            writer = self._writer(
                ledger, run, plan.items, plan.identify, total=plan.total, on_change=plan.on_change, is_whole=True
            )
            writer.pending_manifest = pending
            return writer

    def retry(
        self,
        run_id: str,
        selection: Selection,
        bind: Callable[[Entry], ItemDraft],
        *,
        now: Mapping[str, Any],
        on_change: OnChange,
        words: Mapping[str, str],
    ) -> JournalWriter:
        """Run failed items again, in the next generation, from their stored inputs; UsageError if there are none.

        ``now`` is what of the manifest may have changed; ``words`` describe changes better.
        """
        ledger = self.store.take(run_id)
        with _release_on_error(ledger):
            self._require_failed(ledger.run, selection, bind)
            run, _ = self._update_manifest(ledger, now, on_change, words=words, is_retry=True)
            again = self._want(ledger, run, selection)
            items = self._failed(run, selection)
            done = _counted(self.archive.counts(run)) - again
            return self._writer(
                ledger,
                run,
                items,
                lambda _, entry: bind(entry),
                total=run.total,
                on_change="keep",
                is_whole=False,
                done=done,
            )

    def _find_or_create(self, plan: RecordingPlan) -> RunRecord:
        run = plan.run
        if run is None and plan.run_id is not None:
            run = self.find(plan.run_id)
        if run is not None:
            return run
        if plan.answers:
            raise UsageError(f"no run {plan.run_id} to answer; start it first, without answers")
        try:
            return self.store.create(plan.run_id, plan.manifest)
        except UsageError:
            if plan.run_id is not None and (run := self.find(plan.run_id)) is not None:
                return run  # somebody has started it at the same moment
            raise

    def _want(self, ledger: Ledger, run: RunRecord, selection: Selection) -> Counter[Status]:
        """Record which items run again, so that a resume knows it too; count them."""
        again: Counter[Status] = Counter()
        rows: list[Row] = []
        for entry in self._failed(run, selection):
            rows += [WantedRow(entry.key, entry.generation + 1), SuspectRow(entry.key, 0, 0)]
            if len(rows) >= _WANTED_AT_ONCE:
                ledger.append(rows)
                rows = []
            again[entry.result.status] += 1
        ledger.append(rows)
        return again

    def _nothing_to_retry(self, run: RunRecord, selection: Selection) -> str:
        if selection == Selection(partial=True):
            return f"run {run.id} has no partial items to retry"
        if not selection.resample and selection.items is None:
            answers = sum(1 for _ in self._failed(run, replace(selection, resample=True)))
            if answers:
                return (
                    f"run {run.id} has no failed items to retry but {answers:,} whose answer was refused, cut or did "
                    "not fit; --resample (resample=True) asks for other answers"
                )
        if selection != _ALL:
            return f"run {run.id} has no failed items to retry among those named"
        doubtful = sum(1 for _ in self._failed(run, Selection(kinds=frozenset({Kind.AMBIGUOUS}))))
        if not doubtful:
            partial = sum(count.number for count in self.archive.counts(run) if count.is_partial)
            hint = f"; to run the {partial:,} partial again, use --partial (partial=True)" if partial else ""
            return f"run {run.id} has no failed items to retry{hint}"
        items = "1 item that may have happened" if doubtful == 1 else f"{doubtful:,} items that may have happened"
        return (
            f"run {run.id} has {items}, and no others to retry; --kind ambiguous or --item ID retries them all the same"
        )

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def _update_manifest(
        self,
        ledger: Ledger,
        now: Mapping[str, Any],
        on_change: OnChange,
        *,
        words: Mapping[str, str],
        hint: str = "",
        is_retry: bool = False,
        defers_graph: bool = False,
    ) -> tuple[RunRecord, Mapping[str, Any]]:
        """Compare a run with its manifest and store what changed; return what of the graph is deferred."""
        run, manifest = ledger.run, {**ledger.run.manifest, **now}
        kept_option = run.options.get(RECORD_PROMPTS)
        if kept_option is not None and "options" in now:
            manifest["options"] = {RECORD_PROMPTS: kept_option, **now["options"]}
        found = changed(run.manifest.get("fingerprints", {}), manifest.get("fingerprints", {}))
        changes = [words.get(change, change) for change in found]
        kept_changes = manifest.pop("kept", [])  # changes that results are older than, because they were kept
        generation = run.generation
        if changes or (kept_changes and on_change == "invalidate"):
            counts = self.archive.counts(run) if run.rows else ()
            usual_hint = _HINT_OF_RETRY if is_retry else _change_hint(run)
            if hint and all(change in words for change in found):
                hint = f"{hint}, or with {usual_hint}"
            else:
                hint = usual_hint
            generation = generation_after_change(run, counts, changes, on_change=on_change, hint=hint)
            kept_changes = list(dict.fromkeys([*kept_changes, *changes])) if counts or run.steps else []
        if kept_changes and generation == run.generation:
            manifest["kept"] = kept_changes
        pending: Mapping[str, Any] = {}
        if defers_graph:
            pending, manifest = _defer_graph(manifest, run.manifest)
        if manifest != run.manifest or generation != run.generation:
            ledger.append([RunRow(generation=generation, manifest=manifest)])
        return replace(run, generation=generation, manifest=manifest), pending

    def _writer(
        self,
        ledger: Ledger,
        run: RunRecord,
        items: Any,
        identify: Identify,
        *,
        total: int | None,
        on_change: OnChange,
        is_whole: bool,
        done: Counter[Status] | None = None,
    ) -> JournalWriter:
        path = None if ledger.folder is None else ledger.folder / f"flight-{run.number}"
        left = left_behind(path)
        in_flight = InFlightFile(path)  # it forgets them: a death between here and the commit is not counted twice
        suspects = self._suspects(ledger, run, left)
        held = None if ledger.folder is None else held_path(ledger.folder, run.number)
        _count_lost(ledger, held)
        has_past = run.notes > 0 or bool(left)
        intake = Intake(
            items,
            identify,
            run=run,
            archive=self.archive,
            on_change=on_change,
            suspects=suspects,
            has_past=has_past,
            is_whole=is_whole,
        )
        return JournalWriter(
            ledger,
            run,
            intake,
            in_flight,
            HeldFile(held),
            total=total,
            done=intake.done if done is None else done,
            suspects=len(suspects),
        )

    def _suspects(self, ledger: Ledger, run: RunRecord, left: list[bytes]) -> frozenset[bytes]:
        """Suspect the items in flight when the last process died; return those suspected more than once."""
        with closing(self.archive.lookup(run)) as lookup:
            known = [lookup.notes(key).suspect or SuspectRow(key, 0, 0) for key in left]
        rows = [suspicion(before, was_alone=len(left) == 1) for before in known]
        if rows:
            ledger.append(rows)
        return frozenset(row.key for row in rows if row.crashes >= CRASHES_TO_SUSPECT)

    def _failed(self, run: RunRecord, selection: Selection) -> Iterator[Entry]:
        for entry in self.archive.entries(run, selection.query()):
            if selection.takes(entry.result):
                yield entry

    def _require_failed(self, run: RunRecord, selection: Selection, bind: Callable[[Entry], ItemDraft]) -> None:
        """Refuse, before anything is recorded, a retry of nothing, or of an item that cannot run again."""
        for name in selection.items or ():
            if not self.archive.history(run, item_key(name)).entries:
                raise UsageError(f"run {run.id} has no result of an item {name!r:.80}")
        count = 0
        for count, entry in enumerate(self._failed(run, selection), start=1):  # noqa: B007
            bind(entry)
        if not count:
            raise UsageError(self._nothing_to_retry(run, selection))


def open_journal(place: str | Path | None = None, *, create: bool = True) -> Journal:
    """Open a journal: a path, ``sqlite:///path``, ``memory:``, or GRAPHMILL_JOURNAL, else .graphmill/runs.db."""
    return Journal(open_store(place, create=create))


def _count_lost(ledger: Ledger, held: Path | None) -> None:
    """Count as spent what calls may have cost that were in flight, or not yet recorded, when the last process died."""
    lost_nano = held_before(held) - spent_nano(ledger.usage)
    if lost_nano > 0:
        ledger.append([RunRow(spent={"": Usage(lost_nano=lost_nano)})])
    forget_held(held)


def _counted(counts: Iterable[ResultCount]) -> Counter[Status]:
    found: Counter[Status] = Counter()
    for count in counts:
        found[count.status] += count.number
    return found


def _require_samples(run: RunRecord, now: Mapping[str, Any]) -> None:
    """Refuse another number of samples: it would change the positions of all items."""
    before, given = (manifest.get("options", {}).get("samples", 1) for manifest in (run.manifest, now))
    if "options" in now and before != given:
        raise ChangedError(
            f"run {run.id} has {before} sample{'s' * (before != 1)} of each item, not {given}; use --samples {before}, "
            "or start a new run"
        )


def _require_source(run: RunRecord, now: Mapping[str, Any]) -> None:
    """Refuse the file of other items: those of the run that are not in it would be forgotten."""
    before, given = _file_of(run.manifest), _file_of(now)
    if before is None or given is None or before == given or not (run.rows or run.steps):
        return
    if before.name == given.name and not before.exists():  # it was moved, with its project for one
        return
    raise ChangedError(
        f"run {run.id} reads its items from {str(before)!r}, not {str(given)!r}. To continue with the former, use "
        f"graphmill resume {run.id}; with the latter, graphmill resume {run.id} --source FILE or --on-change keep "
        "(on_change='keep'); or start a new run"
    )


def _file_of(manifest: Mapping[str, Any]) -> Path | None:
    source = manifest.get("source")
    path = source.get("path") if isinstance(source, Mapping) else None
    if isinstance(path, str):
        return Path(path)
    return None


def _change_hint(run: RunRecord) -> str:
    is_whole = run.graph.get("kind") == "langgraph"  # its steps are only shown
    return _CHANGE_HINT.format(_SOME_AGAIN if run.steps and not is_whole else _ALL_AGAIN)


def _identify_job(position: int, job: Any) -> ItemDraft:
    if not isinstance(job, Job):
        raise UsageError(
            f"expected a Job at position {position}, got {type(job).__name__}; "
            "for plain items use gm.batch(function, items)"
        )
    return ItemDraft(job.id, job.graph, job.input, job=job)


def _defer_graph(manifest: Mapping[str, Any], before: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Take what has changed of the graph out of a manifest; return it, and the manifest without it."""
    pending = {name: manifest[name] for name in _OF_GRAPH if name in manifest and manifest[name] != before.get(name)}
    stored = {name: value for name, value in manifest.items() if name not in pending}
    return pending, stored | {name: before[name] for name in pending if name in before}


@contextmanager
def _release_on_error(ledger: Ledger) -> Iterator[None]:
    """Release a run, as it was, if it could not be started."""
    try:
        yield
    except BaseException:
        before = ledger.run
        with suppress(GraphmillError):
            if not before.is_interrupted:
                ledger.append([RunRow(status=before.status, reason=before.reason)])
        with suppress(GraphmillError):
            ledger.release()
        raise
