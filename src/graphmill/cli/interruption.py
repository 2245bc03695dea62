"""What a signal does to a command: three steps while a run lives; before it and after it, the way out at once."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Timer
from typing import NoReturn, Self

from graphmill.cli.display import Display
from graphmill.cli.signals import listen
from graphmill.datasets.sink import FileSink, Sink
from graphmill.engine.run import Run

_WORDS = {"SIGINT": "Ctrl-C", "SIGHUP": "the end of its terminal (SIGHUP)"}
ECHO_S = 0.3  # `timeout`, wrappers and shells pass on a signal that the whole process group has got already
_LAST_S = 1.5  # a run in haste ends within this, unless nobody reads what it writes


class Interruption:
    """The first signal drains the run, the second cancels what runs and still writes what is done, the third leaves at once.

    ``code`` is the exit status that the first one asked for; ``is_later`` says that the output is written from the journal, which
    haste leaves to others.
    """

    def __init__(
        self,
        display: Display,
        target: Sink | None,
        *,
        is_later: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._display = display
        self._target = target
        self._is_later = is_later
        self._now = now
        self._struck_at = -ECHO_S
        self._count = 0
        self._run: Run | None = None
        self.code: int | None = None

    @property
    def is_hasty(self) -> bool:
        """Whether there is no time left for anything that can be done later."""
        return self._count > 1

    def __enter__(self) -> Self:
        listen(self.strike)
        return self

    def __exit__(self, *_: object) -> None:
        self._run = None

    def watch(self, run: Run) -> None:
        """Know the run that a signal ends."""
        self._loop = asyncio.get_running_loop()
        self._run = run

    def strike(self, number: int, _frame: object) -> None:
        """Take a signal. Not as a handler of the loop's: user code may keep that from turning."""
        now = self._now()
        if self._count and now - self._struck_at < ECHO_S:
            return
        self._struck_at = now
        self._count += 1
        self.code = self.code or 128 + number
        if self._run is None or self._count > 2:
            self._leave(self.code)
        with suppress(RuntimeError):  # the run has just ended, and its loop is closed
            self._loop.call_soon_threadsafe(
                self._drain if self._count == 1 else self._hurry, self._run, signal.Signals(number).name
            )

    def _drain(self, run: Run, name: str) -> None:
        run.drain(because=_WORDS.get(name, name))
        self._display.note(
            f"{name}: nothing more is started, what runs has {run.drain_s:g} s to end; once more cancels it"
        )

    def _hurry(self, run: Run, name: str) -> None:
        run.drain(0, because=_WORDS.get(name, name))
        kept, more = ("stays in the journal", "") if self._is_later else ("is written", ", without writing")
        self._display.note(f"{name}: what runs is cancelled, what is done {kept}; once more leaves at once{more}")
        if (
            not isinstance(self._target, FileSink) or self._target.is_special
        ):  # what its reader does not take by then can not be kept
            last = Timer(_LAST_S, self._leave, [self.code])
            last.daemon = True
            last.start()

    def _leave(self, code: int) -> NoReturn:
        """Leave without waiting for anything or anyone."""
        self._display.show_cursor()
        if isinstance(self._target, FileSink):
            self._target.forget()
        os._exit(code)
