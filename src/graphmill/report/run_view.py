"""One run as readers see it: its record, and figures counted from its results."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from graphmill.core.result import ANSWER_CAUSES, FAILURES, Kind, Result, Status
from graphmill.engine.scheduling.health import NOTHING_ANSWERED
from graphmill.journal.records import SOURCE_FAILED, Query, RunRecord, RunState
from graphmill.journal.resume import is_answered
from graphmill.journal.store import Archive
from graphmill.report.text import (
    ERRORS_SHOWN,
    REHEARSAL,
    clock_text,
    counts_line,
    duration_text,
    iso_time,
    local_time,
    one_line,
    rate_text,
    waiting_lines,
)
from graphmill.report.usage import usage_lines, usage_record
from graphmill.scoring.figures import Figure

NAME_CHARS = 40
_ID_CHARS = 64
_REASON_CHARS = 200
_MOST_READ = 100
_MOST_FAILURES = 1000
KINDS_OF_ANSWERS = frozenset({Kind.PERMANENT, Kind.TRANSIENT})
_RECENT_S = 60.0
_FEWEST_RECENT = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run and how many of its items have which status; ``kinds`` counts the failed ones by kind.

    ``unanswered`` are failed items whose model refused, or whose answer was cut or did not fit; up to 1,000 are
    counted. ``degraded`` items succeeded although something inside failed, ``partial`` ones with less than all.
    ``outdated`` items have a result from before a change, which does not count, and run again.
    ``rate`` is results per second of a running run. ``waiting`` are the first items that wait for an answer, ``score``
    is the headline of a scoring pass where that is read. With ``damage`` the counts are not valid.
    """

    run: RunRecord
    counts: Mapping[Status, int]
    kinds: Mapping[Kind, int]
    elapsed_s: float
    degraded: int = 0
    partial: int = 0
    outdated: int = 0
    unanswered: int = 0
    rate: float | None = None
    waiting: Sequence[Result] = ()
    damage: str = ""
    score: Figure | None = None

    @property
    def name(self) -> str:
        """The run's id, safe to show."""
        return run_name(self.run)

    @property
    def reason(self) -> str:
        """Why it is in this state, or what it waits for; empty once its process has died, as nothing waits any more."""
        if self.run.is_interrupted:
            return ""
        return self.run.reason

    @property
    def done(self) -> int:
        """How many items have a result."""
        return sum(self.counts.values())

    @property
    def failed(self) -> int:
        """How many items failed or timed out."""
        return self.counts.get(Status.FAILED, 0) + self.counts.get(Status.TIMED_OUT, 0)

    @property
    def left(self) -> int | None:
        """How many items have no result that counts; None while the total is unknown."""
        if self.run.total is not None:
            return max(0, self.run.total - self.done)
        if self.run.is_read:
            return self.outdated
        return None

    @property
    def eta_s(self) -> float | None:
        """How long the rest will take at this rate; None if unknown, for example while a model does not answer."""
        if not self.rate or self.left is None or self.reason.startswith(NOTHING_ANSWERED):
            return None
        return self.left / self.rate

    @property
    def can_resume(self) -> bool:
        """Whether resume has something to do; in a paused run that may be only items that are to run again."""
        if self.run.state is RunState.PAUSED:
            return True
        return self.run.state in (RunState.FAILED, RunState.CANCELLED) and self.left != 0

    @property
    def has_broken_source(self) -> bool:
        """Whether it failed because its items could not be read to the end."""
        return self.run.status == SOURCE_FAILED

    @property
    def can_reopen(self) -> bool:
        """Whether a command can load its graph and its items again; only its program has a lambda or a generator."""
        source = self.run.source
        return self.has_graph and bool(source.get("path") or source.get("run") or self.is_single)

    @property
    def needs_source(self) -> bool:
        """Whether a command can load its graph but not its items, which came from standard input."""
        return self.has_graph and "path" in self.run.source and not self.can_reopen

    @property
    def is_of_jobs(self) -> bool:
        """Whether BatchExecutor.start began it: each job brought its own graph, and none is recorded."""
        return "graph" not in self.run.manifest

    @property
    def has_graph(self) -> bool:
        """Whether a command can load its graph again."""
        graph = self.run.graph
        return bool(graph.get("path") or graph.get("function") or graph.get("written"))

    @property
    def waits_for_model(self) -> bool:
        """Whether it is a workflow that is paused because a model is unavailable; another model could continue it."""
        is_workflow = self.run.graph.get("kind") == "workflow"
        is_named = any(model in self.reason for model in self.models)
        return is_workflow and is_named and self.run.state is RunState.PAUSED

    @property
    def models(self) -> list[str]:
        """The models that its graph names, as far as known, and those it has called."""
        named = self.run.graph.get("models", ())
        return list(dict.fromkeys([*named, *filter(None, self.run.usage)]))

    @property
    def is_single(self) -> bool:
        """Whether it is a run of one job, as ``graphmill run`` starts it."""
        return self.run.is_single

    def summary(self) -> str:
        """Say how many items succeeded, in the words of every report."""
        line = counts_line(
            self.counts,
            self.run.total,
            degraded=self.degraded,
            partial=self.partial,
            outdated=self.outdated,
            samples=self.run.samples,
        )
        if self.left is None:
            line += " so far"
        return f"{line} ({REHEARSAL})" if self.run.is_rehearsal else line


