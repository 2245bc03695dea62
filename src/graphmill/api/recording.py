"""How a batch is recorded: in which journal, as which run, with which manifest, and beside which cache."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from graphmill.api.items import Single, id_rule, job_among_items, repeat_samples
from graphmill.api.model_changes import ModelChange, describe_model_changes
from graphmill.api.rehearsal import rehearsal_note, require_same
from graphmill.core.errors import GraphmillError, UnknownRunError, UsageError
from graphmill.core.foreign import AdaptedGraph
from graphmill.core.job import Effect, Job, sample_id
from graphmill.core.json import to_json
from graphmill.datasets.source import Source
from graphmill.engine.admission import known_length
from graphmill.engine.policy import Policy
from graphmill.engine.results.recorder import Recorder
from graphmill.graph.fingerprint import graph_fingerprints, packages_of
from graphmill.graph.graph import Graph
from graphmill.graph.models.cache import open_answer_store
from graphmill.graph.models.nodes import models_resolved, models_used
from graphmill.graph.node_type import Context
from graphmill.journal.cache import SUFFIX, AnswerCache
from graphmill.journal.intake import Identify, ItemDraft
from graphmill.journal.journal import Journal, RecordingPlan, Selection, open_journal
from graphmill.journal.manifest import manifest_of, openable, policy_note
from graphmill.journal.records import RECORD_PROMPTS, Entry, RunRecord
from graphmill.journal.resume import OnChange
from graphmill.journal.store import BESIDE_THE_PROJECT, fixed
from graphmill.report.next_commands import next_lines
from graphmill.report.report import StoredResults
from graphmill.report.run_view import view_of

JournalRef = Journal | str | Path


class Recording:
    """A batch's run in a journal; ``begin`` takes it over."""

    def __init__(self, journal: JournalRef | None, begin: Callable[[Journal], Recorder]) -> None:
        self.place = _hold(journal)
        self._opened: Journal | None = None
        self._begin = begin
        self._context = copy_context()  # it is begun in another thread, but in the same rehearsal

    def begin(self) -> Recorder:
        """Open the journal and take over the run; blocks."""
        self._opened = opened(self.place)
        return self._context.run(self._begin, self._opened)

    @property
    def file(self) -> Path | None:
        """The journal's file; None for one in memory."""
        if isinstance(self.place, Journal):
            return self.place.store.file
        return Path(self.place)

    def stored(self, run_id: str) -> StoredResults:
        """Return the run's stored results; they can be read as long as the journal exists."""
        return StoredResults(partial(open_briefly, self.place), run_id)

    def how_to_continue(self, run_id: str | None) -> list[str]:
        """Say how far a run came that was interrupted, and what continues it; nothing if it cannot be read."""
        if run_id is None or self._opened is None:
            return []
        try:
            archive = self._opened.archive
            view = view_of(archive, archive.find(run_id))
        except GraphmillError:
            return []
        return [f"run {view.name} is paused: {view.summary()}", *(f"  {line}" for line in next_lines(view)[:1])]

    def close(self) -> None:
        """Close the journal if it was opened here."""
        if self._opened is not None and self._opened is not self.place:
            self._opened.close()


def _hold(place: JournalRef | None) -> Journal | str | Path:
    """Make a path absolute now, and open memory once."""
    if isinstance(place, Journal):
        return place
    where = fixed(place)
    if isinstance(where, Path):
        return where
    return opened(where)


def opened(place: JournalRef | None, *, create: bool = True) -> Journal:
    """Open a journal, unless it is open already."""
    if isinstance(place, Journal):
        return place
    return open_journal(place, create=create)


@contextmanager
def open_briefly(place: JournalRef | None) -> Iterator[Journal]:
    """Open an existing journal for the length of a block, unless it is open already."""
    if isinstance(place, Journal):
        yield place
        return
    with closing(opened(place, create=False)) as journal:
        yield journal


