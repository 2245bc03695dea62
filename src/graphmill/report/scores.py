"""The scores of a run: its scoring passes joined with its results, and their figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from sys import intern
from typing import Any

import msgspec

from graphmill.core.json import MISSING, field_inside
from graphmill.core.result import ANSWER_CAUSES, Result
from graphmill.datasets.row import SCORES
from graphmill.datasets.selection import UnseenFields
from graphmill.journal.records import Entry, ItemHistory, Query, RunRecord
from graphmill.journal.store import Archive
from graphmill.report.text import align_columns, count_text, one_line
from graphmill.report.usage import usage_lines
from graphmill.scoring.figures import (
    ACCEPTED,
    TRUTH,
    Figure,
    RaterAgreement,
    ScoredSample,
    ScoreFigures,
    figures_of,
    headline_of,
)
from graphmill.scoring.score import INFRASTRUCTURE, LEFT_OUT, SCORER_FAILED, Score
from graphmill.scoring.score_pass import SCORED, ScoredFields, is_score_of

_RESAMPLED = "resampled"
_AGENTS = ("verifier", "judge")
_WHY_LEFT_OUT = {INFRASTRUCTURE: "the infrastructure failed", SCORER_FAILED: "the scorer failed"}
_VALUE_CHARS = 40
_MOST_LISTED = 10_000
_NO_RATINGS: dict[str, bool] = {}  # shared by all samples that have none


def passes_of(archive: Archive, run: RunRecord) -> list[RunRecord]:
    """List the scoring passes over a run, oldest first."""
    return [each for each in archive.runs() if each.scored_id == run.id]


class StoredScores:
    """The scores of a run's results by scorer; ask for them in input order."""

    def __init__(self, archive: Archive, run: RunRecord, passes: Sequence[RunRecord] | None = None) -> None:
        self.passes = passes_of(archive, run) if passes is None else passes
        self._readers = [_PassReader(archive, each) for each in self.passes]

    def of(self, entry: Entry) -> dict[str, Score]:
        """Return the scores of a result: none that was made for an earlier answer."""
        found = {}
        for run, reader in zip(self.passes, self._readers, strict=True):
            score = reader.find(entry)
            if score is not None:
                found[run.graph_name] = score
        return found


def fields_of_pass(run: RunRecord) -> ScoredFields:
    """Return where a pass finds answers and targets."""
    return msgspec.convert(run.manifest.get("scored", {}), ScoredFields)


class _PassReader:
    """Reads the scores of one pass beside the results of its run: both are in input order."""

    def __init__(self, archive: Archive, run: RunRecord) -> None:
        self._archive = archive
        self._run = run
        self._fields = fields_of_pass(run)
        self._entries: Iterator[Entry] | None = None
        self._next: Entry | None = None
        self._here: dict[bytes, Result] = {}

    def find(self, entry: Entry) -> Score | None:
        position = entry.result.position
        if self._entries is None:
            self._entries = self._archive.entries(self._run, Query(statuses=SCORED, from_position=position))
            self._next = next(self._entries, None)
        if all(result.position < position for result in self._here.values()):
            self._here = {}
        while self._next is not None and self._next.result.position <= position:
            if self._next.result.position == position:
                self._here[self._next.key] = self._next.result
            self._next = next(self._entries, None)
        scored = self._here.get(entry.key)
        if scored is None or not is_score_of(scored.input, entry.result, self._fields):
            return None
        return score_in(scored)


def score_in(result: Result) -> Score:
    """Return the score that a result of a pass holds; where the scorer failed, nothing is known of the answer."""
    if result.error is None and isinstance(result.output, Mapping):
        return msgspec.convert(result.output, Score)
    why = "" if result.error is None else f"the scorer failed: {result.error.message}"
    return Score(value=None, explanation=why, metadata={"outcome": SCORER_FAILED})


def scored_entries(archive: Archive, run: RunRecord, query: Query) -> Iterator[Entry]:
    """Read results of a run, with ``metadata["scores"]`` if it was scored; resampled ones are marked."""
    scores, resampled = StoredScores(archive, run), resampled_keys(archive, run)
    entries = archive.entries(run, query)
    if not scores.passes and not resampled:
        yield from entries
        return
    for entry in entries:
        more: dict[str, Any] = {}
        if entry.key in resampled:
            more[_RESAMPLED] = True
        if scores.passes:
            more[SCORES] = {name: score.to_json() for name, score in scores.of(entry).items()}
        metadata = {**entry.result.metadata, **more}
        yield entry._replace(result=msgspec.structs.replace(entry.result, metadata=metadata))


