"""Live progress of a run, on stderr."""

from __future__ import annotations

import os
import select
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from graphmill.cli.terminal import print_stderr
from graphmill.core.job import Job
from graphmill.core.result import Result
from graphmill.engine.results.statistics import Progress
from graphmill.report.progress import progress_bar, progress_line
from graphmill.report.text import one_line, scored_line

if TYPE_CHECKING:
    from rich.live import Live

PLAIN_EVERY_S = 5.0
_NOTE_CHARS = 300


class Display:
    """Shows a run's progress on stderr: one moving line on a terminal, a plain line every few seconds elsewhere.

    ``show`` is called from a thread of the run. ``is_moving`` is False where something else writes on the same
    terminal.
    """

    def __init__(self, *, is_moving: bool = True) -> None:
        self._live: Live | None = None
        self._is_moving = is_moving
        self._shown_at = time.monotonic()

    def __enter__(self) -> Self:
        if self._is_moving and sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415  costs 60 ms, which --help must not pay
            from rich.live import Live  # noqa: PLC0415

            self._live = Live(console=Console(stderr=True), transient=True, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def note(self, line: str) -> None:
        """Print a line beside the progress."""
        line = one_line(line, _NOTE_CHARS)
        if self._live is not None:
            self._live.console.print(line, highlight=False, markup=False)
        else:
            print_stderr([line])

    def show(self, progress: Progress) -> None:
        """Show the newest reading; without a terminal only now and then."""
        if self._live is not None:
            self._live.update(progress_bar(progress, self._live.console.width), refresh=True)
        elif time.monotonic() - self._shown_at >= PLAIN_EVERY_S:
            self._shown_at = time.monotonic()
            print_stderr([progress_line(progress)])

    def show_result(self, _job: Job, result: Result) -> None:
        """Show how an item went, with its score."""
        if result.is_success or result.is_failure:
            self.note(f"  {scored_line(result)}")

    def show_cursor(self) -> None:
        """Show the cursor that the moving line hides; takes no lock, and never waits for a hung terminal."""
        if self._live is not None:
            with suppress(OSError):
                _, free, _ = select.select([], [2], [], 0)
                for descriptor in free:
                    os.write(descriptor, b"\x1b[?25h\n")