def run_name(run: RunRecord) -> str:
    """Return a run's id, safe to show."""
    return one_line(run.id, _ID_CHARS)


def prompt_of(run: RunRecord) -> str:
    """Return the prompt of a run that consists of one; empty for any other."""
    try:
        (node,) = run.graph["written"]["nodes"]
        prompt = node["params"]["prompt"]
    except (KeyError, TypeError, ValueError):
        return ""
    return prompt if isinstance(prompt, str) else ""


def source_name(run: RunRecord) -> str:
    """Return a short name of a run's source: a file without its folder, a dataset without its revision."""
    path = run.source.get("path")
    if not isinstance(path, str):
        return ""
    if path.startswith(("/", ".")):
        return Path(path).name
    return path.partition("@")[0]


def tags_of(run: RunRecord) -> Mapping[str, Any]:
    """Return the tags that a run was started with."""
    return run.options.get("tags") or {}


def view_of(archive: Archive, run: RunRecord, *, now: float | None = None) -> RunView:
    """Count a run's results; ``now`` is wall-clock time, by default the current one."""
    if now is None:
        now = time.time()
    counts: Counter[Status] = Counter()
    kinds: Counter[Kind] = Counter()
    degraded = partial = outdated = 0
    for count in archive.counts(run):
        if run.is_outdated(count.generation):
            outdated += count.number
            continue
        counts[count.status] += count.number
        degraded += count.number * count.is_degraded
        partial += count.number * count.is_partial
        if count.kind is not None and count.status in FAILURES:
            kinds[count.kind] += count.number
    return RunView(
        run=run,
        counts=counts,
        kinds=dict(kinds.most_common()),
        elapsed_s=run.elapsed_at(now),
        degraded=degraded,
        partial=partial,
        outdated=max(0, outdated - run.orphans),
        unanswered=_unanswered(archive, run, kinds),
        rate=_rate(archive, run, now),
        waiting=first_waiting(archive, run) if counts[Status.WAITING] else (),
    )


def _unanswered(archive: Archive, run: RunRecord, kinds: Mapping[Kind, int]) -> int:
    if not any(kinds.get(kind) for kind in KINDS_OF_ANSWERS):
        return 0
    query = Query(statuses=FAILURES, kinds=KINDS_OF_ANSWERS, limit=_MOST_FAILURES)
    errors = (entry.result.error for entry in archive.entries(run, query))
    return sum(error is not None and error.cause in ANSWER_CAUSES for error in errors)


def _rate(archive: Archive, run: RunRecord, now: float) -> float | None:
    """Return results per second in the last minute or, if few, since the process began; None unless running."""
    if run.state is not RunState.RUNNING or run.owner is None:
        return None
    since = max(run.owner.since, now - _RECENT_S)
    count = archive.count_since(run, since)
    if count < _FEWEST_RECENT and since > run.owner.since:
        since = run.owner.since
        count = archive.count_since(run, since)
    if now > since:
        return count / (now - since)
    return None


