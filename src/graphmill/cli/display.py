"""Live progress of a run, on stderr."""

from __future__ import annotations

import math
import os
import select
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from graphmill.cli.terminal import print_stderr
from graphmill.core.job import Job
from graphmill.core.result import Result
from graphmill.engine.results.statistics import LaneProgress, Progress, lane_to_report
from graphmill.graph.graph import Graph
from graphmill.report.text import clock_text, one_line, rate_text, scored_line
from graphmill.report.usage import usage_parts

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

PLAIN_EVERY_S = 5.0
_BAR_WIDTH = 30
_MIN_BAR = 4
_WAIT_CHARS = 80
_MIN_WAIT = 30
_NOTE_CHARS = 300
_PATH_CHARS = 30


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
            self._live.update(_bar(progress, self._live.console.width), refresh=True)
        elif time.monotonic() - self._shown_at >= PLAIN_EVERY_S:
            self._shown_at = time.monotonic()
            print_stderr([progress_line(progress)])

    def show_result(self, job: Job, result: Result) -> None:
        """Show how an item went, if its workflow declares a score; for other graphs the counts say enough."""
        has_score = isinstance(job.graph, Graph) and "score" in (job.graph.outputs or ())
        if has_score and (result.is_success or result.is_failure):
            self.note(f"  {scored_line(result)}")

    def show_cursor(self) -> None:
        """Show the cursor that the moving line hides; takes no lock, and never waits for a hung terminal."""
        if self._live is not None:
            with suppress(OSError):
                _, free, _ = select.select([], [2], [], 0)
                for descriptor in free:
                    os.write(descriptor, b"\x1b[?25h\n")


def progress_line(progress: Progress, width: int | None = None) -> str:
    """Write a reading as one line; what matters least is left out where the line would be too wide."""
    parts = [part for part in _parts(progress, width) if part[1]]
    while width is not None and len(_join(parts)) > width and len(parts) > 1:
        parts.remove(max(parts))
    return _join(parts)


def _parts(progress: Progress, width: int | None) -> Iterator[tuple[int, str]]:
    """Return the parts of a line, each with how soon it is left out: the highest number first."""
    failed, series = progress.failed + progress.timed_out, progress.series
    count = _count(*_done_of_total(progress))
    if series is not None:
        count = f"{one_line(series.path, _PATH_CHARS)} {count} items"
    failures = f"{failed:,} failed" if failed else ""
    yield 0, count
    yield 5, f"{progress.running:,} running"
    if progress.retrying:
        yield 4, f"{progress.retrying:,} retrying"
    yield 1, failures
    if series is None:
        yield 3, rate_text(progress.rate)
    requests, tokens = usage_parts(progress.usage)
    yield 7, requests
    yield 6, tokens
    if progress.eta_s is not None:
        yield 2, f"eta {clock_text(progress.eta_s)}"
    if progress.held is not None:
        yield 1, f"not starting anything new: {progress.held}"
    waiting = lane_to_report(progress.lanes)
    if waiting is not None:
        room = _WAIT_CHARS if width is None else _room(width, count, failures)
        yield 0, _wait_text(waiting, room)


def _room(width: int, count: str, failures: str) -> int:
    """Return how much of a line is left for what calls wait for: beside the failures, unless that is too little."""
    room = width - len(f"{count} · {failures} · ")
    if not failures or room < _MIN_WAIT:
        room = width - len(f"{count} · ")
    return min(_WAIT_CHARS, room)


def _wait_text(lane: LaneProgress, room: int) -> str:
    """Write what calls wait for, and for how long where there is room for both."""
    text = lane.waits
    if lane.next_s is not None and lane.next_s > 1 and not lane.trouble:
        text += f", next in {math.ceil(lane.next_s)} s"
    return text if len(text) <= room else one_line(lane.waits, room)


def _join(parts: Sequence[tuple[int, str]]) -> str:
    return " · ".join(text for _, text in parts)


def _bar(progress: Progress, width: int) -> Text:
    """Draw a bar before the line, if there is room for it."""
    from rich.text import Text  # noqa: PLC0415

    line = progress_line(progress, width)
    room = min(_BAR_WIDTH, width - len(line) - 1)
    done, total = _done_of_total(progress)
    if not total or room < _MIN_BAR:
        return Text(line, no_wrap=True)
    filled = min(room, room * done // total)
    bar = Text("━" * filled, style="green", no_wrap=True).append("━" * (room - filled), style="dim")
    return bar.append(f" {line}", style="default")


def _count(done: int, total: int | None) -> str:
    return f"{done:,}" if total is None else f"{done:,}/{total:,}"


def _done_of_total(progress: Progress) -> tuple[int, int | None]:
    """Return how many items are finished, of how many: those of the batch inside the run's only job, or the run's own.

    Items that a stop has left over do not count, although they are no longer under way.
    """
    if progress.series is not None:
        return progress.series.done, progress.series.total
    return progress.succeeded + progress.failed + progress.timed_out, progress.total
