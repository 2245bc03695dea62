"""One run as readers see it: its record, and figures counted anew from its results."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from graphmill.core.result import FAILURES, Kind, Result, Status
from graphmill.engine.progress import NOTHING_ANSWERED
from graphmill.journal.answers import is_answered
from graphmill.journal.ports import Archive
from graphmill.journal.records import Query, RunRecord, RunState
from graphmill.report.text import ERRORS_SHOWN, clock, counts_line, moment, per_time, seconds, shown, waiting_lines
from graphmill.report.usage import usage_lines, usage_record

_ID_CHARS = 64
NAME_CHARS = 40
_REASON_CHARS = 200
_MOST_LOOKED_AT = 100
_IS_WAITING = frozenset({RunState.PAUSED, RunState.INTERRUPTED})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run and how many of its items stand how; ``kinds`` counts those that failed. With ``damage`` the counts say nothing.

    ``degraded`` counts those of the succeeded in which something failed; ``rate`` is results per second of late, of a run that is running.
    ``waiting`` are the first items that wait for an answer.
    """

    run: RunRecord
    counts: Mapping[Status, int]
    kinds: Mapping[Kind, int]
    elapsed_s: float
    degraded: int = 0
    rate: float | None = None
    waiting: Sequence[Result] = ()
    damage: str = ""

    @property
    def name(self) -> str:
        """The run's id, fit to be shown."""
        return run_name(self.run)

    @property
    def reason(self) -> str:
        """Why it stands so, or what it waits for; of one whose process has died, nothing: what that waited for is over."""
        return "" if self.run.state is RunState.INTERRUPTED else self.run.reason

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
        """How many items have no result; None where nobody knows how many there are."""
        if self.run.total is None:
            return 0 if self.run.is_read else None
        return max(0, self.run.total - self.done)

    @property
    def eta_s(self) -> float | None:
        """How long it will take at this rate; None where that can not be said, as while a model answers nothing."""
        if self.reason.startswith(NOTHING_ANSWERED):
            return None
        return self.left / self.rate if self.rate and self.left is not None else None

    @property
    def can_go_on(self) -> bool:
        """Whether there is something for resume to do; of a run that is waiting, items to be done again may be all."""
        return self.run.state in _IS_WAITING or (
            self.run.state in (RunState.FAILED, RunState.CANCELLED) and self.left != 0
        )

    @property
    def can_be_opened(self) -> bool:
        """Whether a command can open its graph and its items again; a lambda or a generator only its program has."""
        return self.has_graph and bool(_source(self.run).get("path") or self.is_single)

    @property
    def needs_source(self) -> bool:
        """Whether a command can open its graph again, and must be given its items, which came by standard input."""
        return self.has_graph and "path" in _source(self.run) and not self.can_be_opened

    @property
    def is_of_jobs(self) -> bool:
        """Whether it was begun by BatchExecutor.start: each job has a graph of its own, of which nothing is noted."""
        return "graph" not in self.run.manifest

    @property
    def has_graph(self) -> bool:
        """Whether a command can open its graph again."""
        graph = self.run.manifest.get("graph") or {}
        return bool(graph.get("path") or graph.get("function") or graph.get("written"))

    @property
    def is_held_by_model(self) -> bool:
        """Whether it is a workflow that waits because a model can not be used, and could go on with another."""
        is_named = any(model in self.reason for model in self.models)
        return (
            self.run.state is RunState.PAUSED
            and is_named
            and self.run.manifest.get("graph", {}).get("kind") == "workflow"
        )

    @property
    def models(self) -> list[str]:
        """The models that it asks, as far as that is known, and those that it has asked."""
        return list(
            dict.fromkeys([*self.run.manifest.get("graph", {}).get("models", ()), *filter(None, self.run.usage)])
        )

    @property
    def is_single(self) -> bool:
        """Whether it is a run of one job, whose input was given by hand."""
        return is_single(self.run)

    def summary(self) -> str:
        """Say how many items succeeded, in the words of every report."""
        rest = "to do" if self.run.state.is_live or self.can_go_on else "not reached"
        return counts_line(
            self.counts, self.run.total, degraded=self.degraded, rest=rest, samples=samples_of(self.run)
        ) + (" so far" if self.left is None else "")


def samples_of(run: RunRecord) -> int:
    """Tell how often a run does each item."""
    found: int = run.manifest.get("options", {}).get("samples", 1)
    return found


def is_single(run: RunRecord) -> bool:
    """Tell whether a run is of one job, whose input was given by hand."""
    return "item" in _source(run)


def _source(run: RunRecord) -> Mapping[str, Any]:
    source = run.manifest.get("source")
    return source if isinstance(source, Mapping) else {}


def run_name(run: RunRecord) -> str:
    """Give a run's id, fit to be shown."""
    return shown(run.id, _ID_CHARS)


