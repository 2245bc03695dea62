"""Live progress: one moving line on a terminal, a plain line every few seconds elsewhere. Always on stderr."""

from __future__ import annotations

import os
import select
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from graphmill.engine.progress import Progress
from graphmill.report.text import clock, per_time, shown

if TYPE_CHECKING:
    from rich.live import Live

PLAIN_EVERY_S = 5.0
_BAR_WIDTH = 30
_TROUBLE_CHARS = 60
_NOTE_CHARS = 300


class Display:
    """Shows a run's progress while it is entered. Its ``show`` is called from a thread of the run."""

    def __init__(self) -> None:
        self._live: Live | None = None
        self._shown_at = time.monotonic()

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415  costs 60 ms, which --help must not pay
            from rich.live import Live  # noqa: PLC0415

            self._live = Live(console=Console(stderr=True), transient=True, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def note(self, line: str) -> None:
        """Say something beside the progress."""
        line = shown(line, _NOTE_CHARS)
        if self._live is not None:
            self._live.console.print(line, highlight=False, markup=False)
        else:
            self._print(line)

    def show(self, progress: Progress) -> None:
        """Show the newest reading; without a terminal only now and then."""
        if self._live is not None:
            self._live.update(_bar(progress), refresh=True)
        elif time.monotonic() - self._shown_at >= PLAIN_EVERY_S:
            self._shown_at = time.monotonic()
            self._print(progress_line(progress))

    def show_cursor(self) -> None:
        """Show the cursor again, which the moving line hides, without a lock that somebody may hold or a terminal that is held."""
        if self._live is not None:
            with suppress(OSError):
                _, free, _ = select.select([], [2], [], 0)
                for descriptor in free:
                    os.write(descriptor, b"\x1b[?25h\n")

    @staticmethod
    def _print(line: str) -> None:
        with suppress(OSError):  # progress that nobody can see is no reason to stop
            sys.stderr.write(line + "\n")
            sys.stderr.flush()


def progress_line(progress: Progress) -> str:
    """Write a reading as one line."""
    done = _done(progress)
    parts = [f"{done:,}" if progress.total is None else f"{done:,}/{progress.total:,}", f"{progress.running:,} running"]
    parts += [
        f"{count:,} {word}" for count, word in ((progress.retrying, "retrying"), (progress.failed + progress.timed_out, "failed")) if count
    ]
    parts.append(per_time(progress.rate))
    if progress.eta_s is not None:
        parts.append(f"eta {clock(progress.eta_s)}")
    if progress.held is not None:
        parts.append(f"held: {progress.held}")
    parts += [f"unavailable: {shown(lane.trouble, _TROUBLE_CHARS)}" for lane in progress.lanes if lane.trouble][:1]
    return " · ".join(parts)


def _bar(progress: Progress) -> Any:
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    if not progress.total:
        return Text(progress_line(progress))
    filled = min(_BAR_WIDTH, _BAR_WIDTH * _done(progress) // progress.total)
    bar = Text("━" * filled, style="green").append("━" * (_BAR_WIDTH - filled), style="dim")
    row = Table.grid(padding=(0, 1))
    row.add_row(bar, Text(progress_line(progress), no_wrap=True))
    return row


def _done(progress: Progress) -> int:
    """Count what is really done: what a run that ends leaves undone is not."""
    return progress.succeeded + progress.failed + progress.timed_out
