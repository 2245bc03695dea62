"""The declared inputs of a workflow, as its graph has them."""

from __future__ import annotations

from collections.abc import Mapping

from graphmill.graph.graph import Input
from graphmill.graph.spec import WorkflowSpec


def make_inputs(spec: WorkflowSpec) -> Mapping[str, Input]:
    """Give the declared inputs by name."""
    return {
        each.name: Input(
            name=each.name,
            type=each.type,
            is_required=each.is_required,
            default=each.default,
            description=each.description,
        )
        for each in spec.inputs
    }
