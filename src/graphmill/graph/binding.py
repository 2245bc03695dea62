"""How the item of a job becomes the inputs of its graph: worked out once, for all jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from graphmill.core.errors import Permanent
from graphmill.core.json import fresh

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph


class Binding:
    """A mapping gives the inputs it holds, any other item is the only open one."""

    __slots__ = ("_defaults", "_given", "_names", "_open", "_typed")

    def __init__(self, graph: Graph) -> None:
        self._names = graph.inputs.keys()
        self._given = dict(graph.given)
        self._open = [each.name for each in graph.inputs.values() if each.is_required and each.name not in graph.given]
        self._typed = [each for each in graph.inputs.values() if each.type is not None]
        self._defaults = {each.name: each.default for each in graph.inputs.values() if not each.is_required}

    def bind(self, item: Any) -> dict[str, Any]:
        """Give the inputs of one job by name; Permanent says which one is missing, or of a wrong type."""
        found = self._found(item)
        for each in self._typed:
            if each.name in found and (problem := each.problem(found[each.name])):
                raise Permanent(f"input {each.name!r}: {problem}")
        if (
            self._defaults or self._given
        ):  # fresh: what a caller changes in one job's output must not change for the next
            found = {**fresh(self._defaults), **found, **fresh(self._given)}
        if len(found) < len(self._names):
            missing = ", ".join(name for name in self._names if name not in found)
            raise Permanent(f"the item lacks the required input {missing}; it has {_held(item)}")
        return found

    def _found(self, item: Any) -> dict[str, Any]:
        if type(item) is dict or isinstance(item, Mapping):
            return {name: item[name] for name in self._names if name in item and name not in self._given}
        if len(self._open) == 1:
            return {self._open[0]: item}
        raise Permanent(
            f"the item is {type(item).__name__}, not a mapping, and the workflow has {len(self._open)} required inputs to bind it to"
        )


def _held(item: Any) -> str:
    return (", ".join(map(str, item)) or "nothing") if isinstance(item, Mapping) else type(item).__name__
