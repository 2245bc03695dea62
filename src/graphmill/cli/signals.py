"""What Ctrl-C, SIGTERM and SIGHUP do to a command: three steps while a run is active, an immediate exit otherwise."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Timer
from typing import TYPE_CHECKING, Any, NoReturn, Self

if TYPE_CHECKING:
    from graphmill.cli.display import Display
    from graphmill.datasets.sink import FileSink
    from graphmill.engine.executor import Run

_WORDS = {"SIGINT": "Ctrl-C", "SIGHUP": "the end of its terminal (SIGHUP)"}
ECHO_S = 0.3  # `timeout`, wrappers and shells pass on a signal that the whole process group already received
_LAST_S = 1.5  # a cancelled run ends within this, unless nobody reads what it writes


def on_signals(handler: Callable[[int, Any], None]) -> None:
    """Call the handler for signals that end a command, except for one that is ignored, as SIGHUP is under nohup."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def exit_at_once(number: int, _frame: object) -> NoReturn:
    """Exit where nothing has started that could be lost."""
    os._exit(128 + number)


class Interruption:
    """The first signal drains the run, the second cancels what runs, the third exits at once.

    ``exit_code`` is the status that the first one asks for. ``writes_from_journal`` says that the output file is
    written when the run has ended, which a second signal leaves to `graphmill export`. ``file`` is the output, unless
    that is standard output.
    """

    def __init__(
        self,
        display: Display,
        file: FileSink | None,
        *,
        writes_from_journal: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._display = display
        self._file = file
        self._writes_from_journal = writes_from_journal
        self._now = now
        self._last_at = -ECHO_S
        self._count = 0
        self._run: Run | None = None
        self.exit_code: int | None = None

    @property
    def is_hurried(self) -> bool:
        """Whether anything that can be done later must be."""
        return self._count > 1

    def __enter__(self) -> Self:
        on_signals(self.on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        self._run = None

    def watch(self, run: Run) -> None:
        """Set the run that a signal ends."""
        from asyncio import get_running_loop  # noqa: PLC0415  costs 20 ms, which --help must not pay

        self._loop = get_running_loop()
        self._run = run

    def on_signal(self, number: int, _frame: object) -> None:
        """Handle a signal. Not installed with the loop's add_signal_handler: user code may block the loop."""
        now = self._now()
        if self._count and now - self._last_at < ECHO_S:
            return
        self._last_at = now
        self._count += 1
        self.exit_code = self.exit_code or 128 + number
        if self._run is None or self._count > 2:
            self._exit(self.exit_code)
        act = self._drain if self._count == 1 else self._cancel
        with suppress(RuntimeError):  # the run has just ended, and its loop is closed
            self._loop.call_soon_threadsafe(act, self._run, signal.Signals(number).name)

    def _drain(self, run: Run, name: str) -> None:
        run.drain(because=_WORDS.get(name, name))
        self._display.note(
            f"{name}: starting nothing new; running attempts have {run.drain_s:g} s to finish (repeat to cancel them)"
        )

    def _cancel(self, run: Run, name: str) -> None:
        run.drain(0, because=_WORDS.get(name, name))
        if self._writes_from_journal:
            text = "results stay in the journal (repeat to exit at once)"
        else:
            text = "writing results (repeat to exit without)"
        self._display.note(f"{name}: cancelling running attempts; {text}")
        if self._file is None or self._file.is_special:  # a pipe: what its reader does not take by then is lost
            last = Timer(_LAST_S, self._exit, [self.exit_code])
            last.daemon = True
            last.start()

    def _exit(self, code: int) -> NoReturn:
        """Exit without waiting for anything or anyone."""
        self._display.show_cursor()
        if self._file is not None:
            self._file.forget()
        os._exit(code)
