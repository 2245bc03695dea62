"""A simulated journal: what a run hands over is committed in groups, after a while; what was not when the process died is lost."""

import asyncio
from dataclasses import dataclass
from typing import Any

from graphmill.core.job import Past
from graphmill.core.json import json_bytes
from graphmill.core.result import Kind
from graphmill.core.usage import NO_USAGE, Usage, spent_nano
from graphmill.engine.results.recorder import GATHER_S, FailedAttempts, Recall, StepOutcome

_NOT_COUNTED = (Kind.THROTTLED, Kind.UNAVAILABLE, Kind.CANCELLED, Kind.PAUSED)


@dataclass(slots=True, kw_only=True)
class Row:
    """What was handed over: how a step, note or job ended, that an attempt failed, or that an unsafe one is to begin."""

    kind: str
    job_id: str
    path: str = ""
    content: bytes = b""
    attempt: int = 0
    outcome: Any = None
    usage: Usage = NO_USAGE
    handed_s: float = 0.0
    committed_s: float | None = None


class SimulatedJournal:
    """What is committed of one run, through all its processes."""

    def __init__(self, commit_s):
        self.commit_s = commit_s
        self.rows = []
        self.held_nano = 0  # survives a process at once
        self.live = None

    def recorder(self, jobs, *, run_id, total, answers):
        """Be the journal of an executor: take hold of the run."""
        del answers
        self.live = SimulatedRecorder(self, jobs, run_id=run_id, total=total)
        return self.live

    def usage(self):
        """Give what the committed rows have used, and what may have been lost with a process."""
        used = {"m": sum((row.usage for row in self.rows), NO_USAGE)}
        lost_nano = max(0, self.held_nano - spent_nano(used))
        return {"m": used["m"] + Usage(lost_nano=lost_nano)}

    def has_result(self, job_id):
        """Whether a job is finished."""
        return any(row.kind == "result" and row.job_id == job_id for row in self.rows)

    def past_of(self, job_id, position):
        """Give what earlier processes have recorded of a job that is a function."""
        failed = self.failed(job_id).get("", FailedAttempts())
        return Past(attempts=failed.last, counted=failed.counted, position=position)

    def failed(self, job_id):
        """Give the failed attempts of a job by path."""
        found = {}
        for row in self.rows:
            if row.kind == "failed" and row.job_id == job_id:
                before = found.get(row.path, FailedAttempts())
                counted = before.counted + (row.outcome.kind not in _NOT_COUNTED)
                found[row.path] = FailedAttempts(max(before.last, row.attempt), counted)
        return found

    def recall(self, job_id):
        """Give what is recorded of a job's steps."""
        known = [row for row in self.rows if row.job_id == job_id and row.kind in ("step", "note")]
        intended = {row.path for row in self.rows if row.job_id == job_id and row.kind == "intent"}
        failed = {path: attempts for path, attempts in self.failed(job_id).items() if path}
        if not (known or intended or failed):
            return None
        outcomes = {(row.path, row.content): row.outcome._replace(order=order) for order, row in enumerate(known)}
        ends = [row.outcome.began_s + row.outcome.duration_s for row in known]
        return Recall(outcomes, intended, failed, 0, max(ends, default=0.0))


class SimulatedRecorder:
    """The recorder of one process."""

    is_recording = True
    created_at = 0.0
    suspects = 0
    traced = None

    def __init__(self, journal, jobs, *, run_id, total):
        self.run_id = run_id
        self.jobs = jobs
        self.total = total
        self.done = {}
        self.usage = journal.usage()
        self._spent = {}
        self.is_dead = False
        self.rows = []  # all that this process has handed over
        self._journal = journal
        self._pending = []
        self._committing = []
        self._due = 0
        self._gathering = None
        self._is_idle = asyncio.Event()

    @property
    def is_clean(self):
        """Whether all that was handed over is committed."""
        return not self._pending and not self._committing

    @property
    def intents(self):
        """The attempts that have a slot and begin when that is committed, by job and path."""
        return [(row.job_id, row.path) for row in (*self._committing, *self._pending) if row.kind == "intent"]

    def die(self):
        """Lose what is not committed: from now on nothing is, whoever believes so."""
        self.is_dead = True

    # What the engine asks of it

    def open(self, *, committed, broken, asked):
        del broken, asked
        self._loop = asyncio.get_running_loop()
        self._told = committed

    @staticmethod
    def accept(output):
        return output, json_bytes(output)

    def begin(self, job, attempt, path=""):
        return self._put("intent", job, path, attempt=attempt) if path else 0

    def fail(self, job, attempt, failure, path="", *, usage=None):
        if not path and failure.kind in _NOT_COUNTED and usage is None:
            return 0
        return self._put("failed", job, path, attempt=attempt, outcome=failure)

    def step(self, job, path, content, outcome):
        return self._put("step", job, path, content=content, outcome=outcome)

    def remember(self, job, path, content, body, *, is_temporary):
        del is_temporary
        return self._put("note", job, path, content=content, outcome=_noted(body))

    def finish(self, job, result, body, last=None):
        del body
        if last is not None:
            self._add("step", job, last.path, content=last.content, outcome=last.outcome)
        return self._add("result", job, "", outcome=result)

    def recall(self, job):
        return self._journal.recall(job.id)

    def spend(self, job, model, usage):
        self._spent[job.id] = self._spent.get(job.id, NO_USAGE) + usage

    def save_committed(self, nano):
        if not self.is_dead:
            self._journal.held_nano = nano

    def spill(self):
        return None

    def leave(self, job):
        del job

    def note(self, **_):
        pass

    def abandon(self):
        raise AssertionError("the run was begun")

    def hurry(self):
        self._due = len(self.rows)
        if self._pending and not self._committing:
            self._committing, self._pending = self._pending, []
            self._loop.call_later(self._journal.commit_s, self._committed)

    async def close(self, **_):
        if self._gathering is not None:
            self._gathering.cancel()
        self.hurry()
        while not self.is_clean:
            self._is_idle.clear()
            await self._is_idle.wait()

    def _put(self, *args, **fields):
        number = self._add(*args, **fields)
        if self._gathering is None:
            self._gathering = self._loop.call_later(GATHER_S, self._gathered)
        return number

    def _add(self, kind, job, path, **fields):
        usage = self._spent.pop(job.id, NO_USAGE)
        row = Row(kind=kind, job_id=job.id, path=path, usage=usage, handed_s=self._loop.time(), **fields)
        self.rows.append(row)
        self._pending.append(row)
        return len(self.rows)

    def _gathered(self):
        self._gathering = None
        self.hurry()

    def _committed(self):
        done, self._committing = self._committing, []
        if not self.is_dead:
            for row in done:
                row.committed_s = self._loop.time()
            self._journal.rows += done
        number = len(self.rows) - len(self._pending)
        if self._due > number:
            self.hurry()
        self._told(number)
        self._is_idle.set()


def _noted(body):
    return StepOutcome(body, None, attempts=0)