def view_of(archive: Archive, run: RunRecord, *, now: float | None = None) -> RunView:
    """Count a run's results; ``now`` is a time of the wall clock, by default this one."""
    counts: Counter[Status] = Counter()
    kinds: Counter[Kind] = Counter()
    degraded = 0
    for count in archive.counts(run):
        counts[count.status] += count.number
        degraded += count.number * count.is_degraded
        if count.kind is not None and count.status in FAILURES:
            kinds[count.kind] += count.number
    now = time.time() if now is None else now
    return RunView(
        run=run,
        counts=counts,
        kinds=dict(kinds.most_common()),
        elapsed_s=run.elapsed_at(now),
        degraded=degraded,
        rate=rate_of(archive, run, now),
        waiting=first_waiting(archive, run) if counts[Status.PAUSED] else (),
    )


def first_waiting(archive: Archive, run: RunRecord) -> tuple[Result, ...]:
    """Give the first items that wait for an answer; one that has it, and was not gone on with yet, does not."""
    entries = archive.entries(run, Query(statuses=frozenset({Status.PAUSED}), limit=_MOST_LOOKED_AT))
    with closing(archive.lookup(run)) as lookup:
        waiting = (
            entry.result for entry in entries if not is_answered(lookup.notes(entry.key).steps, entry.generation)
        )
        return tuple(islice(waiting, ERRORS_SHOWN))


def graph_name(manifest: Mapping[str, Any]) -> str:
    """Tell the name of the graph that a run runs; empty if it says none."""
    graph = manifest.get("graph", manifest.get("name"))
    name = graph.get("name") if isinstance(graph, Mapping) else graph
    return name if isinstance(name, str) else ""


def status_line(view: RunView) -> str:
    """Say in one line where a run stands."""
    return f"run {view.name} · {_state(view)} · {view.summary()}{_pace(view)}"


def status_lines(view: RunView) -> list[str]:
    """Say where a run stands: what it is, how far, since when, and what failed."""
    run = view.run
    head = " · ".join(filter(None, (f"run {view.name}", shown(graph_name(run.manifest), NAME_CHARS), _state(view))))
    lines = [
        head,
        f"{view.summary()}{_pace(view)} · {seconds(view.elapsed_s)}",
        f"  begun {moment(run.created_at)} · last change {moment(run.changed_at)}",
    ]
    if run.state.is_live and run.owner is not None:
        lines.append(
            f"  under way on {shown(run.owner.host, NAME_CHARS)} (pid {run.owner.pid}) since {moment(run.owner.since)}"
        )
    if view.kinds:
        lines.append("  failures: " + " · ".join(f"{kind} {count:,}" for kind, count in view.kinds.items()))
    lines += usage_lines(run.usage)
    return lines + waiting_lines(view.waiting, view.counts.get(Status.PAUSED, 0))


def _state(view: RunView) -> str:
    return f"{view.run.state}: {shown(view.reason, _REASON_CHARS)}" if view.reason else str(view.run.state)


def _pace(view: RunView) -> str:
    eta = "" if view.eta_s is None else f" · eta {clock(view.eta_s)}"
    return f" · {per_time(view.rate)}{eta}" if view.rate is not None else ""


def run_record(view: RunView) -> dict[str, Any]:
    """Give a run as data; docs/cli.md describes the fields."""
    run = view.run
    is_known = not view.damage
    return {
        "id": run.id,
        "state": run.state,
        "is_live": run.state.is_live,
        "reason": view.reason,
        "graph": graph_name(run.manifest),
        "created_at": instant(run.created_at),
        "changed_at": instant(run.changed_at),
        "elapsed_s": round(view.elapsed_s, 3),
        "rate": None if view.rate is None else round(view.rate, 3),
        "eta_s": None if view.eta_s is None else round(view.eta_s, 1),
        "generation": run.generation,
        "owner": None
        if run.owner is None
        else {"host": run.owner.host, "pid": run.owner.pid, "since": instant(run.owner.since)},
        "summary": view.summary() if is_known else None,
        "counts": {
            "total": run.total,
            "done": view.done,
            "left": view.left,
            "degraded": view.degraded,
            **_by_status(view.counts),
        }
        if is_known
        else None,
        "kinds": {str(kind): count for kind, count in view.kinds.items()} if is_known else None,
        "usage": usage_record(run.usage),
        "waiting": [{"id": result.job_id, "questions": dict(result.questions)} for result in view.waiting],
        "damage": view.damage or None,
    }


def instant(at: float) -> str:
    """Write a time of the wall clock for machines."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _by_status(counts: Mapping[Status, int]) -> dict[str, int]:
    return {str(status): counts.get(status, 0) for status in Status if status.is_final}


_OF_LATE_S = 60.0
_FEWEST = 10


def rate_of(archive: Archive, run: RunRecord, now: float) -> float | None:
    """Tell the results per second: of the last minute if there were some, else since its process began; None if it is not running."""
    if run.state is not RunState.RUNNING or run.owner is None:
        return None
    of_late = max(run.owner.since, now - _OF_LATE_S)
    count = archive.count_since(run, of_late)
    if count < _FEWEST and of_late > run.owner.since:
        of_late = run.owner.since
        count = archive.count_since(run, of_late)
    return count / (now - of_late) if now > of_late else None
