"""How reports write counts, durations, messages, results and tables: the same words in every front end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from graphmill.core.json import text_or_json, to_json
from graphmill.core.result import Failure, Kind, Result, Status
from graphmill.core.usage import cost_text
from graphmill.engine.results.statistics import MOST_DISTINCT, ErrorGroup, Statistics

ERRORS_SHOWN = 5
REHEARSAL = "rehearsal"
NOTHING = "–"  # an empty cell of a table
_ID_CHARS = 40
_LIVE_ID_CHARS = 14
_ROUNDS_CHARS = len("2 rounds")
_MESSAGE_CHARS = 160
_JOB_MESSAGE_CHARS = 300
_GROUP_CHARS = 120
_WORD_CHARS = 60  # a longer path or URL loses its middle
_WORD_END_CHARS = 15
_OUR_KINDS = (Kind.TIMEOUT, Kind.CANCELLED, Kind.PAUSED)
_FLAGS = ("degraded", "partial")
_COLUMN_GAP = "  "
_LEAST_CELL_CHARS = 8


def summary_line(statistics: Statistics, *, samples: int = 1, outdated: int = 0) -> str:
    """Say how many items succeeded: '9,998/10,000 items succeeded, 2 failed'."""
    counts = {
        Status.SUCCEEDED: statistics.succeeded,
        Status.FAILED: statistics.failed,
        Status.TIMED_OUT: statistics.timed_out,
        Status.CANCELLED: statistics.cancelled,
        Status.WAITING: statistics.waiting,
        Status.PENDING: statistics.pending,
    }
    return counts_line(
        counts,
        statistics.total,
        degraded=statistics.degraded,
        partial=statistics.partial,
        outdated=outdated,
        samples=samples,
    )


def counts_line(
    counts: Mapping[Status, int],
    total: int | None,
    *,
    degraded: int = 0,
    partial: int = 0,
    outdated: int = 0,
    rest: str = "pending",
    samples: int = 1,
) -> str:
    """Say the same from counts by status; ``rest`` is the word for items without a result.

    ``outdated`` items have a result from before a change, and will run again; they are not in the counts.

    With several ``samples`` of each item, samples are counted: '60/60 samples of 20 items succeeded'.
    """
    done = sum(counts.values())
    total = max(total or 0, done + outdated)
    parts = {
        "degraded": degraded,
        "partial": partial,
        "failed": counts.get(Status.FAILED, 0) + counts.get(Status.TIMED_OUT, 0),
        "cancelled": counts.get(Status.CANCELLED, 0),
        "waiting": counts.get(Status.WAITING, 0),
        "outdated": outdated,
        rest: total - done - outdated + counts.get(Status.PENDING, 0),
    }
    unit = "items"
    if samples > 1:
        unit = f"samples of {-(-total // samples):,} items"
    first = f"{counts.get(Status.SUCCEEDED, 0):,}/{total:,} {unit} succeeded"
    return ", ".join([first, *(f"{count:,} {word}" for word, count in parts.items() if count)])


def error_lines(first: Sequence[Result], failed: int) -> list[str]:
    """Show the first failures and count the others."""
    lines = [
        f"  {line}"
        for line in align_columns([(one_line(result.job_id, _ID_CHARS), *_error(result)) for result in first])
    ]
    return lines + more_lines(failed - len(first))


def _error(result: Result) -> tuple[str, str]:
    if result.error is None:
        return str(result.status), ""
    message = one_line_message(failure_text(result.error), _MESSAGE_CHARS)
    return str(result.error.kind), f"{message} ({count_text(result.attempts, 'attempt')})"


def group_lines(groups: Sequence[ErrorGroup]) -> list[str]:
    """Show groups of similar failures, one line each."""
    counts = [f"{group.count:,} ×" for group in groups]
    width = max(map(len, counts), default=0)
    rows = [
        (
            count.rjust(width),
            group.kind,
            " ".join(filter(None, [one_line_message(_group_text(group), _GROUP_CHARS), _distinct_text(group)])),
        )
        for count, group in zip(counts, groups, strict=True)
    ]
    return [f"  {line}" for line in align_columns(rows)]


def _group_text(group: ErrorGroup) -> str:
    text = typed_message(group.kind, group.type, group.message)
    if group.distinct == 1:
        return text
    return f"such as: {text}"


def _distinct_text(group: ErrorGroup) -> str:
    if group.distinct == 1:
        return ""
    count = f"{group.distinct:,}" if group.distinct < MOST_DISTINCT else f"{MOST_DISTINCT:,} or more"
    return f"({count} different messages)"


def waiting_lines(first: Sequence[Result], paused: int) -> list[str]:
    """Show the questions of the first items that wait for an answer and count the others."""
    rows = [
        (one_line(result.job_id, _ID_CHARS), one_line(path, _ID_CHARS), f"asks: {_question(asked)}")
        for result in first
        for path, asked in result.questions.items()
    ]
    if not rows:
        return []
    return [*(f"  {line}" for line in align_columns(rows)), *more_lines(paused - len(first))]


def _question(asked: Any) -> str:
    return one_line(text_or_json(asked), _MESSAGE_CHARS)


def more_lines(count: int) -> list[str]:
    """Say how many more there are, if any."""
    if count > 0:
        return [f"  ...and {count:,} more"]
    return []


def failure_text(failure: Failure) -> str:
    """Return the message, after the exception's type unless the message is Graphmill's own and says it all."""
    return typed_message(failure.kind, failure.type, failure.message)


def typed_message(kind: str, type_name: str, message: str) -> str:
    """Return a message after its exception's type, without the module; see ``failure_text``."""
    name = type_name.rpartition(".")[2]
    is_ours = type_name.startswith("graphmill.") or kind in _OUR_KINDS
    if is_ours or not name or message.startswith(name):
        return message
    return f"{name}: {message}"


