"""How a batch is written down: in which journal, as which run, and what of it is left to do."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from graphmill.api.items import Single, id_rule, no_item, sampled
from graphmill.api.model_changes import OtherModels, chosen_otherwise
from graphmill.core.errors import UsageError
from graphmill.core.foreign import AdaptedGraph
from graphmill.core.job import Effect, Job, sample_id
from graphmill.core.json import to_json
from graphmill.datasets.source import FileSource
from graphmill.engine.feed import known_length
from graphmill.engine.policy import Policy
from graphmill.engine.recorder import Recorder
from graphmill.graph.fingerprint import graph_fingerprints, packages_of
from graphmill.graph.graph import Graph
from graphmill.graph.models.cache import keeping
from graphmill.graph.models.nodes import asked_models
from graphmill.graph.node_type import Context
from graphmill.journal.cache import SUFFIX, AnswerCache
from graphmill.journal.intake import Identify, ItemDraft, OnChange
from graphmill.journal.journal import Journal, RecordingPlan, Selection, open_journal
from graphmill.journal.manifest import manifest_of, openable, policy_note
from graphmill.journal.records import Entry
from graphmill.journal.store import BESIDE_THE_PROJECT, fixed
from graphmill.report.report import StoredResults

Place = Journal | str | Path


class Recording:
    """A batch's place in a journal; ``begin`` takes hold of it there."""

    def __init__(self, journal: Place | None, begin: Callable[[Journal], Recorder]) -> None:
        self._place = _held(journal)
        self._opened: Journal | None = None
        self._begin = begin

    def begin(self) -> Recorder:
        """Take hold of the run; it blocks."""
        self._opened = opened(self._place)
        return self._begin(self._opened)

    @property
    def file(self) -> Path | None:
        """The file of the journal; None for one in memory."""
        if isinstance(self._place, Journal):
            return self._place.store.file
        return Path(self._place)

    def stored(self, run_id: str) -> StoredResults:
        """Give what the journal holds of the run; it can be read for as long as there is a journal."""
        return StoredResults(partial(lent, self._place), run_id)

    def close(self) -> None:
        """Let go of a journal that was opened here."""
        if self._opened is not None and self._opened is not self._place:
            self._opened.close()


def _held(place: Place | None) -> Journal | str | Path:
    """Hold on to a place by what it is now: memory is opened once."""
    if isinstance(place, Journal):
        return place
    where = fixed(place)
    return where if isinstance(where, Path) else opened(where)


def opened(place: Place | None, *, create: bool = True) -> Journal:
    """Open a journal, unless it is open."""
    return place if isinstance(place, Journal) else open_journal(place, create=create)


@contextmanager
def lent(place: Place | None) -> Iterator[Journal]:
    """Open a journal that is there, for a while, unless it is open."""
    if isinstance(place, Journal):
        yield place
        return
    with closing(opened(place, create=False)) as journal:
        yield journal


def planned(  # noqa: PLR0913
    journal: Place | None,
    *,
    graph: Callable[[Any], Any],
    items: Any,
    policy: Policy,
    options: Mapping[str, Any],
    run_id: str | None,
    total: int | None,
    on_change: OnChange,
    effect: Effect,
    version: str | None,
    answers: Mapping[str, Any] | None = None,
    is_elsewhere: bool = False,
    samples: int = 1,
    other: OtherModels | None = None,
) -> Recording:
    """Record a batch as a new run, or go on with the one of that id; ``is_elsewhere`` says that its items may come from another file.

    ``total`` counts the items, of each of which there are so many ``samples``; ``other`` are the models that it goes on with.
    """
    if on_change not in ("refuse", "invalidate", "keep"):
        raise UsageError(f"on_change is refuse, invalidate or keep, not {on_change!r:.80}")
    count = total if total is not None else items.count() if isinstance(items, FileSource) else known_length(items)
    plan = RecordingPlan(
        items=sampled(items, samples),
        identify=_identify(graph, id_rule(items, options.get("id_field")), effect, samples),
        manifest=manifest_of(
            graph=_graph_note(graph),
            fingerprints=graph_fingerprints(graph, version=version),
            source=items.note() if isinstance(items, FileSource | Single) else None,
            policy=policy,
            options={**options, **({"samples": samples} if samples > 1 else {}), "effect": effect, "version": version},
            packages=packages_of(graph),
        ),
        run_id=run_id,
        total=None if count is None else count * samples,
        on_change=on_change,
        on_graph=None if other is None else other.on_change,
        words={} if other is None else other.words,
        is_elsewhere=is_elsewhere,
        answers={} if answers is None else answers,
    )
    return Recording(
        journal, lambda opened: opened.begin(plan if other is not None else _compared(plan, opened, graph))
    )