def resampled_keys(archive: Archive, run: RunRecord) -> frozenset[bytes]:
    """Return the items that the same graph answered again after a refusal, a cut or an unfitting answer."""
    if not any(count.generation > run.generation for count in archive.counts(run)):
        return frozenset()
    again = archive.histories(run, Query(from_generation=run.generation + 1))
    return frozenset(history.entries[0].key for history in again if _is_resampled(run, history))


def _is_resampled(run: RunRecord, history: ItemHistory) -> bool:
    current = max(history.entries, key=lambda entry: entry.generation)
    return any(
        entry.result.error is not None
        and entry.result.error.cause in ANSWER_CAUSES
        and run.generation <= entry.generation < current.generation
        and entry.result.input == current.result.input
        for entry in history.entries
    )


def figures_of_run(
    archive: Archive, run: RunRecord, *, by: Sequence[str] = (), cluster: str | None = None
) -> list[ScoreFigures]:
    """Return the figures of all scorers of a run, also by fields of its items; ``cluster`` groups intervals."""
    scores, resampled = StoredScores(archive, run), resampled_keys(archive, run)
    names = [each.graph_name for each in scores.passes]
    if not names:
        return []
    samples: dict[str, list[ScoredSample]] = {name: [] for name in names}
    wanted = _WantedFields([*by, *([] if cluster is None else [cluster])])
    count = 0
    for entry in archive.entries(run, Query(statuses=SCORED)):
        if entry.is_orphaned:
            continue
        count += 1
        found = scores.of(entry)
        fields = wanted.of(entry.result)
        for name, score in found.items():
            sample = _sample(entry.result, name, found, score, fields[: len(by)], fields[len(by) :])
            samples[name].append(msgspec.structs.replace(sample, is_resampled=entry.key in resampled))
    wanted.require_found()
    expected = max(count, (run.total or 0) - run.orphans)
    return [
        figures_of(
            samples[name],
            scorer=name,
            run_id=each.id,
            missing=max(0, expected - len(samples[name])),
            by=tuple(by),
            usage=each.usage,
        )
        for name, each in zip(names, scores.passes, strict=True)
    ]


def headlines_of_passes(archive: Archive, run: RunRecord, passes: Sequence[RunRecord]) -> dict[str, Figure]:
    """Return the headlines of the passes over a run by their ids, for a list; none if the run is large."""
    if not passes or run.rows > _MOST_LISTED:
        return {}
    scores = StoredScores(archive, run, passes)
    samples: dict[str, list[ScoredSample]] = {each.graph_name: [] for each in passes}
    for entry in archive.entries(run, Query(statuses=SCORED)):
        if not entry.is_orphaned:
            for name, score in scores.of(entry).items():
                item_id = entry.result.item_id
                samples[name].append(ScoredSample(item_id=item_id, value=score.value, outcome=score.outcome))
    found = {each.id: headline_of(samples[each.graph_name]) for each in passes}
    return {name: figure for name, figure in found.items() if figure is not None}


def _sample(
    result: Result,
    name: str,
    found: Mapping[str, Score],
    score: Score,
    fields: tuple[Any, ...],
    cluster: tuple[Any, ...],
) -> ScoredSample:
    return ScoredSample(
        item_id=result.item_id,
        value=score.value,
        outcome=intern(score.outcome),
        answer=score.answer if result.sample else None,  # only needed to count votes
        fields=fields,
        cluster=_cluster(result, cluster),
        ratings=_ratings(result, {other: each for other, each in found.items() if other != name}),
        confidence=_share(output_field(result, "confidence")),
    )


def _cluster(result: Result, found: tuple[Any, ...]) -> str | None:
    """Return what an item depends on, if that is asked for; without a value it is alone."""
    if not found:
        return None
    return f"item {result.item_id}" if found[0] is None else f"value {found[0]}"


def _ratings(result: Result, others: Mapping[str, Score]) -> dict[str, bool]:
    """Return who accepted an answer: the verifier and the judge of its workflow, and other scorers."""
    found = {}
    passed, judged = output_field(result, "passed"), _share(output_field(result, "score"))
    if isinstance(passed, bool):
        found[_AGENTS[0]] = passed
    if judged is not None:
        found[_AGENTS[1]] = judged >= ACCEPTED
    for name, score in others.items():
        if score.outcome not in LEFT_OUT:
            found[f"scorer {name}"] = (score.value or 0.0) >= ACCEPTED
    return found or _NO_RATINGS


