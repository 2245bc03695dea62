"""The words in which a report reads, the same at every door."""

from __future__ import annotations

from collections.abc import Sequence

from graphmill.core.result import Failure, Kind, Result
from graphmill.engine.statistics import Statistics

ERRORS_SHOWN = 5
_MESSAGE_CHARS = 160


def summary_line(statistics: Statistics) -> str:
    """Say how many items succeeded, as in '9,998/10,000 items succeeded, 2 failed'."""
    failed = statistics.failed + statistics.timed_out
    total = max(statistics.total or 0, statistics.done)
    counts = (
        (failed, "failed"),
        (statistics.cancelled, "cancelled"),
        (statistics.paused, "paused"),
        (total - statistics.done, "not reached"),
    )
    return f"{statistics.succeeded:,}/{total:,} items succeeded" + "".join(f", {count:,} {word}" for count, word in counts if count)


def error_lines(first: Sequence[Result], failed: int) -> list[str]:
    """Show the first failures and say how many more there are."""
    rows = [(shown(result.job_id, 40), *_columns(result)) for result in first]
    id_width, kind_width = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
    lines = [f"  {name:<{id_width}}   {kind:<{kind_width}}   {message}" for name, kind, message in rows]
    if failed > len(first):
        lines.append(f"  ...and {failed - len(first):,} more")
    return lines


def _columns(result: Result) -> tuple[str, str]:
    if result.error is None:
        return str(result.status), ""
    tries = "1 attempt" if result.attempts == 1 else f"{result.attempts} attempts"
    return str(result.error.kind), f"{shown(_message(result.error), _MESSAGE_CHARS)} ({tries})"


def _message(failure: Failure) -> str:
    """Name the exception's type, unless it is one of ours, which say it all in their message."""
    name = failure.type.rpartition(".")[2]
    is_said = failure.type.startswith("graphmill.") or failure.kind is Kind.TIMEOUT or failure.message.startswith(name)
    return failure.message if is_said else f"{name}: {failure.message}"


def shown(text: str, width: int) -> str:
    """Make any text fit for one line of a terminal: no control characters, no line ends, not too long."""
    plain = "".join(char if char.isprintable() else " " for char in text[: width * 2])
    return plain if len(plain) <= width else plain[: width - 1] + "…"


def seconds(value: float) -> str:
    """Write a duration as people say it: '6.1 s', '3 min 58 s', '2 h 05 min'."""
    if round(value, 1) < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