def _compared(plan: RecordingPlan, journal: Journal, graph: Callable[[Any], Any]) -> RecordingPlan:
    """Let a run that is gone on with tell which models were chosen otherwise."""
    run = None if plan.run_id is None else journal.find(plan.run_id)
    if run is None:
        return plan
    words, remedy = chosen_otherwise(run, graph)
    return replace(plan, words=words, remedy=remedy)


def repeated(  # noqa: PLR0913
    journal: Place | None,
    *,
    graph: Callable[[Any], Any],
    policy: Policy,
    run_id: str,
    selection: Selection,
    on_change: OnChange,
    effect: Effect,
    version: str | None,
    words: Mapping[str, str],
) -> Recording:
    """Record failed items of a run once more; ``words`` tell changes of the graph better."""
    bind = partial(_again, graph, effect)
    now = {
        "graph": _graph_note(graph),
        "fingerprints": graph_fingerprints(graph, version=version),
        "policy": policy_note(policy),
    }
    return Recording(
        journal, lambda opened: opened.retry(run_id, selection, bind, now=now, on_change=on_change, words=words)
    )


def _identify(
    function: Callable[[Any], Any], id_of: Callable[[Any, int], str | None], effect: Effect, samples: int
) -> Identify:
    def identify(position: int, item: Any) -> ItemDraft:
        if isinstance(item, Job):
            raise no_item()
        return ItemDraft(id_of(item, position), function, item, 0, "", effect)  # by place, which is faster than by name

    def identify_sample(position: int, item: Any) -> ItemDraft:
        number, sample = divmod(position, samples)
        draft = identify(number, item)
        return msgspec.structs.replace(
            draft, id=None if draft.id is None else sample_id(draft.id, sample + 1), sample=sample + 1
        )

    return identify if samples == 1 else identify_sample


def _again(graph: Callable[[Any], Any], effect: Effect, entry: Entry) -> ItemDraft:
    if "input_left_out" in entry.result.metadata:
        raise UsageError(
            f"the input of {entry.result.job_id!r:.80} is not plain data, so it was not stored; run the batch again with its items, "
            "or retry others by their ids"
        )
    result = entry.result
    return ItemDraft(result.job_id, graph, result.input, effect=effect, position=result.position, sample=result.sample)


def _chosen(graph: Graph) -> dict[str, Any]:
    """Give what is chosen for a workflow's models, and which it asks; and, without a file, itself."""
    found = {"choices": graph.choices.to_json(), "models": list(asked_models(graph)), "written": _plain(graph.written)}
    return {name: value for name, value in found.items() if value}


def _plain(data: Any) -> Any:
    """Give data as a manifest can hold it; None for what is no JSON."""
    try:
        return json.loads(to_json(data))
    except (TypeError, ValueError, RecursionError):
        return None


def _graph_note(graph: Callable[[Any], Any]) -> dict[str, Any]:
    if isinstance(graph, Graph):
        return {
            "kind": "workflow",
            "name": graph.name,
            "path": graph.path,
            "given": dict(graph.given),
            **_chosen(graph),
        }
    if isinstance(graph, AdaptedGraph):
        return {"kind": graph.library.lower(), "name": graph.name, "function": graph.home}
    return {"kind": "function", "name": getattr(graph, "__name__", type(graph).__name__), "function": openable(graph)}


@contextmanager
def kept_beside(journal: Path | None) -> Iterator[None]:
    """Let what begins within keep its answers beside this journal; without one, only those of which that is wanted, in the usual place."""
    token = keeping.set(partial(_keeper, None if journal is None else cache_of(journal)))
    try:
        yield
    finally:
        keeping.reset(token)


def cache_of(journal: str | Path | None = None) -> Path:
    """Tell where the cache of a journal is, without a name that of the usual one."""
    where = fixed(journal)
    path = where if isinstance(where, Path) else Path(BESIDE_THE_PROJECT).absolute()
    return Path(os.path.realpath(path) + SUFFIX)


def _keeper(beside: Path | None, context: Context, *, is_wanted: bool) -> AnswerCache | None:
    path = beside or (cache_of() if is_wanted else None)
    return None if path is None else context.shared(("cache", path), partial(AnswerCache, path))