def output_field(result: Result, name: str) -> Any:
    """Return a field of an item's output; None if there is none."""
    return result.output.get(name) if isinstance(result.output, Mapping) else None


def _share(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= 1 else None


class _WantedFields:
    """Values of fields of items: of their metadata, their own, or of what came out; dots lead into a value."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._unseen = UnseenFields(names)

    def of(self, result: Result) -> tuple[Any, ...]:
        if not self._names:
            return ()
        given = result.input if isinstance(result.input, Mapping) else {}
        places = (given.get("metadata"), given, result.output)
        found = {name: _first_inside(places, name) for name in self._names}
        self._unseen.note(found, lambda: (str(key) for place in places if isinstance(place, Mapping) for key in place))
        return tuple(None if found[name] is MISSING else found[name] for name in self._names)

    def require_found(self) -> None:
        """Refuse a field that no item has."""
        self._unseen.require_none("no item has a field")


def _first_inside(places: Sequence[Any], name: str) -> Any:
    return next((found for place in places if (found := field_inside(place, name)) is not MISSING), MISSING)


# -- as text


def headlines(figures: Sequence[ScoreFigures]) -> list[str]:
    """Return the headline of each scorer, with its name if there are several."""
    if len(figures) == 1:
        return [str(figures[0])]
    return [f"{each.scorer} {each}" for each in figures]


def score_lines(figures: Sequence[ScoreFigures]) -> list[str]:
    """Say what each scorer found: its figures, and what was wrong with the other answers."""
    return [line for each in figures for line in _lines(each)]


def _lines(figures: ScoreFigures) -> Iterator[str]:
    yield f"{figures.scorer}: {figures}"
    if counts := _counts(figures):
        yield f"  {counts}"
    yield from (f"  {figure}" for figure in figures.figures)
    rows = [
        (f"{group.field} {one_line(str(group.value), _VALUE_CHARS)}", *_group(group.figure)) for group in figures.groups
    ]
    yield from (f"  {line}" for line in align_columns(rows))
    shown = (each for each in figures.agreements if each.other == TRUTH or (each.rater, each.other) == _AGENTS)
    yield from (f"  {_agreement(each)}" for each in shown)
    if figures.calibration is not None:
        found = figures.calibration
        yield f"  confidence of {count_text(found.items, 'answer')}: ece {found.ece:.3f}, brier {found.brier:.3f}"
    if figures.usage:
        yield f"  scoring took {usage_lines(figures.usage)[0].strip()}"


def _group(figure: Figure) -> tuple[str, str]:
    return str(figure), count_text(figure.items, "item")


def _counts(figures: ScoreFigures) -> str:
    parts = [f"{count:,} {name}" for name, count in figures.outcomes.items()]
    parts += [f"{count:,} left out: {_WHY_LEFT_OUT[name]}" for name, count in figures.left_out.items()]
    if figures.missing:
        parts.append(f"{figures.missing:,} not scored")
    if figures.resampled:
        parts.append(f"{figures.resampled:,} resampled")
    return " · ".join(parts)


def _agreement(found: RaterAgreement) -> str:
    each = found.agreement
    text = f"{found.rater} agrees with {'it' if found.other == TRUTH else found.other} on {each.agreed:.3f}"
    if each.kappa is not None:
        text += f", kappa {each.kappa:.3f}"
    if found.other == TRUTH:
        if each.false_accept is not None:
            text += f", accepts {each.false_accept:.3f} of the wrong"
        if each.false_reject is not None:
            text += f", rejects {each.false_reject:.3f} of the right"
    return f"{text} ({count_text(each.items, 'answer')})"


def item_score_lines(scores: Mapping[str, Score]) -> list[str]:
    """Show the scores of one item: the outcome, the answer that was compared, and why."""
    return align_columns(
        [
            (name, score.outcome, _value(score), one_line(str(score.answer or ""), _VALUE_CHARS), score.explanation)
            for name, score in scores.items()
        ]
    )


def _value(score: Score) -> str:
    return "" if score.value in (None, 0, 1) else f"{score.value:.2f}"
