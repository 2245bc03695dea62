"""Fresh containers for user code, so that what it changes is its own."""

from __future__ import annotations

from copy import copy
from typing import Any


def fresh(value: Any) -> Any:
    """Copy the lists, dicts, tuples and sets of ``value``, to any depth; everything else is passed on as it is."""
    if type(value) is dict:
        return {key: fresh(entry) for key, entry in value.items()}
    if type(value) is list:
        return [fresh(entry) for entry in value]
    if type(value) is tuple:
        return tuple([fresh(entry) for entry in value])
    if type(value) is set:
        return set(value)
    if isinstance(value, dict):  # OrderedDict, defaultdict, Counter
        twin = copy(value)
        for key, entry in value.items():
            twin[key] = fresh(entry)
        return twin
    return value
