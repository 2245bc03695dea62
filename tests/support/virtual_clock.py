"""A loop whose clock jumps to the next timer instead of waiting: hours pass in milliseconds, always the same way."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
LONGEST_S = 10 * 24 * 3600.0


class NothingLeftToWaitFor(RuntimeError):  # noqa: N818
    """Every task waits and no timer is set, or time has passed beyond all reason: a hang, found at once."""


class _JumpingSelector:
    """Polls the real selector; where a real loop would sleep, moves the virtual clock."""

    def __init__(self):
        self._real = selectors.DefaultSelector()
        self.now = 0.0

    def select(self, timeout=None):
        events = self._real.select(0)
        if events or timeout == 0:
            return events
        if timeout is None or self.now > LONGEST_S:
            raise NothingLeftToWaitFor(f"at virtual second {self.now:.3f}")
        self.now += timeout
        return []

    def __getattr__(self, name):
        return getattr(self._real, name)


class VirtualClockLoop(asyncio.SelectorEventLoop):
    """For async work only: threads live in real time, which does not pass here."""

    def __init__(self):
        self._clock = _JumpingSelector()
        super().__init__(self._clock)

    def time(self):
        return self._clock.now


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualClockLoop) as runner:
        return runner.run(main)
