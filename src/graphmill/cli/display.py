"""Live progress: one moving line on a terminal, a plain line every few seconds elsewhere. Always on stderr."""

from __future__ import annotations

import math
import os
import select
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from graphmill.engine.progress import LaneProgress, Progress, told_lane
from graphmill.report.text import clock, per_time, shown
from graphmill.report.usage import usage_parts

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

PLAIN_EVERY_S = 5.0
_BAR_WIDTH = 30
_LEAST_BAR = 4
_WAIT_CHARS = 80
_LEAST_WAIT = 30
_NOTE_CHARS = 300
_PATH_CHARS = 30


class Display:
    """Shows a run's progress while it is entered. Its ``show`` is called from a thread of the run.

    ``is_moving`` is False where something else writes on the same terminal.
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
        """Say something beside the progress."""
        line = shown(line, _NOTE_CHARS)
        if self._live is not None:
            self._live.console.print(line, highlight=False, markup=False)
        else:
            self._print(line)

    def show(self, progress: Progress) -> None:
        """Show the newest reading; without a terminal only now and then."""
        if self._live is not None:
            self._live.update(_bar(progress, self._live.console.width), refresh=True)
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


def progress_line(progress: Progress, width: int | None = None) -> str:
    """Write a reading as one line; where it would be wider than this, without what matters least."""
    parts = [part for part in _parts(progress, width) if part[1]]
    while width is not None and len(_joined(parts)) > width and len(parts) > 1:
        parts.remove(max(parts))
    return _joined(parts)


def _parts(progress: Progress, width: int | None) -> Iterator[tuple[int, str]]:
    """Give the parts of a line, each with how easily it can be done without."""
    done, failed, series = _done(progress), progress.failed + progress.timed_out, progress.series
    far = (
        _counted(done, progress.total)
        if series is None
        else f"{shown(series.path, _PATH_CHARS)} {_counted(*_far(progress))} items"
    )
    broken = f"{failed:,} failed" if failed else ""
    yield 0, far
    yield 5, f"{progress.running:,} running"
    yield 4, f"{progress.retrying:,} retrying" if progress.retrying else ""
    yield 1, broken
    yield 3, per_time(progress.rate) if series is None else ""
    requests, tokens = usage_parts(progress.usage)
    yield 7, requests
    yield 6, tokens
    yield 2, "" if progress.eta_s is None else f"eta {clock(progress.eta_s)}"
    yield 1, "" if progress.held is None else f"held: {progress.held}"
    waiting = told_lane(progress.lanes)
    yield 0, "" if waiting is None else _waits(waiting, _WAIT_CHARS if width is None else _room(width, far, broken))


def _room(width: int, far: str, broken: str) -> int:
    """Tell how much of a line is left for what calls wait for: failures stay beside it, unless it could hardly be read then."""
    beside = width - len(f"{far} · {broken} · ") if broken else 0
    return min(_WAIT_CHARS, beside if beside >= _LEAST_WAIT else width - len(f"{far} · "))


def _waits(lane: LaneProgress, room: int) -> str:
    """Say what calls wait for, and for how long if that is not only a moment; where there is no room for both, the first."""
    wait_s = 0 if lane.next_s is None or lane.trouble else math.ceil(lane.next_s)
    whole = f"{lane.waits}, next in {wait_s} s" if wait_s > 1 else lane.waits
    return whole if len(whole) <= room else shown(lane.waits, room)


def _joined(parts: Sequence[tuple[int, str]]) -> str:
    return " · ".join(text for _, text in parts)


def _bar(progress: Progress, width: int) -> Text:
    """Draw a bar before the line, as far as there is room for it."""
    from rich.text import Text  # noqa: PLC0415

    line = progress_line(progress, width)
    room = min(_BAR_WIDTH, width - len(line) - 1)
    done, total = _far(progress)
    if not total or room < _LEAST_BAR:
        return Text(line, no_wrap=True)
    filled = min(room, room * done // total)
    bar = Text("━" * filled, style="green", no_wrap=True).append("━" * (room - filled), style="dim")
    return bar.append(f" {line}", style="default")


def _counted(done: int, total: int | None) -> str:
    return f"{done:,}" if total is None else f"{done:,}/{total:,}"


def _far(progress: Progress) -> tuple[int, int | None]:
    """Tell how far it is: the batch inside of its only job, if there is one, else the run."""
    series = progress.series
    return (_done(progress), progress.total) if series is None else (series.done, series.total)


def _done(progress: Progress) -> int:
    """Count what is really done: what a run that ends leaves undone is not."""
    return progress.succeeded + progress.failed + progress.timed_out