def first_waiting(archive: Archive, run: RunRecord) -> tuple[Result, ...]:
    """Return the first items that wait for an answer, without those that have it and only wait for resume."""
    entries = archive.entries(run, Query(statuses=frozenset({Status.WAITING}), limit=_MOST_READ))
    with closing(archive.lookup(run)) as lookup:
        waiting = (
            entry.result for entry in entries if not is_answered(lookup.notes(entry.key).steps, entry.generation)
        )
        return tuple(islice(waiting, ERRORS_SHOWN))


def status_line(view: RunView) -> str:
    """Show a run's progress in one line."""
    return f"run {view.name} · {_state(view)} · {view.summary()}{_speed(view)}"


def status_lines(view: RunView) -> list[str]:
    """Show a run's progress: what it is, how far, since when, and what failed."""
    run = view.run
    lines = [
        " · ".join(filter(None, (f"run {view.name}", one_line(run.graph_name, NAME_CHARS), _state(view)))),
        f"{view.summary()}{_speed(view)} · {duration_text(view.elapsed_s)}",
        f"  started {local_time(run.created_at)} · last change {local_time(run.changed_at)}",
    ]
    if run.is_live and run.owner is not None:
        host = one_line(run.owner.host, NAME_CHARS)
        lines.append(f"  in process {run.owner.pid} on {host} since {local_time(run.owner.since)}")
    if view.kinds:
        lines.append("  failures: " + " · ".join(f"{kind} {count:,}" for kind, count in view.kinds.items()))
    used = usage_lines(run.usage, run.policy.get("budget_usd"))
    return [*lines, *used, *waiting_lines(view.waiting, view.counts.get(Status.WAITING, 0))]


def _state(view: RunView) -> str:
    state = str(view.run.status)
    if view.reason:
        return f"{state}: {one_line(view.reason, _REASON_CHARS)}"
    return state


def _speed(view: RunView) -> str:
    if view.rate is None:
        return ""
    eta = "" if view.eta_s is None else f" · eta {clock_text(view.eta_s)}"
    return f" · {rate_text(view.rate)}{eta}"


def run_record(view: RunView) -> dict[str, Any]:
    """Return a run as data; docs/cli.md describes the fields."""
    run = view.run
    record: dict[str, Any] = {
        "id": run.id,
        "state": run.state,
        "cause": run.status.cause,
        "of": run.scored_id or None,
        "score": None if view.score is None else asdict(view.score),
        "is_live": run.is_live,
        "reason": view.reason,
        "graph": run.graph_name,
        "rehearsal": run.is_rehearsal,
        "prompt": prompt_of(run) or None,
        "models": view.models,
        "source": run.source.get("path"),
        "tags": dict(tags_of(run)),
        "created_at": iso_time(run.created_at),
        "changed_at": iso_time(run.changed_at),
        "elapsed_s": round(view.elapsed_s, 3),
        "rate": _rounded(view.rate, 3),
        "eta_s": _rounded(view.eta_s, 1),
        "generation": run.generation,
        "owner": None,
        "summary": None,
        "counts": None,
        "kinds": None,
        "usage": usage_record(run.usage),
        "budget_usd": run.policy.get("budget_usd"),
        "waiting": [{"id": result.job_id, "questions": dict(result.questions)} for result in view.waiting],
        "damage": view.damage or None,
    }
    if run.owner is not None:
        record["owner"] = {"host": run.owner.host, "pid": run.owner.pid, "since": iso_time(run.owner.since)}
    if not view.damage:
        record["summary"] = view.summary()
        record["counts"] = {"total": run.total, "done": view.done, "left": view.left}
        record["counts"] |= {"degraded": view.degraded, "partial": view.partial, "outdated": view.outdated}
        record["counts"] |= {str(status): view.counts.get(status, 0) for status in Status if status.is_final}
        record["kinds"] = {str(kind): count for kind, count in view.kinds.items()}
    return record


def _rounded(value: float | None, digits: int) -> float | None:
    if value is None:
        return None
    return round(value, digits)
