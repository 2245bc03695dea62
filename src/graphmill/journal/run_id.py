"""Run ids: those made here, those that people choose, and which run a name refers to."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphmill.core.errors import UnknownRunError, UsageError
from graphmill.core.suggest import suggestion

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's: no i, l, o, u, which are misread or make words
_LEAST_LENGTH = 5
_BEGAN_AT = 1_767_225_600  # 2026-01-01T00:00Z
_STEP_S = 8
_MADE = re.compile(f"[{_DIGITS[10:]}][{_DIGITS}]{{{_LEAST_LENGTH - 1},}}")
_MARK = "+"
_CHOSEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_OF_PASS = re.compile(rf"{_CHOSEN.pattern}\+[A-Za-z0-9_-]{{1,40}}")


def new_run_id(now: float, newest: str | None) -> str:
    """Make the id of a run that starts now (seconds since 1970), later than ``newest``, the store's latest own.

    It is the time in steps of 8 s, or the one after ``newest`` if that is not later: two runs in one step, or a clock
    that was set back. Five characters last until November 2031; then it has six, the first still a letter. The longer
    of two ids is the later; of two equally long ones the later as text: sort by ``(len(id), id)``. An id that a person
    chose is never ``newest``, though it may look like one; if it takes a new id, pass that as ``newest`` to get the
    next.
    """
    ordinal = max(0, int((now - _BEGAN_AT) // _STEP_S))
    return _text(ordinal if newest is None else max(ordinal, _ordinal(newest) + 1))


def require_run_id(text: object, *, is_pass: bool = False) -> None:
    """Refuse an id that is no plain file name or command argument; only scoring passes have a ``+``."""
    form = _OF_PASS if is_pass else _CHOSEN
    if not isinstance(text, str) or not form.fullmatch(text):
        raise UsageError(
            "a run id must have 1 to 64 ASCII letters, digits, '.', '_' or '-' and start with a letter or digit, "
            f"got {text!r:.80}; choose another, such as 'users-1', or leave it out"
        )


def pass_id(run_id: str, name: str) -> str:
    """Return the id of the scoring pass of this name over a run, such as ``k7f2+math``."""
    return f"{run_id}{_MARK}{name}"


def _text(ordinal: int) -> str:
    """Count through all ids of five characters that begin with a letter, then through those of six, and so on."""
    length = _LEAST_LENGTH
    while ordinal >= _room(length):
        ordinal -= _room(length)
        length += 1
    value = ordinal + _first(length)
    return "".join(_DIGITS[value >> 5 * place & 31] for place in reversed(range(length)))


def _ordinal(run_id: str) -> int:
    if not _MADE.fullmatch(run_id):
        raise ValueError(f"{run_id!r:.80} is not an id that was made here")
    value = 0
    for digit in run_id:
        value = value << 5 | _DIGITS.index(digit)
    return value - _first(len(run_id)) + sum(map(_room, range(_LEAST_LENGTH, len(run_id))))


def _first(length: int) -> int:
    return 10 << 5 * (length - 1)


def _room(length: int) -> int:
    return (32 - 10) << 5 * (length - 1)


_MOST_SHOWN = 5


def meant_run(name: str, ids: Sequence[str], *, store: str) -> str:
    """Return the id that is this name or the only one that begins with it; a scoring pass only if its run is named."""
    if name in ids:
        return name
    if _MARK not in name:
        ids = [run_id for run_id in ids if _MARK not in run_id]
    found = [run_id for run_id in ids if name and run_id.startswith(name)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UnknownRunError(f"{store} holds no run {name!r:.80}{suggestion(name, ids)}")
    more = ", …" if len(found) > _MOST_SHOWN else ""
    raise UnknownRunError(
        f"{name!r:.80} may be any of {len(found)} runs: {', '.join(found[:_MOST_SHOWN])}{more}; write more of its id"
    )
