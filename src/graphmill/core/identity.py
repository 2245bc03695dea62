"""Which id an item goes by."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any
from uuid import UUID

from graphmill.core.errors import UsageError

JOB_ID = "job"  # of a run that has no other
_MAPPINGS = (dict, Mapping)  # the check against an abstract class is slow, and nearly all are dicts


def sample_id(item_id: str, sample: int) -> str:
    """Name a sample of an item: the first goes by the item's own id, which so stays what it is without samples."""
    return item_id if sample <= 1 else f"{item_id}#{sample}"


def own_id(item: Any, position: int, *, id_field: str | None = None) -> str | None:
    """Give the id that an item carries: the named field, else its own ``id``; None if it has none."""
    if isinstance(item, _MAPPINGS):
        value = item.get(id_field or "id")
        if type(value) is str:
            return value
        if isinstance(value, str | Integral | UUID) and not isinstance(value, bool):
            return str(value)
        if id_field is not None:
            known = ", ".join(repr(key) for key in list(item)[:10])
            found = (
                f"is {value!r:.40}, neither text nor a whole number"
                if id_field in item
                else f"is not there; it has {known}"
            )
            raise UsageError(
                f"the item at position {position} has no id: its field {id_field!r} {found}; give it one, or name another field"
            )
    elif id_field is not None:
        raise UsageError(
            f"the item at position {position} has no field {id_field!r}: it is {type(item).__name__}, not a mapping"
        )
    return None
