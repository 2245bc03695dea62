"""The wait that a server asks for: as seconds, as milliseconds, or as a date by its own clock."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping

_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?")


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Read ``retry-after-ms``, or ``retry-after`` as seconds or as a date; the names of ``headers`` are in lower case."""
    if (milliseconds := number(headers.get("retry-after-ms", ""))) is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "").strip()
    seconds = number(text)
    return until_s(_date(text), headers) if text and seconds is None else seconds


def until_s(moment: float | None, headers: Mapping[str, str]) -> float | None:
    """Tell how long it is until a moment, by the clock of the server that named it where it tells its time."""
    if moment is None:
        return None
    now = _date(headers["date"]) if "date" in headers else None
    return max(0.0, moment - (time.time() if now is None else now))


def number(text: str) -> float | None:
    """Read a plain number that is not negative."""
    return float(text) if _NUMBER.fullmatch(text.strip()) else None


def _date(text: str) -> float | None:
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  it brings half of a mail program with it

    try:
        seconds = parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
    return seconds if math.isfinite(seconds) else None
