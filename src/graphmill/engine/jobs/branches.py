"""Branches of a job: forks, and the replay of what earlier processes recorded."""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from graphmill.engine.jobs.life import Lives
from graphmill.engine.jobs.program import Fork, StepEnd
from graphmill.engine.jobs.state import Branch, JobState
from graphmill.engine.timers import ends_run_on_error

if TYPE_CHECKING:
    from graphmill.engine.jobs.driver import Driver

WAITS_FOR_FORK, WAITS_FOR_REPLAY = "fork", "replay"
_MAX_BRANCHES_PER_TURN = 100  # so that no turn of the loop is long
_MAX_REPLAYED_PER_TURN = 100


class Replay:
    """The recorded outcomes and decisions that branches of a job wait for, and branches with new steps: pure.

    Recorded outcomes are returned in the order in which they were recorded: which of two items failed first may decide
    what happens to the other. What was recorded before ``since`` belongs to earlier generations: its time does not
    count.
    """

    __slots__ = ("_count", "_outcomes", "_since", "_timed", "_waiting", "is_scheduled", "open_forks")

    def __init__(self, since: int = 0) -> None:
        self._since = since
        self._timed: dict[Branch, tuple[Fork, Spans]] = {}
        self._outcomes: list[tuple[float, int, Branch, Any]] = []
        self._waiting: list[Branch] = []
        self._count = 0
        self.is_scheduled = False
        self.open_forks = 0  # those that have not yet started all the branches they can

    @property
    def is_over(self) -> bool:
        """Whether new steps may begin."""
        return not (self._outcomes or self.open_forks or self.is_scheduled)

    def add(self, order: float, branch: Branch, value: Any) -> None:
        """Add a branch that waits for the turn of something recorded."""
        self._count += 1
        heappush(self._outcomes, (order, self._count, branch, value))

    def next(self) -> tuple[Branch, Any] | None:
        """Return what was recorded first, once everything that might come before it is here."""
        if not self._outcomes or self.open_forks:
            return None
        order, _, branch, value = heappop(self._outcomes)
        if self._timed and order >= self._since and isinstance(value, StepEnd):
            self._count_time(branch, value)
        return branch, value

    def add_waiting(self, branch: Branch) -> None:
        """Add a branch that waits until the replay is over."""
        self._waiting.append(branch)

    def take_waiting(self) -> list[Branch]:
        """Remove and return the branches that waited."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def add_timed(self, branch: Branch, fork: Fork) -> None:
        """Count the time that a fork with a time limit has used already; its timer starts when the replay is over."""
        self._timed[branch] = (fork, Spans())

    def take_timed(self) -> list[tuple[Branch, Fork, float]]:
        """Return the forks that are still running, each with the time it has left."""
        timed, self._timed = self._timed, {}
        return [
            (branch, fork, (fork.timeout_s or 0.0) - spans.total_s)
            for branch, (fork, spans) in timed.items()
            if branch.fork is fork and not branch.is_dropped
        ]

    def _count_time(self, branch: Branch, end: StepEnd) -> None:
        above = branch.parent
        while above is not None:
            if above in self._timed:
                self._timed[above][1].add(end.began_s, end.began_s + end.duration_s)
            above = above.parent


class Spans:
    """Adds up spans of time, overlaps once; they come in the order of their ends."""

    __slots__ = ("_spans",)

    def __init__(self) -> None:
        self._spans: list[tuple[float, float]] = []

    def add(self, began_s: float, ended_s: float) -> None:
        """Count a span."""
        while self._spans and self._spans[-1][1] >= began_s:
            began, ended = self._spans.pop()
            began_s, ended_s = min(began_s, began), max(ended_s, ended)
        self._spans.append((began_s, ended_s))

    @property
    def total_s(self) -> float:
        """How long they are together."""
        return sum(ended - began for began, ended in self._spans)


class ForkClock:
    """The time limit of a fork; it stands still while everything below waits for servers."""

    __slots__ = ("_expire", "_left_s", "_loop", "_timer")

    def __init__(self, loop: AbstractEventLoop, left_s: float, expire: Callable[[], None]) -> None:
        self._loop = loop
        self._left_s = left_s
        self._expire = expire
        self._timer: TimerHandle | None = loop.call_later(left_s, expire)

    def stand(self, *, still: bool) -> None:
        """Stop it, or let it use the time that is left."""
        if still and self._timer is not None:
            self._left_s = self._timer.when() - self._loop.time()
            self.cancel()
        elif not still and self._timer is None:
            self._timer = self._loop.call_later(self._left_s, self._expire)

    def cancel(self) -> None:
        """Stop it for good."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Branches:
    """Runs the forks and replays of a run's jobs."""

    def __init__(self, driver: Driver, lives: Lives, loop: AbstractEventLoop) -> None:
        self._driver = driver
        self.crash = driver.crash
        self._lives = lives
        self._loop = loop
        self._clocks: dict[Branch, ForkClock] = {}  # of branches whose fork has a time limit

    # -- forks ---------------------------------------------------------------------------------------------------------

    def begin_fork(self, branch: Branch, fork: Fork) -> bool:
        """Begin a fork; return whether it is over already."""
        branch.fork, branch.waits_for = fork, WAITS_FOR_FORK
        replay = branch.job.record.replay
        if fork.timeout_s is not None and replay is not None and not replay.is_over:
            replay.add_timed(branch, fork)
        elif fork.timeout_s is not None:
            self._start_clock(branch, fork, fork.timeout_s)
        return self._continue_fork(branch, fork)

    def hold(self, branch: Branch, *, is_held: bool) -> None:
        """Note whether a branch waits for a server; clocks above stand still while everything below them waits."""
        if branch.is_held is not is_held:
            branch.is_held = is_held
            self.set_clocks(branch)

    def set_clocks(self, branch: Branch | None) -> None:
        """Stop the clocks above a branch, or let them go on."""
        while branch is not None and self._clocks:
            clock = self._clocks.get(branch)
            if clock is not None:
                clock.stand(still=_is_held(branch))
            branch = branch.parent

    def close(self) -> None:
        """Leave no timer behind."""
        for branch in list(self._clocks):
            self.cancel_clock(branch)

    def cancel_clock(self, branch: Branch) -> None:
        """Stop the clock of a branch, if its fork has one."""
        clock = self._clocks.pop(branch, None)
        if clock is not None:
            clock.cancel()

    def _start_clock(self, branch: Branch, fork: Fork, left_s: float) -> None:
        self._clocks[branch] = ForkClock(self._loop, left_s, lambda: self._fork_expired(branch, fork))
        self.set_clocks(branch)

    def child_ended(self, parent: Branch, child: Branch, value: Any, failure: Any) -> None:
        """Report to a fork how one of its branches ended."""
        fork = parent.fork
        if fork is not None and child.program is not None:
            fork.ended(child.program, value, failure)
            self._check_fork(parent, fork)

    def child_dropped(self, parent: Branch) -> None:
        """Continue a fork without a cancelled branch."""
        if parent.fork is not None:
            self._check_fork(parent, parent.fork)

    def _continue_fork(self, branch: Branch, fork: Fork) -> bool:
        """Start the branches that may start now; return whether the fork is over."""
        started, branch.is_forking = 0, True
        while not (fork.is_stopped or branch.is_dropped) and started < _MAX_BRANCHES_PER_TURN:
            program = fork.more()
            if program is None:
                break
            started += 1
            child = Branch(branch.job, program, branch)
            child.life = self._lives.run_program(child)
            branch.children[child] = None
            self._driver.resume(child)
        if fork.is_stopped:
            for child in list(branch.children):
                self._driver.drop(child)
        if started:
            self.set_clocks(branch)  # they may stand still: so far, everything below waited
        branch.is_forking = False  # not before: a worker process call ends as soon as it is interrupted
        if branch.is_dropped:
            return False
        if not fork.is_stopped and started == _MAX_BRANCHES_PER_TURN:
            if (replay := branch.job.record.replay) is not None:
                replay.open_forks += 1
            self._loop.call_soon(self._fork_next_turn, branch, fork)
            return False
        if branch.children:
            return False
        branch.fork = None
        self.cancel_clock(branch)
        return True

    @ends_run_on_error
    def _fork_next_turn(self, branch: Branch, fork: Fork) -> None:
        replay = branch.job.record.replay
        self._check_fork(branch, fork)
        if replay is not None:
            replay.open_forks -= 1
            self.schedule_replay(branch.job)

    @ends_run_on_error
    def _check_fork(self, branch: Branch, fork: Fork) -> None:
        """Start what a fork may start now; if it is over, resume its branch."""
        self._driver.set_now()
        if branch.fork is not fork or branch.is_forking or branch.is_dropped or branch.job.end_failure is not None:
            return
        if self._continue_fork(branch, fork):
            self._driver.resume(branch)

    @ends_run_on_error
    def _fork_expired(self, branch: Branch, fork: Fork) -> None:
        self.cancel_clock(branch)
        fork.expire()
        self._check_fork(branch, fork)

    # -- replay --------------------------------------------------------------------------------------------------------

    def wait_for_turn(self, branch: Branch, order: float, value: Any) -> None:
        """Resume a branch with something recorded when its turn comes."""
        branch.waits_for = WAITS_FOR_REPLAY
        record = branch.job.record
        if record.replay is None:
            record.replay = Replay()
        record.replay.add(order, branch, value)
        self.schedule_replay(branch.job)

    def wait_for_end_of_replay(self, branch: Branch) -> None:
        """Resume a branch when the replay is over."""
        branch.waits_for = WAITS_FOR_REPLAY
        replay = branch.job.record.replay
        assert replay is not None  # noqa: S101
        replay.add_waiting(branch)

    def schedule_replay(self, job: JobState) -> None:
        """Replay in the next turn of the loop: by then everything that comes first is here."""
        replay = job.record.replay
        if replay is not None and not replay.is_scheduled:
            replay.is_scheduled = True
            self._loop.call_soon(self._replay, job, replay)

    @ends_run_on_error
    def _replay(self, job: JobState, replay: Replay) -> None:
        """Resume branches with what is recorded; when nothing is left, let new steps begin."""
        self._driver.set_now()
        for _ in range(_MAX_REPLAYED_PER_TURN):
            recorded = replay.next()
            if recorded is None:
                break
            branch, value = recorded
            if not branch.is_dropped:
                self._driver.resume(branch, value)
        replay.is_scheduled = False
        if not replay.is_over:
            if not replay.open_forks:
                self.schedule_replay(job)
            return
        for branch, fork, left_s in replay.take_timed():
            self._resume_timer(branch, fork, left_s)
        for branch in replay.take_waiting():
            if not branch.is_dropped:
                self._driver.resume(branch)

    def _resume_timer(self, branch: Branch, fork: Fork, left_s: float) -> None:
        """Restart the timer of a fork with the time it has left, unless one that just expired has ended it."""
        if branch.fork is not fork or branch.is_dropped:
            return
        if left_s > 0:
            self._start_clock(branch, fork, left_s)
        else:
            self._fork_expired(branch, fork)


def _is_held(branch: Branch) -> bool:
    """Whether a branch, or everything that runs below it, waits for servers."""
    if not branch.children:
        return branch.is_held
    return all(map(_is_held, branch.children))
