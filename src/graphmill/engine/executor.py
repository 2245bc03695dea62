"""The executor: a policy, the hooks, and the runs they start."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from graphmill.core.errors import UsageError
from graphmill.core.job import Job
from graphmill.core.result import Result
from graphmill.engine.admission import Bind
from graphmill.engine.alerts import Alert
from graphmill.engine.audience import Hooks
from graphmill.engine.events import Event
from graphmill.engine.feed import known_length, require_series
from graphmill.engine.machine import Machine, Readable
from graphmill.engine.policy import Policy, require_policy
from graphmill.engine.progress import Progress
from graphmill.engine.recorder import Journal, Recorder
from graphmill.engine.run import Run
from graphmill.engine.terms import Terms


class BatchExecutor:
    """Runs jobs under a policy.

    ``on_result(job, result)`` sees every result, ``on_progress(progress)`` the newest reading twice a second,
    ``on_alert(alert)`` what the policy's alerts find, each observer all events. Plain functions among them are called in a
    thread, async ones on the loop; none can harm the run. A slow ``on_result`` holds the source back; a slow observer
    misses events, and the log says how many.
    """

    def __init__(  # noqa: PLR0913  one parameter per choice
        self,
        policy: Policy | None = None,
        *,
        on_result: Callable[[Job, Result], Any] | None = None,
        on_progress: Callable[[Progress], Any] | None = None,
        on_alert: Callable[[Alert], Any] | None = None,
        observers: Sequence[Callable[[Event], Any]] = (),
        journal: Journal | None = None,
        random: Random | None = None,
        machine: Readable | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._policy = require_policy(policy)
        if self._policy.guards.worker_memory_bytes is not None and self._policy.isolation is None:
            raise UsageError(
                "worker_memory_bytes guards worker processes, and there are none; add isolation='process' or leave it out"
            )
        self._hooks = Hooks(on_result=on_result, on_progress=on_progress, on_alert=on_alert, observers=observers)
        self._random = random or Random()  # noqa: S311  spreads waits, guards nothing
        self._machine = machine or Machine()
        self._wall = wall
        if journal is not None and not hasattr(journal, "recorder"):
            raise UsageError(f"journal is an open one, gm.open_journal(path), not {journal!r:.80}")
        self._journal = journal

    def start(
        self,
        jobs: Iterable[Any] | AsyncIterable[Any],
        *,
        bind: Bind | None = None,
        total: int | None = None,
        accept: Callable[[Any], Any] | None = None,
        run_id: str | None = None,
        answers: Mapping[str, Any] | None = None,
        recorder: Callable[[], Recorder] | None = None,
    ) -> Run:
        """Make a run over these jobs; it begins when it is entered with ``async with``.

        With ``bind`` the series may hold anything: ``bind(position, item)`` makes the job of an item. ``total`` tells
        how many there will be, for a series that can not say so itself. ``accept(output)`` is called on every output where
        it was made: what it gives stands for it, what it raises is the attempt's failure. ``recorder`` takes hold of the run in
        a journal, when it begins; then its jobs are run. With the executor's own ``journal`` it is recorded as ``run_id``, new
        or gone on with; ``answers`` are those to its jobs that wait for one, by their ids.
        """
        require_series(jobs)
        total = known_length(jobs) if total is None else total
        if (self._journal is not None or recorder is not None) and bind is not None:
            raise UsageError(
                "bind makes jobs of items, and a journal takes them as they are; give it jobs, or use gm.batch"
            )
        if self._journal is not None and recorder is None:
            recorder = partial(self._journal.recorder, jobs, run_id=run_id, total=total, answers=answers)
        elif run_id is not None or answers:
            raise UsageError(
                "run_id and answers are of a journal, and there is none: BatchExecutor(policy, journal=gm.open_journal())"
            )
        terms = Terms(
            policy=self._policy,
            hooks=self._hooks,
            random=self._random,
            machine=self._machine,
            wall=self._wall,
            bind=bind,
            accept=accept,
            total=total,
            recorder=recorder,
        )
        return Run(jobs, terms)
