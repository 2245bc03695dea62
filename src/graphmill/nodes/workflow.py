"""The workflow node: a workflow inside a workflow. The compiler compiles its child, and the run goes down into it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from graphmill.core.errors import InternalError
from graphmill.graph.node_type import Context, NodeType, ParamError, Site


class WorkflowParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The child, and what it is given."""

    workflow: Annotated[
        str | dict[str, Any],
        Meta(
            description="The child: a path relative to this file, the name of a workflow file beside it, or a workflow written here. "
            "A workflow can not hold itself."
        ),
    ]
    inputs: Annotated[dict[str, Any], Meta(description="The child's inputs by name.")] = {}


class Workflow(NodeType[WorkflowParams]):
    """What is written in such a node; it is never run as a step."""

    name = "workflow"
    summary = "Runs another workflow as part of this one; its outputs are the node's."
    Params = WorkflowParams
    outputs = None
    untemplated = frozenset({"workflow"})
    example = """\
- id: describe
  type: workflow
  params: {workflow: describe-user.yaml, inputs: {user: "${fetch.response}"}}
"""

    def check(self, params: Mapping[str, Any], site: Site) -> None:
        """Refuse a child without a name."""
        del site
        if not params["workflow"]:
            raise ParamError("workflow: a path, a name or a workflow is wanted, not an empty one", at=("workflow",))

    def actions(self, params: Mapping[str, Any]) -> Collection[str]:
        """Name the one of a node that chooses none."""
        del params
        return ("default",)

    def fingerprint(self, params: Mapping[str, Any]) -> str:
        """Its child's fingerprint says it all."""
        del params
        return ""

    async def run(self, params: WorkflowParams, context: Context) -> Mapping[str, Any]:
        """Never called: the steps are the child's."""
        del params
        raise InternalError(f"the workflow node {context.path} was run as a step")
