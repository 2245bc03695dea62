"""What was written in a wrong shape or under a wrong key, which is told already: later passes do not judge what depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphmill.core.suggest import suggestion
from graphmill.graph import grammar, legacy
from graphmill.graph.kinds import Name
from graphmill.graph.spec import NodeSpec, WorkflowSpec

_NODE_KEYS = frozenset({*grammar.NODE, *legacy.NODE.renamed, *legacy.NODE.ignored})
_WORKFLOW_KEYS = frozenset({*grammar.WORKFLOW, *legacy.WORKFLOW.ignored})


def is_vague(node: NodeSpec, spec: WorkflowSpec) -> bool:
    """Tell whether a block of a node, or a name that it gives, was not read as it is meant."""
    written = spec.document.get(node.at)
    if any(
        written.get(key) is not None and not isinstance(written[key], Mapping)
        for key in ("params", "parameters", "batch", "loop")
    ):
        return True
    batch, loop = written.get("batch") or {}, written.get("loop") or {}
    return (
        _differs(batch, "as", node.batch.alias if node.batch else None)
        or _differs(loop, "history", node.loop.history if node.loop else None)
        or _is_misspelt(written, _NODE_KEYS, ("params", "batch", "loop"))
    )


def lost_names(spec: WorkflowSpec) -> frozenset[str] | None:
    """Give the names of nodes and inputs that could not be read; None if some part without a name was lost."""
    if spec.is_whole:
        return frozenset()
    nodes, read = spec.document.get((*spec.at, "nodes")), {node.at[-1] for node in spec.nodes}
    lost: list[Any] = [
        node.get("id") if isinstance(node, Mapping) else None for number, node in enumerate(nodes) if number not in read
    ]
    inputs, known = spec.document.get((*spec.at, "inputs")), {each.name for each in spec.inputs}
    lost += [name for name in (inputs if isinstance(inputs, Mapping) else ()) if name not in known]
    return frozenset(lost) if all(Name().fits(name) for name in lost) else None


def has_vague_inputs(spec: WorkflowSpec) -> bool:
    """Tell whether it is not known which inputs there are."""
    return not isinstance(spec.document.get((*spec.at, "inputs")), Mapping | None) or _is_key_misspelt("inputs", spec)


def has_vague_edges(spec: WorkflowSpec) -> bool:
    """Tell whether it is not known which edges there are."""
    return not isinstance(spec.document.get((*spec.at, "edges")), list | tuple | None) or _is_key_misspelt(
        "edges", spec
    )


def _is_key_misspelt(key: str, spec: WorkflowSpec) -> bool:
    return _is_misspelt(spec.document.get(spec.at), _WORKFLOW_KEYS, (key,))


def _is_misspelt(written: Mapping[Any, Any], known: frozenset[str], keys: tuple[str, ...]) -> bool:
    return any(suggestion(str(key)[:100], keys) for key in written if key not in known)


def _differs(written: Mapping[str, Any], key: str, read: str | None) -> bool:
    return written.get(key) is not None and written[key] != read