def with_budget_of(run: RunRecord, policy: Policy) -> Policy:
    """Give a policy its run's budget, unless it has its own: a budget holds across resumes."""
    budget_usd = run.policy.get("budget_usd")
    if policy.budget_usd is not None or not isinstance(budget_usd, int | float):
        return policy
    return replace(policy, budget_usd=budget_usd)


def find_run(journal: JournalRef | None, run_id: str) -> RunRecord | None:
    """Return the run of this whole id, if it exists; blocks."""
    try:
        with open_briefly(journal) as found:
            return found.find(run_id)
    except UnknownRunError:  # there is no journal yet
        return None


def plan_recording(  # noqa: PLR0913
    journal: JournalRef | None,
    *,
    graph: Callable[[Any], Any],
    items: Any,
    policy: Policy,
    options: Mapping[str, Any],
    run_id: str | None,
    run: RunRecord | None = None,
    total: int | None,
    on_change: OnChange,
    effect: Effect,
    version: str | None,
    answers: Mapping[str, Any] | None = None,
    is_elsewhere: bool = False,
    samples: int = 1,
    record_prompts: bool | None = None,
    other: ModelChange | None = None,
) -> Recording:
    """Plan a batch as a new run, or resume that run; with ``is_elsewhere`` its items may come from another file.

    ``total`` counts items, not samples; ``other`` are changed models. With ``record_prompts=None`` a resumed run keeps
    what it was started with.
    """
    if on_change not in ("refuse", "invalidate", "keep"):
        raise UsageError(f"on_change must be 'refuse', 'invalidate' or 'keep', got {on_change!r:.80}")
    if total is None:
        total = items.count() if isinstance(items, Source) else known_length(items)
    if total is not None:
        total *= samples
    plan = RecordingPlan(
        items=repeat_samples(items, samples),
        identify=_identify(graph, id_rule(items, options.get("id_field")), effect, samples),
        manifest=manifest_of(
            graph=graph_note(graph),
            fingerprints=graph_fingerprints(graph, version=version),
            source=items.note() if isinstance(items, Source | Single) else None,
            policy=policy,
            options={
                **options,
                **_samples_note(samples),
                **_prompts_note(graph, record_prompts),
                **rehearsal_note(),
                "effect": effect,
                "version": version,
            },
            packages=packages_of(graph),
        ),
        run_id=run_id,
        run=run,
        total=total,
        on_change=on_change,
        is_elsewhere=is_elsewhere,
        answers=answers or {},
    )
    if other is None:
        return Recording(journal, lambda opened: opened.begin(_compared(plan, opened, graph)))
    with_models = replace(plan, on_graph=other.on_change, words=other.words)
    return Recording(journal, lambda opened: opened.begin(with_models))


def _samples_note(samples: int) -> dict[str, int]:
    return {"samples": samples} if samples > 1 else {}


def _prompts_note(graph: Callable[[Any], Any], record_prompts: bool | None) -> dict[str, bool]:  # noqa: FBT001
    """Note whether prompts are recorded, unless that is left to the default or to what the run was started with."""
    if record_prompts is None and isinstance(graph, Graph):
        models = graph.models()
        record_prompts = None if models is None else models.settings.record_prompts
    return {} if record_prompts is None else {RECORD_PROMPTS: record_prompts}


def _compared(plan: RecordingPlan, journal: Journal, graph: Callable[[Any], Any]) -> RecordingPlan:
    """Add which models were chosen differently, if a run is resumed."""
    run = plan.run
    if run is None and plan.run_id is not None:
        run = journal.find(plan.run_id)
    if run is None:
        return plan
    require_same(run)
    words, remedy = describe_model_changes(run, graph)
    return replace(plan, run=run, words=words, remedy=remedy)


