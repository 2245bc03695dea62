"""Runs a scenario with the real executor on the virtual clock, and gives its trace."""

import asyncio
import logging
import threading
from dataclasses import replace
from random import Random

import graphmill as gm
from simulation.journal import SimulatedJournal
from simulation.trace import Trace
from simulation.world import World
from support.virtual_clock import NothingLeftToWaitFor, VirtualClockLoop

_MOST_TURNS = 20_000  # of the loop in one instant
_HUNG = []  # kept, else their coroutines would be closed in the middle of what they wait for, and complain
_MOST_S = 10_000.0  # several times what the longest scenario takes


class RestingLoop(VirtualClockLoop):
    """Tells when nothing more happens until time passes: just before the clock jumps."""

    def __init__(self):
        super().__init__()
        self.rest = None
        self._turns = 0
        self._jump = self._clock.select
        self._clock.select = self._select

    def run_in_executor(self, executor, function, *args):
        """Call at once what would be called in a thread: taking hold of the simulated journal."""
        del executor
        future = self.create_future()
        future.set_result(function(*args))
        return future

    def _select(self, timeout=None):
        self._turns = self._turns + 1 if timeout == 0 else 0
        if self._turns > _MOST_TURNS or self.time() > _MOST_S:
            raise NothingLeftToWaitFor(f"at virtual second {self.time():.3f}: it spins, or only its pulse still beats")
        if timeout != 0 and self.rest is not None:
            self.rest()
        return self._jump(timeout)


def simulate(scenario):
    """Run a scenario to its end, or to where it hangs: in one process or, recorded, in several. Give the last one's trace."""
    log = logging.getLogger("graphmill")
    was_disabled, log.disabled = log.disabled, True
    recording, traces = scenario.recording, []
    journal = None if recording is None else SimulatedJournal(recording.commit_s)
    try:
        for process in range(1 if recording is None else recording.restarts + 1):
            traces.append(_simulate_process(scenario, journal, process, tuple(traces)))
            if traces[-1].is_hung or (process and not traces[-1].offered):
                break
    finally:
        log.disabled = was_disabled
    return traces[-1]


def _simulate_process(scenario, journal, process, earlier):
    loop = RestingLoop()
    try:
        return _run(World(scenario, loop, journal, process), loop, earlier)
    finally:
        loop.close()


def _run(world, loop, earlier):
    complaints, ending = [], {}
    loop.rest = world.rest
    loop.set_exception_handler(
        lambda _loop, context: complaints.append(f"{context['message']} {context.get('exception')!r}")
    )
    threads = threading.active_count()
    world.task = loop.create_task(_live(world, ending))
    raised, is_hung = None, False
    try:
        loop.run_until_complete(world.task)
    except NothingLeftToWaitFor:
        is_hung = True
        _HUNG.append((world, loop))
    except (gm.GraphmillError, asyncio.CancelledError) as error:
        raised = type(error).__name__ if not isinstance(error, gm.InternalError) else f"InternalError: {error}"
    finally:
        world.is_over = True
    if threading.active_count() != threads:
        ending.setdefault("leftovers", []).append("a thread")
    loop.set_exception_handler(lambda *_: None)
    trace = _trace(world, ending, raised=raised, is_hung=is_hung, complaints=complaints, ended_s=loop.time())
    return replace(trace, earlier=earlier)


async def _live(world, ending):
    items, bind = world.source()
    run = _executor(world).start(items, bind=bind, run_id=None if world.journal is None else "r")
    loop = asyncio.get_running_loop()
    world.run = run
    try:
        async with run:
            handles = [loop.call_at(at.at_s, world.control, at.do, at.value) for at in _controls(world)]
            handles.append(loop.call_at(_last_moment(world), world.control, "unpause", None))
            try:
                await world.consume()
            finally:
                ending["left_s"] = loop.time()
    finally:
        world.is_over = True
        for handle in handles:
            handle.cancel()
        ending["leftovers"] = _leftovers(loop)
        ending["statistics"] = run.statistics()
        ending["stopped"], ending["because"] = run.stopped, run.stopped_because
        world.readouts.append(run.progress())


def _controls(world):
    return [
        control
        for control in world.scenario.controls
        if control.process == world.process and (control.do != "die" or world.journal is not None)
    ]


def _last_moment(world):
    """No pause lasts for ever, whatever a shrunk scenario has lost."""
    return 10.0 + max((control.at_s for control in _controls(world)), default=0.0)


def _executor(world):
    return gm.BatchExecutor(
        policy_of(world.scenario.rules, world.process),
        on_result=None if world.scenario.on_result_s is None else world.on_result,
        on_progress=world.on_progress,
        on_alert=world.on_alert,
        observers=[world.observe],
        journal=world.journal,
        random=Random(world.scenario.seed),
        machine=world,
    )


def policy_of(rules, process=0):
    """Make the policy of these rules, in one of the run's processes."""
    retry = gm.Retry(
        attempts=rules.attempts,
        wait_s=rules.wait_s,
        cap_s=rules.cap_s,
        backoff=rules.backoff,
        jitter=rules.has_jitter,
        throttle_budget_s=rules.throttle_budget_s,
    )
    return gm.Policy(
        concurrency=rules.concurrency,
        window=rules.window,
        adaptive=rules.is_adaptive,
        retry=retry,
        timeout_s=rules.timeout_s,
        job_timeout_s=rules.job_timeout_s,
        batch_timeout_s=rules.batch_timeout_s,
        on_failure=rules.on_failure,
        max_failures=rules.max_failures,
        grace_s=rules.grace_s,
        drain_s=rules.drain_s,
        park_after_s=rules.park_after_s,
        guards=gm.Guards(memory=rules.memory_mark),
        alerts=gm.Alerts(failure_rate=rules.alert_share, stalled_s=rules.stalled_s, throttled_share=rules.alert_share),
        classify=_strictly if rules.is_strict else None,
        budget_usd=rules.budget_in(process),
    )


def _strictly(error):
    """Take what a function calls transient for permanent."""
    return "permanent" if isinstance(error, gm.Transient) else None


def _leftovers(loop):
    tasks = [f"task {task.get_coro()!r:.80}" for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    timers = [f"timer {handle!r:.80}" for handle in loop._scheduled if not handle.cancelled() and _is_ours(handle)]
    return tasks + timers


def _is_ours(handle):
    callback = getattr(handle._callback, "__self__", handle._callback)
    return getattr(type(callback), "__module__", "").startswith("graphmill") or getattr(
        callback, "__module__", ""
    ).startswith("graphmill")


def _trace(world, ending, *, raised, is_hung, complaints, ended_s):
    names = ("admitted", "most_unfinished", "bodies", "events", "results", "shown", "controls", "limits")
    names += (
        "readings",
        "rests",
        "readouts",
        "alerts",
        "offered",
        "known",
        "told",
        "lines",
        "joins",
        "calls",
        "payments",
        "committed",
        "programs",
    )
    return Trace(
        scenario=world.scenario,
        **{name: tuple(getattr(world, name)) for name in names},
        process=world.process,
        rows=() if world.journal is None or world.journal.live is None else tuple(world.journal.live.rows),
        is_dead=world.is_dead,
        leftovers=tuple(ending.get("leftovers", ())),
        complaints=tuple(complaints),
        raised=raised,
        is_read_out=world.is_read_out,
        is_hung=is_hung,
        left_s=ending.get("left_s", ended_s),
        ended_s=ended_s,
        stopped=ending.get("stopped"),
        because=ending.get("because", ""),
        statistics=ending.get("statistics"),
    )
