"""The world around a simulated run: its items, servers, machine, source, consumer and controls, all of which keep the record."""

import asyncio
from collections import Counter, defaultdict
from contextlib import aclosing

import graphmill as gm
from graphmill.core.job import NO_PAST
from graphmill.core.usage import Usage
from graphmill.engine.jobs.context import find_context
from graphmill.engine.monitor.machine import Reading
from simulation.acts import ACTS
from simulation.parts import Server
from simulation.programs import Planned
from simulation.servers import LiveServer
from simulation.trace import Body, Call, Done, LaneRest, Outcome, Payment, Rest

_DOLLAR = 1_000_000_000  # nano-dollars


class World:
    """Plays a scenario's outside and notes all it sees. It touches the run through its public doors only."""

    def __init__(self, scenario, loop, journal=None, process=0):
        self.scenario = scenario
        self.journal = journal
        self.process = process
        self.known = () if journal is None else tuple(journal.rows)
        self.now = loop.time
        self.run = None
        self.task = None
        self.is_over = False
        self.is_read_out = False
        self.admitted, self.most_unfinished, self.bodies, self.events, self.results, self.shown = [], [], [], [], [], []
        self.controls, self.limits, self.readings, self.rests, self.readouts, self.alerts = [], [], [], [], [], []
        self.told, self.lines, self.joins, self.calls, self.programs = [], [], [], [], []
        self.payments, self.committed = [], []
        self._by_name = {}
        self.limits.append((0.0, scenario.rules.concurrency))
        self.is_dead = False
        self.offered = [position for position in range(len(scenario.items)) if not self._has_result(position)]
        self._planned = Planned(self)
        self._has_programs = any(item.plan for item in scenario.items)
        self._steps = scenario.steps()
        self._servers = defaultdict(
            lambda: LiveServer(Server()), {key: LiveServer(server) for key, server in scenario.servers}
        )
        self._inside = 0
        self._never = []
        self._calls = self._failed_before()
        self._live = {}
        self._released = 0
        self._finished = 0
        self._pulled = 0
        self._is_source_ready = scenario.source.kind == "list"
        self._is_source_open = True

    # The items

    def job(self, position):
        """Make the job at a position; one that repeats has the id of the one before it."""
        item, job_id = self.scenario.items[position], self.id_at(position)
        return gm.Job(
            id=job_id,
            graph=self._planned if item.plan else self.perform,
            input={"n": position, "seen": []},
            priority=item.priority,
            key=item.key,
            past=NO_PAST if self.journal is None else self.journal.past_of(job_id, position),
        )

    def id_at(self, position):
        return f"j{position - (position == self.scenario.source.repeats_at)}"

    def _has_result(self, position):
        return self.journal is not None and self.journal.has_result(self.id_at(position))

    def _failed_before(self):
        """Count the attempts that earlier processes have recorded, for each function and step."""
        if self.journal is None:
            return Counter()
        return Counter(
            {
                (position, path): attempts.last
                for position in self.offered
                for path, attempts in self.journal.failed(self.id_at(position)).items()
            }
        )

    async def perform(self, given):
        """Be the function of every item."""
        is_fresh = not given["seen"]
        given["seen"].append(self.process)
        return await self.attempt(given["n"], "", self.scenario.items[given["n"]].acts, is_fresh=is_fresh)

    async def attempt(self, position, path, acts, *, is_fresh=True):
        """Be one attempt of a function or a step."""
        body = self._begin(position, path, is_fresh=is_fresh)
        act = acts[min(body.number, len(acts)) - 1]
        try:
            with self._servers[body.key].call(self.now, body.name):
                if act.price is not None:
                    await self._pay(body, act.price)
                output = await ACTS[act.do](act, body.name, self)
        except BaseException as error:
            self._end(body, self._outcome(error))
            raise
        self._end(body, Outcome(value=body.name))
        return body.name if output is None else output

    async def call(self, name, key, seconds):
        """Make a nested call of so many seconds from inside a body."""
        call = Call(body=self._by_name[name], key=key, asked_s=self.now())
        if not self.is_over:
            self.calls.append(call)

        async def made():
            call.began_s = self.now()
            call.body.waited_s += call.began_s - call.asked_s
            await asyncio.sleep(seconds)
            call.is_answered = True

        context = find_context()
        try:
            await context.steps.nested_calls.call(context, key, None, 0, made, find_cached=None)
        finally:
            call.over_s = self.now()
            if call.began_s is None:
                call.body.waited_s += call.over_s - call.asked_s

    async def _pay(self, body, price):
        """Make a call that costs something: what it may cost is reserved before it, what it has cost is settled after."""
        payment = Payment(body=body, most=price.most, used=price.most, asked_s=self.now())
        if not self.is_over:
            self.payments.append(payment)
        context = find_context()
        try:
            await context.reserve(price.most * _DOLLAR)
        except BaseException:
            self._end_payment(payment)
            raise
        finally:
            body.waited_s += self.now() - payment.asked_s
        if not self.is_over:
            payment.granted_s = self.now()
        self._note_committed()
        used = price.most
        try:
            await asyncio.sleep(price.s)
            used = price.used
        finally:
            self._end_payment(payment, used)
            usage = Usage(requests=1, cost_nano=used * _DOLLAR)
            context.report(usage, "m", reserved_nano=price.most * _DOLLAR)

    def _end_payment(self, payment, used=0):
        if not self.is_over:
            payment.over_s, payment.used = self.now(), used
        self._note_committed()

    def _note_committed(self):
        if not self.is_over:
            self.committed.append((self.now(), sum(payment.cost for payment in self.payments)))

    def for_ever(self):
        """Give something to wait for that never comes; kept here, else the waiter would be garbage."""
        future = asyncio.get_running_loop().create_future()
        self._never.append(future)
        return future

    def _begin(self, position, path, *, is_fresh):
        self._calls[position, path] += not self.is_over
        self._inside += not self.is_over
        stuck = self.run.statistics().stuck if self._inside > self.limits[-1][1] or self.readings[-1][1] > 0.5 else 0
        body = Body(
            position=position,
            path=path,
            number=self._calls[position, path],
            key=self._key_of(position, path),
            slot_s=self._slot_s(position, path),
            began_s=self.now(),
            inside=self._inside,
            stuck=stuck,
            is_fresh=is_fresh,
        )
        self._by_name[body.name] = body
        if not self.is_over:
            self.bodies.append(body)
            self._live[self.id_at(position), path] = body
        return body

    def _end(self, body, outcome):
        if self.is_over:
            return
        self._inside -= 1
        body.ended_s, body.outcome = self.now(), outcome
        self._forget(self.id_at(body.position), body.path, body.number)

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

    def _forget(self, job_id, path, number):
        body = self._live.get((job_id, path))
        if body is not None and body.number == number:
            del self._live[job_id, path]

    # The programs

    def begun(self, position):
        """Count what an item has begun in this process: bodies, and unsafe attempts that wait for their intent."""
        if not self.known:  # nothing is replayed, and nobody asks
            return 0
        intents = [row for row in self.journal.live.rows if row.kind == "intent" and row.job_id == self.id_at(position)]
        return sum(body.position == position for body in self.bodies) + len(intents)

    def tell(self, told):
        """Note what a program was told; a step that has ended runs no more, or was abandoned."""
        if not self.is_over:
            self.told.append(told)
            self._forget(self.id_at(told.position), told.path, self._calls[told.position, told.path])

    def begin_line(self, line):
        if not self.is_over:
            self.lines.append(line)
            if not line.path:
                self.programs.append((line.position, line.began_s))
        return line

    def end_line(self, line, end, *, value=None, failure=None):
        if not self.is_over:
            line.ended_s, line.end, line.value, line.failure = self.now(), end, value, failure

    def join(self, join):
        if not self.is_over:
            self.joins.append(join)

    def open_lines(self, position, path):
        """Give the lines below a fork that have not ended."""
        return [
            line.path
            for line in self.lines
            if line.position == position and line.end is None and line.path.startswith(path)
        ]

    def live_below(self, position, path):
        """Give the bodies below a fork that still run, abandoned ones too."""
        return [
            body
            for body in self._live.values()
            if body.position == position and body.path.startswith(path) and body.ended_s is None
        ]

    # The source

    def source(self):
        """Give the jobs, and the binder if there is one; a journal takes jobs as they are."""
        kind = self.scenario.source.kind
        if kind == "stream":
            return self._stream(), None if self.journal is not None else self._bind
        if kind == "jobs" or self.journal is not None:
            return [self.job(position) for position in self.offered], None
        return list(self.offered), self._bind

    def _bind(self, position, item):
        self.admitted.append((self.now(), position))
        self.most_unfinished.append((self.now(), len(self.admitted) - self._released))
        if position == len(self.scenario.items) - 1 and self.scenario.source.kind == "list":
            self._is_source_ready = False
        return self.job(item)

    async def _stream(self):
        source, count = self.scenario.source, len(self.scenario.items)
        for position in self.offered:
            if source.gap_s:
                await asyncio.sleep(source.gap_s)
            if position == source.fails_at:
                raise OSError("the source broke")
            if position == source.hangs_at:
                await self.for_ever()
            self._is_source_ready = True
            self._pulled += 1
            self.most_unfinished.append((self.now(), self._pulled - self._released))
            yield position if self.journal is None else self.job(position)
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
        if self.is_over and self.is_dead:
            return
        self.events.append(event)
        if isinstance(event, gm.RetryScheduled):
            self._forget(event.job_id, event.path, event.attempt)
        elif isinstance(event, gm.JobFinished):
            self._finished += 1
            for job_id, path in [known for known in self._live if known[0] == event.result.job_id]:
                del self._live[job_id, path]
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
        if do == "die":
            self.is_dead = self.is_over = True
            self.journal.live.die()
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
        progress = self.run.progress()
        count, live = self._count_live()
        waiting = Counter(call.key for call in self.calls if call.is_waiting)
        rest = Rest(
            at_s=self.now(),
            begun=len(self.bodies),
            running=progress.running,
            queued=progress.queued,
            retrying=progress.retrying,
            done=progress.done,
            held=progress.held,
            live=count,
            limit=self.limits[-1][1],
            unfinished=self._unfinished(progress),
            finished=self._finished,
            is_durable=self.journal is None or self.journal.live.is_clean,
            is_source_ready=self._is_source_ready,
            is_source_open=self._is_source_open,
            waiting_for_budget=progress.waiting_for_budget,
            lanes=tuple(
                _lane(lane, None if live is None else live[lane.key], waiting[lane.key]) for lane in progress.lanes
            ),
        )
        self.rests.append(rest)

    def _unfinished(self, progress):
        """Count the jobs in the window, if their source or the run's figures tell."""
        if self.journal is None and not self._has_programs:
            return progress.running + progress.queued + progress.retrying + self._finished - self._released
        if self.journal is None and self.scenario.source.kind != "jobs":
            return len(self.admitted) - self._released
        return None

    def _count_live(self):
        """Count the bodies that run and are not abandoned, and those of each key: None where nobody tells which were abandoned.

        An unsafe attempt that waits until its intent is durable has its slot already.
        """
        bodies = list(self._live.values())
        doubtful = [body for body in bodies if self._may_be_abandoned(body)]
        live = Counter(body.key for body in bodies)
        live.update(self._key_of(int(job_id[1:]), path) for job_id, path in self._intents())
        untold = 0
        if doubtful:
            untold = min(max(0, len(bodies) - (self._inside - self.run.statistics().stuck)), len(doubtful))
        if untold and untold < len(doubtful) and len({body.key for body in doubtful}) > 1:
            return live.total() - untold, None
        live.subtract(body.key for body in doubtful[:untold])
        return live.total(), self._with_calls(live)

    def _with_calls(self, live):
        """Add the nested calls that run, each of which has its body's slot if that is in the same lane."""
        under_way = [call for call in self.calls if call.over_s is None]
        own = Counter(call.key for call in under_way if call.key == call.body.key)
        return live + Counter(call.key for call in under_way if call.is_running) - own

    def _slot_s(self, position, path):
        """When the attempt that begins now got its slot."""
        rows = () if self.journal is None else self.journal.live.rows
        mine = ("intent", self.id_at(position), path)
        return max((row.handed_s for row in rows if (row.kind, row.job_id, row.path) == mine), default=self.now())

    def _intents(self):
        return () if self.journal is None else self.journal.live.intents

    def _key_of(self, position, path):
        return (self._steps[position, path].key if path else "") or self.scenario.items[position].key

    def _may_be_abandoned(self, body):
        """Whether nobody would tell us that a body was abandoned: its line was closed, or its result is not shown yet."""
        if not body.path:
            return self.journal is not None
        line = body.path.rpartition(".")[0]
        return any(
            other.end is not None
            for other in self.lines
            if other.position == body.position and other.path == (f"{line}." if line else "")
        )


def _lane(lane, live, waiting):
    return LaneRest(
        key=lane.key,
        running=lane.running,
        queued=lane.queued,
        limit=lane.limit,
        health=str(lane.health),
        live=live,
        waiting=waiting,
    )
