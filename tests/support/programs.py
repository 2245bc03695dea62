"""Short ways to write a job that is made of steps."""

from dataclasses import dataclass, field
from typing import Any

import graphmill as gm
from graphmill.engine.jobs.program import Programmed, Step, StepRules


class CallStep(Step):
    """A step that calls an async function."""

    def __init__(self, path, rules, function, value):
        super().__init__(path, rules)
        self._call = function, value

    def content(self):
        return repr((self.path, self._call[1])).encode()

    def act(self):
        return self._call[0](self._call[1])

    def call(self):
        return self._call


def step(path, act, value=None, **rules):
    rules.setdefault("retry", gm.Retry(attempts=3, wait_s=1, jitter=False, backoff="fixed"))
    return CallStep(path, StepRules(**rules), act, value)


class Graph(Programmed):
    """A graph whose program is a generator function."""

    def __init__(self, make):
        self.make = make

    def __call__(self, value):
        raise AssertionError("it is driven, not called")

    def program(self, value, policy):
        del policy
        return self.make(value)


@dataclass
class Several:
    """A fork over programs, so many at once."""

    programs: Any
    limit: int = 10**9
    timeout_s: float | None = None
    stop_on_failure: bool = False
    is_stopped: bool = False
    values: list = field(default_factory=list)
    running: int = 0

    def __post_init__(self):
        self.programs = iter(self.programs)

    def more(self):
        if self.running >= self.limit or (program := next(self.programs, None)) is None:
            return None
        self.running += 1
        return program

    def ended(self, program, value, failure):
        del program
        self.running -= 1
        self.values.append(value if failure is None else failure.message)
        self.is_stopped = self.stop_on_failure and failure is not None

    def expire(self):
        self.is_stopped = True
        self.values.append("expired")
