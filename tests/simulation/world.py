"""The world around a simulated run: its items, servers, machine, source, consumer and controls, all of which keep the record."""

import asyncio
from collections import Counter, defaultdict
from contextlib import aclosing

import graphmill as gm
from graphmill.engine.machine import Reading
from simulation.acts import ACTS
from simulation.parts import Server
from simulation.servers import LiveServer
from simulation.trace import Body, Done, LaneRest, Outcome, Rest


class World:
    """Plays a scenario's outside and notes all it sees. It touches the run through its public doors only."""

    def __init__(self, scenario, loop):
        self.scenario = scenario
        self.now = loop.time
        self.run = None
        self.task = None
        self.is_over = False
        self.is_read_out = False
        self.admitted, self.most_unfinished, self.bodies, self.events, self.results, self.shown = [], [], [], [], [], []
        self.controls, self.limits, self.readings, self.rests, self.readouts, self.alerts = [], [], [], [], [], []
        self.limits.append((0.0, scenario.rules.concurrency))
        self._servers = defaultdict(
            lambda: LiveServer(Server()), {key: LiveServer(server) for key, server in scenario.servers}
        )
        self._inside = 0
        self._never = []
        self._calls = Counter()
        self._live = {}
        self._released = 0
        self._finished = 0
        self._pulled = 0
        self._is_source_ready = scenario.source.kind == "list"
        self._is_source_open = True

    # The items

    def job(self, position):
        """Make the job at a position; one that repeats has the id of the one before it."""
        item = self.scenario.items[position]
        return gm.Job(
            id=self.id_at(position),
            graph=self.perform,
            input={"n": position, "seen": []},
            priority=item.priority,
            key=item.key,
        )

    def id_at(self, position):
        return f"j{position - (position == self.scenario.source.repeats_at)}"

    async def perform(self, given):
        """Be the function of every item."""
        body = self._begin(given)
        name = f"{body.position}/{body.number}"
        acts = self.scenario.items[body.position].acts
        act = acts[min(body.number, len(acts)) - 1]
        try:
            with self._servers[body.key].call(self.now, name):
                output = await ACTS[act.do](act, name, self)
        except BaseException as error:
            self._end(body, self._outcome(error))
            raise
        self._end(body, Outcome(value=name))
        return name if output is None else output

    def for_ever(self):
        """Give something to wait for that never comes; kept here, else the waiter would be garbage."""
        future = asyncio.get_running_loop().create_future()
        self._never.append(future)
        return future

    def _begin(self, given):
        position = given["n"]
        self._calls[position] += 1
        self._inside += 1
        stuck = self.run.statistics().stuck if self._inside > self.limits[-1][1] or self.readings[-1][1] > 0.5 else 0
        body = Body(
            position=position,
            number=self._calls[position],
            key=self.scenario.items[position].key,
            began_s=self.now(),
            inside=self._inside,
            stuck=stuck,
            is_fresh=not given["seen"],
        )
        given["seen"].append(body.number)
        self.bodies.append(body)
        self._live[self.id_at(position)] = body
        return body

    def _end(self, body, outcome):
        if self.is_over:
            return
        self._inside -= 1
        body.ended_s, body.outcome = self.now(), outcome
        self._forget(self.id_at(body.position), body.number)

    def _outcome(self, error):
        return Outcome(
            kind=self._kind_of(error),
            message=str(error),
            retry_after_s=getattr(error, "retry_after_s", None),
            is_exit=isinstance(error, SystemExit),
        )

    def _kind_of(self, error):
        if isinstance(error, asyncio.CancelledError):
            return "cancelled"
        if isinstance(error, gm.Transient) and self.scenario.rules.is_strict:
            return "permanent"
        for kind in (gm.Throttled, gm.Unavailable, gm.Permanent):
            if isinstance(error, kind):
                return kind.__name__.lower()
        return "permanent" if isinstance(error, SystemExit) else "transient"

    def _forget(self, job_id, number):
        if job_id in self._live and self._live[job_id].number == number:
            del self._live[job_id]

    # The source

    def source(self):
        """Give the jobs, and the binder if there is one."""
        count = len(self.scenario.items)
        if self.scenario.source.kind == "jobs":
            return [self.job(position) for position in range(count)], None
        if self.scenario.source.kind == "list":
            return list(range(count)), self._bind
        return self._stream(count), self._bind

    def _bind(self, position, item):
        self.admitted.append((self.now(), position))
        self.most_unfinished.append((self.now(), len(self.admitted) - self._released))
        if position == len(self.scenario.items) - 1 and self.scenario.source.kind == "list":
            self._is_source_ready = False
        return self.job(item)

    async def _stream(self, count):
        source = self.scenario.source
        for position in range(count):
            if source.gap_s:
                await asyncio.sleep(source.gap_s)
            if position == source.fails_at:
                raise OSError("the source broke")
            if position == source.hangs_at:
                await self.for_ever()
            self._is_source_ready = True
            self._pulled += 1
            self.most_unfinished.append((self.now(), self._pulled - self._released))
            yield position
            self._is_source_ready = False
        if count == source.fails_at:
            raise OSError("the source broke")

    # Machine, hooks and controls

    def read(self):
        """Be the machine: tell how full it is now."""
        share = 0.1
        for at_s, memory in self.scenario.memory:
            if at_s <= self.now():
                share = memory
        self.readings.append((self.now(), share))
        return Reading(memory=share, cpu=0.0)

    async def observe(self, event):
        """Be the observer."""
        self.events.append(event)
        if isinstance(event, gm.RetryScheduled):
            self._forget(event.job_id, event.attempt)
        elif isinstance(event, gm.JobFinished):
            self._finished += 1
            self._live.pop(event.result.job_id, None)
        elif isinstance(event, gm.SourceEnded | gm.RunStopped):
            self._is_source_open = False

    async def on_result(self, job, result):
        await asyncio.sleep(self.scenario.on_result_s)
        self.shown.append(result.position)

    async def on_progress(self, progress):
        self.readouts.append(progress)

    async def on_alert(self, alert):
        self.alerts.append(alert.name)

    def control(self, do, value):
        """Use one of the run's controls, and note its answer."""
        if self.is_over:
            return
        try:
            answer = self._use(do, value)
        except gm.UsageError:
            answer = "refused"
        self.controls.append(Done(at_s=self.now(), do=do, value=value, answer=answer))

    def _use(self, do, value):
        run = self.run
        if do == "cancel_job":
            return run.cancel(f"j{value}")
        if do == "cancel_run":
            return run.cancel()
        if do == "drain":
            return run.drain(value)
        if do == "set_concurrency":
            run.set_concurrency(value)
            self.limits.append((self.now(), value))
            return None
        if do == "kill":
            return self.task.cancel()
        return run.pause() if do == "pause" else run.unpause()

    # The consumer

    async def consume(self):
        """Read results as the scenario's consumer does."""
        consumer = self.scenario.consumer
        if consumer.stops_after == 0:
            return
        if consumer.kind == "take":
            await self._take(consumer)
            return
        async with aclosing(self.run.results(ordered=consumer.is_ordered)) as results:
            await asyncio.sleep(consumer.begins_at_s)
            async for result in results:
                if await self._took(consumer, result):
                    return
                self._released += 1
        self.is_read_out = True

    async def _take(self, consumer):
        await asyncio.sleep(consumer.begins_at_s)
        while taken := await self.run.take():
            for result in taken:
                if await self._took(consumer, result):
                    return
            for result in taken:
                self._released += 1
                self.run.release(result)
        self.is_read_out = True

    async def _took(self, consumer, result):
        self.results.append((self.now(), result))
        if consumer.pause_s:
            await asyncio.sleep(consumer.pause_s)
        return len(self.results) == consumer.stops_after

    # At rest

    def rest(self):
        """Note how the run stands; called whenever nothing more happens until time passes."""
        if self.run is None or self.is_over:
            return
        progress, live = self.run.progress(), Counter(body.key for body in self._live.values())
        rest = Rest(
            at_s=self.now(),
            running=progress.running,
            queued=progress.queued,
            retrying=progress.retrying,
            done=progress.done,
            held=progress.held,
            live=live.total(),
            limit=self.limits[-1][1],
            unfinished=progress.running + progress.queued + progress.retrying + self._finished - self._released,
            finished=self._finished,
            is_source_ready=self._is_source_ready,
            is_source_open=self._is_source_open,
            lanes=tuple(_lane(lane, live[lane.key]) for lane in progress.lanes),
        )
        self.rests.append(rest)


def _lane(lane, live):
    return LaneRest(
        key=lane.key, running=lane.running, queued=lane.queued, limit=lane.limit, health=str(lane.health), live=live
    )
