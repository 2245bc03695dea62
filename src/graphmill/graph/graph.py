"""A graph: a checked workflow, immutable, shared by all its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from graphmill.core.errors import Permanent, UsageError
from graphmill.core.fresh import fresh
from graphmill.core.json_text import require_json
from graphmill.core.names import suggestion
from graphmill.graph.lookup import resolve
from graphmill.graph.node import Step


@dataclass(frozen=True, slots=True)
class Node:
    """A vertex: its type's name, its params as written, and what runs one step of it."""

    id: str
    type: str
    params: Mapping[str, Any]
    step: Step


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes in the order in which they run. It holds no value of any run; call it with a job's input.

    ``inputs`` maps each declared input to its default; those without one are in ``required``. ``given`` are inputs fixed for
    every job.
    """

    name: str
    inputs: Mapping[str, Any]
    required: tuple[str, ...]
    nodes: tuple[Node, ...]
    outputs: Mapping[str, Any] | None
    given: Mapping[str, Any]
    path: str | None = None

    async def __call__(self, item: Any) -> Any:
        """Run one job and give its outputs; without declared outputs, the last node's."""
        scope = self._bind(item)
        for node in self.nodes:
            try:
                scope[node.id] = await node.step(resolve(node.params, scope))
            except Exception as error:
                place = f"in node {node.id!r}"
                if place not in getattr(error, "__notes__", ()):  # an exception may be raised more than once
                    error.add_note(place)
                raise
        output = scope[self.nodes[-1].id] if self.outputs is None else resolve(self.outputs, scope)
        require_json(output)
        return output

    def with_inputs(self, given: Mapping[str, Any]) -> Graph:
        """Give the same graph with these inputs fixed for every job."""
        for name in given:
            if name not in self.inputs and name not in self.required:
                declared = ", ".join([*self.required, *self.inputs]) or "none"
                raise UsageError(
                    f"workflow {self.name!r} has no input {name!r}{suggestion(name, [*self.inputs, *self.required])}; it has {declared}"
                )
        return replace(self, given={**self.given, **given})

    def _bind(self, item: Any) -> dict[str, Any]:
        open_inputs = [name for name in self.required if name not in self.given]
        if isinstance(item, Mapping):
            found = {name: item[name] for name in (*self.required, *self.inputs) if name in item}
        elif len(open_inputs) == 1:
            found = {open_inputs[0]: item}
        else:
            raise Permanent(
                f"the item is {type(item).__name__}, not a mapping, and the workflow has {len(open_inputs)} required inputs to bind it to"
            )
        # A default that a caller changes in one job's output must not change for the next.
        scope = {**fresh(dict(self.inputs)), **found, **fresh(dict(self.given))}
        missing = [name for name in self.required if name not in scope]
        if missing:
            raise Permanent(f"the item lacks the required input {', '.join(missing)}; it has {', '.join(map(str, item)) or 'nothing'}")
        return scope
