"""The progress of a run in one line, and as a bar: the same on a command's terminal, in a program and in a notebook."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from graphmill.core.money import cost_text, money_text
from graphmill.core.usage import NO_USAGE
from graphmill.engine.results.statistics import LaneProgress, Progress, lane_to_report
from graphmill.report.text import clock_text, one_line, rate_text
from graphmill.report.usage import usage_parts

if TYPE_CHECKING:
    from rich.text import Text

_BAR_WIDTH = 30
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