def traceback_lines(traceback: str) -> list[str]:
    """Return the lines of a traceback; none if it has no frames, as then it only repeats the message."""
    lines = [line for line in traceback.split("\n") if line.strip()]
    if any(line.startswith('  File "') for line in lines):
        return lines
    return []


def status_text(result: Result) -> str:
    """Return a job's status and its flags: 'succeeded, degraded'."""
    return ", ".join([str(result.status), *(flag for flag in _FLAGS if result.metadata.get(flag))])


def job_lines(result: Result) -> list[str]:
    """Say how a job ended and, if it failed, why."""
    parts = [status_text(result)]
    if result.attempts > 1:
        parts.append(count_text(result.attempts, "attempt"))
    parts += [duration_text(result.duration_s), cost_text(result.cost_nano or 0, result.unpriced)]
    lines = [" · ".join(filter(None, parts))]
    if result.error is not None:
        lines.append(f"  {result.error.kind}: {one_line_message(failure_text(result.error), _JOB_MESSAGE_CHARS)}")
    return lines


def scored_line(result: Result) -> str:
    """Say how an item went whose output has a score: '✓ HumanEval/117   0.95  2 rounds  6.1 s  $0.0070'."""
    name = f"{one_line(result.job_id, _ID_CHARS):<{_LIVE_ID_CHARS}}"
    if not result.is_success or not isinstance(result.output, Mapping):
        return f"✗ {name}  {_outcome(result)}"
    score, rounds = result.output.get("score"), result.output.get("rounds")
    parts = [f"{score:.2f}" if isinstance(score, int | float) else "–   "]
    if isinstance(rounds, int):
        parts.append(f"{count_text(rounds, 'round'):<{_ROUNDS_CHARS}}")
    parts.append(duration_text(result.duration_s))
    if result.cost_nano:
        parts.append(cost_text(result.cost_nano, result.unpriced))
    if result.is_partial:
        parts.append("partial")
    mark = "~" if result.is_partial else "✓"
    return f"{mark} {name}  {'  '.join(parts)}"


def _outcome(result: Result) -> str:
    if result.status is Status.TIMED_OUT:
        return f"timed out after {count_text(result.attempts, 'attempt')}"
    return ": ".join(filter(None, _error(result)))


