"""Cases: a value is compared with the keys of a mapping by its JSON text, as keys are text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from graphmill.core.errors import Permanent, cut
from graphmill.core.json import to_json
from graphmill.graph.node_type import NodeType, ParamError, Site

P = TypeVar("P")
T = TypeVar("T")
_MOST_CHARS = 80


class ByCases(NodeType[P]):
    """A node that looks a value up among cases; as that costs nothing, it is not recorded."""

    is_recorded = False

    def check(self, params: Mapping[str, Any], site: Site) -> None:
        """Refuse a node without any case, and two keys that are the same text."""
        del site
        _require_cases(params.get("cases"), params.get("default"))

    def fingerprint(self, params: Mapping[str, Any]) -> str:
        """Its params say it all."""
        del params
        return ""


def find_case(on: Any, cases: Mapping[Any, T], default: T | None) -> T:
    """Give the case of a value, else the default; without one that is a permanent failure that lists the cases."""
    known = {next(_texts(key)): entry for key, entry in cases.items()}
    for text in _texts(on):
        if text in known:
            return known[text]
    if default is None:
        shown = cut(to_json(on), _MOST_CHARS) if [*_texts(on)] else f"a value of type {type(on).__name__}"
        there = ", ".join(known) or "none"
        raise Permanent(f"no case for {shown}; there are {there}; add that case or a default")
    return default


def _require_cases(cases: Any, default: Any) -> None:
    if not cases and default is None:
        raise ParamError("cases or a default is missing: without them every value fails", at=("cases",))
    seen: dict[str, Any] = {}
    for key in cases or ():
        text = next(_texts(key))
        if text in seen:
            raise ParamError(f"cases: {key!r} and {seen[text]!r} are the same case", at=("cases", key))
        seen[text] = key


def _texts(value: Any) -> Iterator[str]:
    """Give the texts that a scalar goes by: ``true`` for true and for "true", ``3`` for 3, "3" and 3.0. A list or a mapping has none."""
    if isinstance(value, str):
        yield value
    elif value is None or isinstance(value, bool | int | float):
        yield to_json(value)
        if isinstance(value, float) and value.is_integer():
            yield to_json(int(value))