def plan_retry(  # noqa: PLR0913
    journal: JournalRef | None,
    *,
    graph: Callable[[Any], Any],
    policy: Policy,
    run_id: str,
    selection: Selection,
    on_change: OnChange,
    effect: Effect,
    version: str | None,
    words: Mapping[str, str],
    options: Mapping[str, Any],
) -> Recording:
    """Plan to run failed items again; ``words`` describe known changes of the graph."""
    bind = partial(_again, graph, effect)
    now = {
        "graph": graph_note(graph),
        "fingerprints": graph_fingerprints(graph, version=version),
        "policy": policy_note(policy),
        "options": options,
    }
    return Recording(
        journal, lambda opened: opened.retry(run_id, selection, bind, now=now, on_change=on_change, words=words)
    )


def _identify(
    function: Callable[[Any], Any], id_of: Callable[[Any, int], str | None], effect: Effect, samples: int
) -> Identify:
    def identify(position: int, item: Any) -> ItemDraft:
        if isinstance(item, Job):
            raise job_among_items()
        return ItemDraft(id_of(item, position), function, item, 0, "", effect)  # by place, which is faster than by name

    def identify_sample(position: int, item: Any) -> ItemDraft:
        number, sample = divmod(position, samples)
        draft = identify(number, item)
        return msgspec.structs.replace(
            draft, id=None if draft.id is None else sample_id(draft.id, sample + 1), sample=sample + 1
        )

    if samples == 1:
        return identify
    return identify_sample


def _again(graph: Callable[[Any], Any], effect: Effect, entry: Entry) -> ItemDraft:
    if "input_left_out" in entry.result.metadata:
        raise UsageError(
            f"cannot retry {entry.result.job_id!r:.80}: its input is not plain data and was not stored; "
            "run the batch again with its items, or retry other items by id"
        )
    result = entry.result
    return ItemDraft(result.job_id, graph, result.input, effect=effect, position=result.position, sample=result.sample)


def _chosen(graph: Graph) -> dict[str, Any]:
    """Return a workflow's text, its model choices, the models it calls and what its roles and names of models mean."""
    found = {
        "choices": graph.choices.to_json(),
        "models": list(models_used(graph)),
        "resolved": _plain(models_resolved(graph)),
        "written": _plain(graph.written),
        "texts": dict(graph.texts),
    }
    return {name: value for name, value in found.items() if value}


def _plain(data: Any) -> Any:
    """Return data as a manifest can store it; None if it is not JSON."""
    try:
        return json.loads(to_json(data))
    except (TypeError, ValueError, RecursionError):
        return None


def graph_note(graph: Callable[[Any], Any]) -> dict[str, Any]:
    """Return what a manifest says of a graph: its kind, its name, and how to open it again."""
    if isinstance(graph, Graph):
        return {
            "kind": "workflow",
            "name": graph.name,
            "path": graph.path,
            "outputs": list(graph.outputs or ()),
            "given": dict(graph.given),
            **_chosen(graph),
        }
    if isinstance(graph, AdaptedGraph):
        return {"kind": graph.library.lower(), "name": graph.name, "function": graph.home}
    return {"kind": "function", "name": getattr(graph, "__name__", type(graph).__name__), "function": openable(graph)}


@contextmanager
def cache_for_run(journal: Path | None) -> Iterator[None]:
    """Cache model answers beside this journal; without one, in the usual place and only answers that ask for it."""
    token = open_answer_store.set(partial(_keeper, None if journal is None else cache_path(journal)))
    try:
        yield
    finally:
        open_answer_store.reset(token)


def cache_path(journal: str | Path | None = None) -> Path:
    """Return the path of a journal's cache, by default that of the usual journal."""
    path = fixed(journal)
    if not isinstance(path, Path):
        path = Path(BESIDE_THE_PROJECT).absolute()
    return Path(os.path.realpath(path) + SUFFIX)


def _keeper(beside: Path | None, context: Context, *, is_wanted: bool) -> AnswerCache | None:
    if beside is None and not is_wanted:
        return None
    path = beside or cache_path()
    return context.shared(("cache", path), partial(AnswerCache, path))
