"""The words in which a report reads, the same at every door."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from graphmill.core.json import to_json
from graphmill.core.result import Failure, Kind, Result, Status
from graphmill.engine.error_groups import ErrorGroup
from graphmill.engine.statistics import Statistics

ERRORS_SHOWN = 5
_MESSAGE_CHARS = 160
_GROUP_CHARS = 120
_WORD_CHARS = 60  # a path, a URL: of one that is longer the beginning and the end are shown
_WORD_END_CHARS = 15


def summary_line(statistics: Statistics, *, samples: int = 1) -> str:
    """Say how many items succeeded, as in '9,998/10,000 items succeeded, 2 failed'."""
    counts = {
        Status.SUCCEEDED: statistics.succeeded,
        Status.FAILED: statistics.failed,
        Status.TIMED_OUT: statistics.timed_out,
        Status.CANCELLED: statistics.cancelled,
        Status.PAUSED: statistics.paused,
    }
    return counts_line(counts, statistics.total, degraded=statistics.degraded, samples=samples)


def counts_line(
    counts: Mapping[Status, int], total: int | None, *, degraded: int = 0, rest: str = "not reached", samples: int = 1
) -> str:
    """Say the same of counts by status; so many of the succeeded are ``degraded``; ``rest`` is the word for items that have no result.

    Where there are several ``samples`` of each item, they are what is counted: '60/60 samples of 20 items succeeded'.
    """
    done = sum(counts.values())
    total = max(total or 0, done)
    parts = (
        (degraded, "degraded"),
        (counts.get(Status.FAILED, 0) + counts.get(Status.TIMED_OUT, 0), "failed"),
        (counts.get(Status.CANCELLED, 0), "cancelled"),
        (counts.get(Status.PAUSED, 0), "paused"),
        (total - done, rest),
    )
    succeeded = counts.get(Status.SUCCEEDED, 0)
    what = "items" if samples == 1 else f"samples of {-(-total // samples):,} items"
    return f"{succeeded:,}/{total:,} {what} succeeded" + "".join(
        f", {count:,} {word}" for count, word in parts if count
    )


def error_lines(first: Sequence[Result], failed: int) -> list[str]:
    """Show the first failures and say how many more there are."""
    rows = [(shown(result.job_id, 40), *_told(result)) for result in first]
    lines = [f"  {line}" for line in columns(rows)]
    if failed > len(first):
        lines.append(f"  ...and {failed - len(first):,} more")
    return lines


def group_lines(groups: Sequence[ErrorGroup]) -> list[str]:
    """Show failures that are alike, a line for each group."""
    rows = [(f"{group.count:,} ×", group.kind, shown_message(group.message, _GROUP_CHARS)) for group in groups]
    width = max((len(count) for count, _, _ in rows), default=0)
    return [f"  {line}" for line in columns([(f"{count:>{width}}", kind, message) for count, kind, message in rows])]


def waiting_lines(first: Sequence[Result], paused: int) -> list[str]:
    """Show what the first items that wait for an answer ask, and say how many more there are."""
    rows = [
        (shown(result.job_id, 40), shown(path, 40), _question(asked))
        for result in first
        for path, asked in result.questions.items()
    ]
    lines = [f"  {line}" for line in columns(rows)] if rows else []
    return [*lines, f"  ...and {paused - len(first):,} more"] if rows and paused > len(first) else lines


def _question(asked: Any) -> str:
    return "asks: " + shown(asked if isinstance(asked, str) else to_json(asked), _MESSAGE_CHARS)


def _told(result: Result) -> tuple[str, str]:
    if result.error is None:
        return str(result.status), ""
    return str(
        result.error.kind
    ), f"{shown_message(failure_text(result.error), _MESSAGE_CHARS)} ({counted(result.attempts, 'attempt')})"


def failure_text(failure: Failure) -> str:
    """Name the exception's type, unless it is one of ours, which say it all in their message."""
    name = failure.type.rpartition(".")[2]
    is_said = failure.type.startswith("graphmill.") or failure.kind is Kind.TIMEOUT or failure.message.startswith(name)
    return failure.message if is_said else f"{name}: {failure.message}"


