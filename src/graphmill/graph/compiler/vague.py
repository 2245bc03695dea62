"""What was written in a wrong shape, which is told already: later passes do not judge what depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphmill.graph.spec import NodeSpec, WorkflowSpec


def is_vague(node: NodeSpec, spec: WorkflowSpec) -> bool:
    """Tell whether a block of a node, or a name that it gives, was not read as it is written."""
    written = spec.document.get(node.at)
    if any(written.get(key) is not None and not isinstance(written[key], Mapping) for key in ("params", "parameters", "batch", "loop")):
        return True
    batch, loop = written.get("batch") or {}, written.get("loop") or {}
    return _differs(batch, "as", node.batch.alias if node.batch else None) or _differs(
        loop, "history", node.loop.history if node.loop else None
    )


def has_vague_inputs(spec: WorkflowSpec) -> bool:
    """Tell whether it is not known which inputs there are."""
    return not isinstance(spec.document.get((*spec.at, "inputs")), Mapping | None)


def has_vague_edges(spec: WorkflowSpec) -> bool:
    """Tell whether it is not known which edges there are."""
    return not isinstance(spec.document.get((*spec.at, "edges")), list | tuple | None)


def _differs(written: Mapping[str, Any], key: str, read: str | None) -> bool:
    return written.get(key) is not None and written[key] != read
