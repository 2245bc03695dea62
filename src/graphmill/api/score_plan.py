"""A scoring pass as a recorded run: its items are the stored results of the run that it scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from graphmill.api.complete import complete
from graphmill.api.recording import JournalRef, Recording, graph_note, open_briefly, with_budget_of
from graphmill.core.errors import UsageError
from graphmill.core.result import Result, TraceStep
from graphmill.core.usage import spent_nano, to_usd
from graphmill.engine.policy import Policy, require_policy
from graphmill.engine.results.recorder import Recorder
from graphmill.graph.fingerprint import graph_fingerprints, packages_of
from graphmill.journal.intake import ItemDraft
from graphmill.journal.journal import Journal, RecordingPlan
from graphmill.journal.manifest import manifest_of
from graphmill.journal.records import Query, RunRecord
from graphmill.journal.run_id import pass_id
from graphmill.journal.store import Archive
from graphmill.report.item.steps import steps_of_item
from graphmill.report.scores import fields_of_pass, passes_of
from graphmill.scoring.score_pass import SCORED, USUAL_FIELDS, ScoredFields, ScoringPass, item_to_score, scoring_pass
from graphmill.scoring.scorer import Scorer, find_scorer

_LEAST_USD = 1e-9  # a budget that is spent
_QUERY = Query(statuses=SCORED)


class PassPlan(NamedTuple):
    """A scoring pass over a run, ready to be executed."""

    run: RunRecord
    graph: ScoringPass
    policy: Policy
    recording: Recording


def plan_pass(
    journal: JournalRef | None,
    run: RunRecord,
    scorer: Scorer,
    *,
    policy: Policy | None = None,
    concurrency: int | None = None,
    fields: ScoredFields | None = None,
) -> PassPlan:
    """Plan to score a run: a new pass, or the one of this name again, which then scores only what has changed.

    Without a concurrency it is the scorer's own, else the policy's. Without ``fields`` they are those of the earlier
    pass, else the usual ones.
    """
    if run.is_pass:
        raise UsageError(f"run {run.id} is a scoring pass itself; score run {run.manifest['of']}")
    graph = scoring_pass(scorer, complete)
    rules = require_policy(policy)
    with open_briefly(journal) as opened:
        before = opened.find(pass_id(run.id, scorer.name))
    if before is not None:
        rules = with_budget_of(before, rules)
    if rules.concurrency is None or concurrency is not None:
        rules = replace(rules, concurrency=concurrency or scorer.concurrency or rules.slots)

    def begin(opened: Journal) -> Recorder:
        earlier = opened.find(pass_id(run.id, scorer.name))
        places = fields or (USUAL_FIELDS if earlier is None else fields_of_pass(earlier))
        results = ResultsToScore(opened.archive, run, graph, places)
        return opened.begin(
            RecordingPlan(
                items=results,
                identify=results.identify,
                manifest=_manifest(run, graph, policy=rules, fields=places),
                run_id=pass_id(run.id, scorer.name),
                total=results.count(),
                on_change="invalidate",
                is_elsewhere=True,
            )
        )

    return PassPlan(run, graph, rules, Recording(journal, begin))


def policy_of_pass(archive: Archive, run: RunRecord, scorer: Scorer, budget_usd: float | None) -> Policy | None:
    """Return the policy of a pass within the budget of its run: what the run and its other passes have left of it."""
    if budget_usd is None:
        return None
    others = [run, *(each for each in passes_of(archive, run) if each.id != pass_id(run.id, scorer.name))]
    left_usd = budget_usd - to_usd(sum(spent_nano(each.usage) for each in others))
    return Policy(budget_usd=max(left_usd, _LEAST_USD))


def graph_of_pass(run: RunRecord, scorer: Any = None) -> ScoringPass:
    """Return the graph of a pass again, with this scorer if one is given."""
    if isinstance(scorer, ScoringPass):
        return scorer
    if scorer is not None:
        return scoring_pass(find_scorer(scorer), complete)
    if run.graph["function"] is None:
        raise UsageError(
            f"the scorer {run.graph_name} of run {run.id} was defined in the main program or inside another function; "
            f"call gm.score({run.manifest['of']!r}, scorer) in the program that has it"
        )
    return scoring_pass(find_scorer(run.graph["function"]), complete)


class ResultsToScore:
    """The results of a run, one at a time in input order, as a scorer takes them."""

    is_stored = True

    def __init__(self, archive: Archive, run: RunRecord, graph: ScoringPass, fields: ScoredFields) -> None:
        self._archive = archive
        self._run = run
        self._graph = graph
        self._fields = fields

    def __iter__(self) -> Iterator[tuple[Result, Sequence[TraceStep] | None]]:
        if "trace" in self._graph.scorer.takes:
            for history in self._archive.histories(self._run, _QUERY):
                entry = max(history.entries, key=lambda entry: entry.generation)
                if not entry.is_orphaned:
                    yield entry.result, steps_of_item(self._run.id, entry.result.job_id, history)
            return
        for entry in self._archive.entries(self._run, _QUERY):
            if not entry.is_orphaned:
                yield entry.result, None

    def identify(self, _position: int, given: tuple[Result, Sequence[TraceStep] | None]) -> ItemDraft:
        """Make one an item of the pass: with the id, the position and the sample that it has in its run."""
        result, steps = given
        item = item_to_score(result, self._graph.scorer.takes, self._fields)
        if steps is not None:
            item["trace"] = msgspec.to_builtins(steps)
        return ItemDraft(result.job_id, self._graph, item, position=result.position, sample=result.sample)

    def count(self) -> int:
        """Count them."""
        counts = self._archive.counts(self._run)
        return sum(count.number for count in counts if count.status in SCORED) - self._run.orphans


def _manifest(run: RunRecord, graph: ScoringPass, *, policy: Policy, fields: ScoredFields) -> dict[str, Any]:
    options = {name: value for name, value in run.options.items() if name == "samples"}
    manifest = manifest_of(
        graph=graph_note(graph),
        fingerprints=graph_fingerprints(graph),
        source={"run": run.id},
        policy=policy,
        options=options | {"effect": "repeatable", "version": graph.scorer.version},
        packages=packages_of(graph),
    )
    return manifest | {"of": run.id, "scored": msgspec.to_builtins(fields)}