def shown(text: str, width: int) -> str:
    """Make any text fit for one line of a terminal: no control characters, no line ends, not too long."""
    plain = "".join(char if char.isprintable() else " " for char in text[: width * 2])
    return plain if len(plain) <= width else plain[: width - 1] + "…"


def shown_message(text: str, width: int) -> str:
    """Show a message, of which the longest words lose their middle first, so that what is said behind a path or a URL is seen."""
    return shown(text if len(text) <= width else " ".join(map(_short_word, text.split(" "))), width)


def _short_word(word: str) -> str:
    return (
        word if len(word) <= _WORD_CHARS else f"{word[: _WORD_CHARS - _WORD_END_CHARS - 1]}…{word[-_WORD_END_CHARS:]}"
    )


def counted(count: int, word: str) -> str:
    """Count things: '1 attempt', '1,200 attempts'."""
    return f"{count:,} {word}{'s' * (count != 1)}"


def seconds(value: float) -> str:
    """Write a duration as people say it: '6.1 s', '3 min 58 s', '2 h 05 min'."""
    if round(value, 1) < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def clock(value: float) -> str:
    """Write a duration as a clock shows it: '1:07', '2:05:00'."""
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def per_time(per_second: float) -> str:
    """Write a rate as people say it: '3.5/s', '41.2/min'."""
    return f"{per_second:,.1f}/s" if per_second >= 1 else f"{per_second * 60:.1f}/min"


def size(count: int) -> str:
    """Write a number of bytes as people say it: '312 B', '4.1 MB'."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if round(value, 1) < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def moment(at: float) -> str:
    """Write a time of the wall clock as it is here, to the minute: '2026-11-15 18:04'."""
    return datetime.fromtimestamp(at, UTC).astimezone().replace(tzinfo=None).isoformat(sep=" ", timespec="minutes")


def columns(rows: Sequence[Sequence[str]], *, gap: str = "   ") -> list[str]:
    """Set rows of short texts under each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [gap.join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


_FLAGS = ("degraded", "partial")
_JOB_MESSAGE_CHARS = 300
_AMONG = (("cached_tokens", "cached"), ("reasoning_tokens", "reasoning"), ("image_tokens", "image"))


def standing(result: Result) -> str:
    """Give a job's status, and the flags that its nodes have set: 'succeeded, degraded'."""
    return ", ".join([str(result.status), *(flag for flag in _FLAGS if result.metadata.get(flag))])


def tries(count: int) -> str:
    """Say how many attempts there were."""
    return counted(count, "attempt")


def usage_text(usage: Mapping[str, int] | None, cost: float | None) -> str:
    """Say what was used: '1,200 tokens (800 cached, 300 reasoning) · $0.0031'; empty where nothing was metered."""
    return " · ".join(filter(None, [_tokens_text(usage or {}), _cost_text(cost)]))


def _cost_text(cost: float | None) -> str:
    return "" if not cost else f"${cost:.4f}" if cost < 1 else f"${cost:,.2f}"


def _tokens_text(usage: Mapping[str, int]) -> str:
    tokens = usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
    among = ", ".join(f"{count:,} {word}" for name, word in _AMONG if (count := usage.get(name, 0)))
    return "" if not tokens else f"{tokens:,} tokens ({among})" if among else f"{tokens:,} tokens"


def job_lines(result: Result) -> list[str]:
    """Say how a job ended and, if it failed, why."""
    told = [standing(result), seconds(result.duration_s), _cost_text(result.cost)]
    if result.attempts > 1:
        told.insert(1, tries(result.attempts))
    lines = [" · ".join(filter(None, told))]
    if result.error is not None:
        lines.append(f"  {result.error.kind}: {shown_message(failure_text(result.error), _JOB_MESSAGE_CHARS)}")
    return lines


def output_text(output: Any) -> str:
    """Give one output that is text as it is; several, or other values, each with its name."""
    if isinstance(output, str):
        return output
    if not isinstance(output, Mapping):
        return _value_text(output)
    values = list(output.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return "\n".join(f"{name}: {_value_text(value)}" for name, value in output.items())


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        return value if "\n" not in value else "\n" + "\n".join(f"  {line}" for line in value.split("\n"))
    return json.dumps(json.loads(to_json(value)), ensure_ascii=False, indent=2)