def output_text(output: Any) -> str:
    """Write a job's output for a person: one text as it is, several values by name, nested ones as indented JSON."""
    if isinstance(output, str):
        return output
    if not isinstance(output, Mapping):
        return _value_text(output)
    values = list(output.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return "\n".join(f"{name}: {_value_text(value)}" for name, value in output.items())


def _value_text(value: Any) -> str:
    if not isinstance(value, str):
        return json.dumps(json.loads(to_json(value)), ensure_ascii=False, indent=2)
    if "\n" not in value:
        return value
    return "\n" + "\n".join(f"  {line}" for line in value.split("\n"))


def one_line(text: str, width: int) -> str:
    """Make any text fit one line of a terminal: no control characters, no line ends, cut to the width."""
    plain = "".join(char if char.isprintable() else " " for char in text[: width * 2])
    if len(plain) <= width:
        return plain
    return plain[: width - 1] + "…"


def one_line_message(text: str, width: int) -> str:
    """Make a message fit: first long paths and URLs lose their middle, so that the text after them stays visible."""
    if len(text) > width:
        text = " ".join(map(_short_word, text.split(" ")))
    return one_line(text, width)


def _short_word(word: str) -> str:
    if len(word) <= _WORD_CHARS:
        return word
    return f"{word[: _WORD_CHARS - _WORD_END_CHARS - 1]}…{word[-_WORD_END_CHARS:]}"


def align_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align rows of short texts in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["   ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def count_text(count: int, word: str) -> str:
    """Count things: '1 attempt', '1,200 attempts'."""
    return f"{count:,} {word}{'s' * (count != 1)}"


def duration_text(value: float) -> str:
    """Write a duration: '6.1 s', '3 min 58 s', '2 h 05 min'."""
    if round(value, 1) < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def clock_text(value: float) -> str:
    """Write a duration as a clock shows it: '1:07', '2:05:00'."""
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{rest:02d}"
    return f"{minutes}:{rest:02d}"


def rate_text(per_second: float) -> str:
    """Write a rate: '3.5/s', '41.2/min'."""
    if per_second >= 1:
        return f"{per_second:,.1f}/s"
    return f"{per_second * 60:.1f}/min"


def size_text(count: int) -> str:
    """Write a number of bytes: '312 B', '4.1 MB'."""
    if count < 1000:
        return f"{count} B"
    value, unit = scaled(count, ("kB", "MB", "GB", "TB"))
    return f"{value:.1f} {unit}"


def scaled(count: int, units: Sequence[str]) -> tuple[float, str]:
    """Divide a count by 1,000 until it is below 1,000; each of the units is a thousand of the one before."""
    value, unit = float(count), ""
    for larger in units:
        if round(value, 1) < 1000:
            break
        value, unit = value / 1000, larger
    return value, unit


def local_time(at: float) -> str:
    """Write a time in the local time zone, to the minute: '2026-11-15 18:04'."""
    return datetime.fromtimestamp(at, UTC).astimezone().replace(tzinfo=None).isoformat(sep=" ", timespec="minutes")


def iso_time(at: float) -> str:
    """Write a time for machines: ISO 8601 in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its title, the most characters of a cell, and whether it gives way where the table is too wide."""

    title: str
    most: int = 40
    is_number: bool = False
    can_shrink: bool = False
    is_optional: bool = False


def table_lines(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Draw a table under its titles. Optional columns without any value are left out.

    If it is wider than ``width``, columns that can shrink are cut, the widest first, down to eight characters.
    """
    kept = [
        at
        for at, column in enumerate(columns)
        if not column.is_optional or any(row[at] not in ("", NOTHING) for row in rows)
    ]
    shown = [columns[at] for at in kept]
    cells = [[one_line(row[at], columns[at].most) for at in kept] for row in rows]
    titles = [column.title for column in shown]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    if width is not None:
        _shrink(shown, widths, sum(widths) + len(_COLUMN_GAP) * (len(widths) - 1) - width)
    return [_table_line(shown, widths, row) for row in (titles, *cells)]


def _shrink(columns: Sequence[Column], widths: list[int], excess: int) -> None:
    while excess > 0:
        able = [at for at, column in enumerate(columns) if column.can_shrink and widths[at] > _LEAST_CELL_CHARS]
        if not able:
            return
        widest = max(able, key=lambda at: widths[at])
        widths[widest] -= 1
        excess -= 1


def _table_line(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str]) -> str:
    return _COLUMN_GAP.join(
        f"{one_line(cell, width):>{width}}" if column.is_number else f"{one_line(cell, width):<{width}}"
        for column, width, cell in zip(columns, widths, cells, strict=True)
    ).rstrip()
