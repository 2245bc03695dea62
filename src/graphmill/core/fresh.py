"""Fresh containers for user code, so that what it changes is its own."""

from __future__ import annotations

from copy import copy
from typing import Any

_ATOMS = frozenset({str, int, float, bool, bytes, type(None)})  # looked at first: most of what is met


def fresh(value: Any) -> Any:
    """Copy the lists, dicts, tuples and sets of ``value``, to any depth; everything else is passed on as it is."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is dict:
        return {key: entry if type(entry) in _ATOMS else fresh(entry) for key, entry in value.items()}
    if kind is list:
        return [entry if type(entry) in _ATOMS else fresh(entry) for entry in value]
    if kind is tuple:
        return tuple([fresh(entry) for entry in value])
    if kind is set:
        return set(value)
    if isinstance(value, dict):  # OrderedDict, defaultdict, Counter
        twin = copy(value)
        for key, entry in value.items():
            twin[key] = fresh(entry)
        return twin
    return value
