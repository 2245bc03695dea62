"""The pass of results: nothing that a node gives is lost among what a batch adds to its results."""

from __future__ import annotations

from collections.abc import Collection

from graphmill.graph.compiler.children import Children
from graphmill.graph.compiler.telling import tell
from graphmill.graph.compiler.types import Types
from graphmill.graph.compiler.vague import is_vague
from graphmill.graph.problems import Problems
from graphmill.graph.spec import NodeSpec, WorkflowSpec


def check_results(spec: WorkflowSpec, types: Types, children: Children, problems: Problems) -> None:
    """Refuse an output of a node with a batch that has the name of what the batch puts in its place, unless it is the same."""
    for node in spec.nodes:
        if node.batch is None or node.loop is not None or is_vague(node, spec):
            continue
        given = _given(node, types, children)
        for name, same in (("item", f"${{{node.batch.alias}}}"), ("original_index", "${__index__}")):
            if name in given and node.params.get(name) != same:
                message = (
                    f"the batch puts its own {name!r} into each result, in place of the node's; give that another name"
                )
                tell(problems, node.at, message, inside=("params", name) if name in node.params else ())


def _given(node: NodeSpec, types: Types, children: Children) -> Collection[str]:
    if (child := children.get(node.at)) is not None:
        return child.spec.outputs or ()
    node_type = types[node.at]
    return () if node_type is None else node_type.output_names(node.params) or ()
