"""The scores of a run: its scoring passes joined with its results, and their figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from graphmill.core.result import Result
from graphmill.journal.records import Query, RunRecord
from graphmill.journal.store import Archive
from graphmill.scoring.figures import ScoredSample, ScoreFigures, figures_of
from graphmill.scoring.score import INFRASTRUCTURE, Score
from graphmill.scoring.score_pass import SCORED


def passes_of(archive: Archive, run: RunRecord) -> list[RunRecord]:
    """List the scoring passes over a run, oldest first."""
    return [each for each in archive.runs() if each.manifest.get("of") == run.id]


def score_in(result: Result) -> Score | None:
    """Return the score that a result of a pass holds; None if its scorer failed."""
    if not result.is_success or not isinstance(result.output, Mapping):
        return None
    return msgspec.convert(result.output, Score)


def figures_of_run(archive: Archive, run: RunRecord) -> list[ScoreFigures]:
    """Return the figures of all scorers of a run."""
    passes = passes_of(archive, run)
    expected = sum(count.number for count in archive.counts(run) if count.status in SCORED) - run.orphans
    if run.total is not None:
        expected = max(expected, run.total)
    return [
        figures_of(_samples(archive, each), scorer=scorer_name(each), run_id=each.id, expected=expected)
        for each in passes
    ]


def scorer_name(run: RunRecord) -> str:
    """Return the name of a pass's scorer."""
    return str(run.manifest["graph"]["name"])


def _samples(archive: Archive, run: RunRecord) -> Iterator[ScoredSample]:
    for entry in archive.entries(run, Query(statuses=SCORED)):
        if not entry.is_orphaned:
            yield sample_of(entry.result)


def sample_of(result: Result) -> ScoredSample:
    """Return a result of a pass as a sample; where the grader failed, nothing is known of the answer."""
    score = score_in(result)
    if score is None:
        return ScoredSample(item_id=result.item_id, value=None, outcome=INFRASTRUCTURE)
    return ScoredSample(item_id=result.item_id, value=score.value, outcome=score.outcome, answer=score.answer)


def headlines(figures: Sequence[ScoreFigures]) -> list[str]:
    """Return the headline of each scorer, with its name if there are several."""
    if len(figures) == 1:
        return [str(figures[0])]
    return [f"{each.scorer} {each}" for each in figures]


def score_lines(figures: Sequence[ScoreFigures]) -> list[str]:
    """Say what each scorer found: its figures, and what was wrong with the other answers."""
    lines = []
    for each in figures:
        lines.append(f"{each.scorer}: {each}")
        lines += [f"  {line}" for line in (_counts(each), " · ".join(map(str, each.others))) if line]
    return lines


def _counts(figures: ScoreFigures) -> str:
    parts = [f"{count:,} {name}" for name, count in figures.outcomes.items()]
    if figures.left_out:
        parts.append(f"{figures.left_out:,} left out: the infrastructure failed")
    if figures.missing:
        parts.append(f"{figures.missing:,} not scored")
    return " · ".join(parts)
