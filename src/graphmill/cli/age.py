"""An age as people write it: 90m, 12h, 30d."""

from __future__ import annotations

import re

from graphmill.core.errors import UsageError

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AGE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhdw])")


def age_s(text: str) -> float:
    """Read an age such as 90m or 30d."""
    found = _AGE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"--older is a number and a unit, such as 90m, 12h, 30d or 2w, not {text!r:.40}")
    return float(found[1]) * _UNITS_S[found[2]]
