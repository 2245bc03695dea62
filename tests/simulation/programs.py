"""Programs of a simulated run: each plays the plan of its item, and the world notes what they are told and how their lines end."""

from dataclasses import replace

from graphmill.engine.jobs.program import Decision, Failed, Finished, Programmed, Step, StepRules
from simulation.parts import PlanFork, PlanNote, PlanStep
from simulation.trace import Join, Line, Told


class Planned(Programmed):
    """The graph of all items that have a plan."""

    def __init__(self, world):
        self._world = world

    def __call__(self, given):
        raise AssertionError("a program is driven, not called")

    def program(self, given, policy):
        """Begin the program of an item."""
        return Player(self._world, given["n"], policy).play_all()


class Player:
    """Plays the plan of one item."""

    def __init__(self, world, position, policy):
        self._world = world
        self._position = position
        self._policy = policy
        self._plays = {PlanStep: self._play_step, PlanNote: self._play_note, PlanFork: self._play_fork}

    def play_all(self):
        """Play the whole plan; the output is all that was heard."""
        heard = yield from self.play(self._world.scenario.items[self._position].plan, "")
        return Finished(heard, {})

    def play(self, plan, path):
        """Play the parts of one line one after the other."""
        world, heard = self._world, []
        line = world.begin_line(Line(position=self._position, path=path, began_s=world.now()))
        try:
            for index, part in enumerate(plan):
                heard.append((yield from self._plays[type(part)](part, f"{path}{index}")))
        except GeneratorExit:
            world.end_line(line, "closed")
            raise
        except Failed as error:
            world.end_line(line, "failed", failure=error.failure)
            raise
        world.end_line(line, "returned", value=heard)
        return heard

    def _play_step(self, part, path):
        asked_s = self._world.now()
        end = yield PlannedStep(self._world, self._position, part, path, self._rules(part))
        value = end.output if end.failure is None else str(end.failure.kind)
        self._tell(path, value, end.failure, attempts=end.attempts, asked_s=asked_s)
        if end.failure is not None and part.is_needed:
            raise Failed(end.failure)
        return value

    def _rules(self, part):
        retry = self._policy.retry if part.attempts is None else replace(self._policy.retry, attempts=part.attempts)
        return StepRules(
            retry=retry,
            timeout_s=self._policy.timeout_s if part.timeout_s is None else part.timeout_s,
            effect="unsafe" if part.is_unsafe else "repeatable",
            lane=part.key or None,
            is_recorded=part.is_recorded,
        )

    def _play_note(self, _, path):
        asked_s = self._world.now()
        value = yield Decision(path, f"decided in process {self._world.process} at {asked_s:.6f}")
        self._tell(path, value, None, attempts=0, asked_s=asked_s)
        return value

    def _tell(self, path, value, failure, **fields):
        world, position = self._world, self._position
        begun = world.begun(position)
        world.tell(
            Told(at_s=world.now(), position=position, path=path, value=value, failure=failure, begun=begun, **fields)
        )

    def _play_fork(self, part, path):
        world, began_s = self._world, self._world.now()
        fork = PlannedFork(part, (self.play(line, f"{path}.{index}.") for index, line in enumerate(part.lines)))
        yield fork
        world.join(
            Join(
                at_s=world.now(),
                position=self._position,
                path=path,
                began_s=began_s,
                is_expired=fork.is_expired,
                values=tuple(fork.values),
                open_lines=tuple(world.open_lines(self._position, f"{path}.")),
                live=tuple(world.live_below(self._position, f"{path}.")),
            )
        )
        return fork.values


class PlannedStep(Step):
    """A step of a plan."""

    def __init__(self, world, position, part, path, rules):
        super().__init__(path, rules)
        self._world = world
        self._position = position
        self._part = part

    def content(self):
        return self.path.encode()

    def act(self):
        return self._world.attempt(self._position, self.path, self._part.acts)


class PlannedFork:
    """A fork of a plan, as the engine wants it."""

    def __init__(self, part, lines):
        self.timeout_s = part.timeout_s
        self.is_stopped = False
        self.is_expired = False
        self.values = []
        self._lines = lines
        self._limit = part.limit
        self._stops_on_failure = part.stops_on_failure
        self._open = 0

    def more(self):
        if self._open == self._limit or (line := next(self._lines, None)) is None:
            return None
        self._open += 1
        return line

    def ended(self, program, value, failure):
        del program
        self._open -= 1
        self.values.append(value if failure is None else str(failure.kind))
        self.is_stopped = self.is_stopped or (self._stops_on_failure and failure is not None)

    def expire(self):
        self.is_stopped = self.is_expired = True
