"""The progress of a run in one line, and as a bar: the same on a command's terminal, in a program and in a notebook."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from graphmill.core.errors import UsageError
from graphmill.core.usage import NO_USAGE, cost_text, money_text
from graphmill.engine.results.statistics import LaneProgress, Progress, lane_to_report
from graphmill.report.text import clock_text, one_line, rate_text
from graphmill.report.usage import usage_parts

if TYPE_CHECKING:
    from rich.text import Text

OnProgress = Callable[[Progress], Any] | None
_BAR_WIDTH = 30
_NOTEBOOK_WIDTH = 100
_MIN_BAR = 4
_WAIT_CHARS = 80
_MIN_WAIT = 30
_PATH_CHARS = 30


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
    yield 3, _cost(progress)
    if progress.waiting_for_budget:
        yield 1, f"budget: {progress.running - progress.waiting_for_budget:,} of {progress.concurrency:,} slots"
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


def progress_bar(progress: Progress, width: int) -> Text:
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


def _cost(progress: Progress) -> str:
    """Write what the run has cost, of its budget if it has one."""
    total = sum(progress.usage.values(), NO_USAGE)
    spent = cost_text(total.cost_nano + total.lost_nano, total.unpriced if progress.budget_nano is None else 0)
    if progress.budget_nano is None:
        return spent if total.cost_nano else ""
    return f"{spent or '$0'} of {money_text(progress.budget_nano)}"


def _count(done: int, total: int | None) -> str:
    return f"{done:,}" if total is None else f"{done:,}/{total:,}"


def _done_of_total(progress: Progress) -> tuple[int, int | None]:
    """Return how many items are finished, of how many: those of the batch inside the run's only job, or the run's own.

    Items that a stop has left over do not count, although they are no longer under way.
    """
    if progress.series is not None:
        return progress.series.done, progress.series.total
    return progress.succeeded + progress.failed + progress.timed_out, progress.total


@contextmanager
def showing_progress(wanted: bool | None, on_progress: OnProgress) -> Iterator[OnProgress]:  # noqa: FBT001
    """Show a bar for the length of a block; yield what a run must call with its figures.

    With None it is shown on a terminal and in a notebook, unless the program itself follows the progress.
    """
    if wanted not in (None, True, False):
        raise UsageError(f"progress must be True, False or None, got {wanted!r:.80}")
    notebook = _notebook_display()
    if wanted is None:
        wanted = on_progress is None and (notebook is not None or _has_terminal())
    if not wanted:
        yield on_progress
    elif notebook is not None:
        yield _both(on_progress, _NotebookBar(notebook))
    else:
        with _terminal_bar() as show:
            yield _both(on_progress, show)


def _has_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _notebook_display() -> Any:
    """Return IPython's ``display`` in a notebook; None elsewhere, also in IPython on a terminal."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    return ipython.display.display  # type: ignore[union-attr]


def _both(on_progress: OnProgress, show: Callable[[Progress], None]) -> Callable[[Progress], Any]:
    """Call both on the loop's thread: what another thread displays belongs to no cell of a notebook."""

    async def call(progress: Progress) -> None:
        show(progress)
        found = None if on_progress is None else on_progress(progress)
        if isawaitable(found):
            await found

    return call


class _NotebookBar:
    """One line below a cell, replaced by the next."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None

    def __call__(self, progress: Progress) -> None:
        """Show the newest figures."""
        shown = {"text/plain": progress_bar(progress, _NOTEBOOK_WIDTH).plain}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


@contextmanager
def _terminal_bar() -> Iterator[Callable[[Progress], None]]:
    """Show a moving line on standard error; without a terminal, a plain line for each reading."""
    from rich.console import Console  # noqa: PLC0415  a program that shows no bar need not load it
    from rich.live import Live  # noqa: PLC0415

    if not _has_terminal():
        yield lambda progress: _write(progress_line(progress))
        return
    console = Console(stderr=True)
    with Live(console=console, transient=True, auto_refresh=False, redirect_stdout=sys.stdout.isatty()) as live:
        yield lambda progress: live.update(progress_bar(progress, console.width), refresh=True)


def _write(line: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{line}\n")
