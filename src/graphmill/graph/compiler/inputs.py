"""The pass of inputs: what a workflow takes, with defaults of the types that it declares."""

from __future__ import annotations

from collections.abc import Mapping

from graphmill.graph.compiled import Input
from graphmill.graph.compiler.telling import tell
from graphmill.graph.problems import Problems
from graphmill.graph.spec import WorkflowSpec


def make_inputs(spec: WorkflowSpec) -> Mapping[str, Input]:
    """Give the declared inputs by name."""
    return {
        each.name: Input(
            name=each.name,
            type=each.type,
            is_required=each.is_required and not each.has_default,
            default=each.default if each.has_default else None,
            description=each.description,
        )
        for each in spec.inputs
    }


def check_defaults(spec: WorkflowSpec, problems: Problems) -> None:
    """Refuse a default that is not of its input's type."""
    inputs = make_inputs(spec)
    for each in spec.inputs:
        if each.has_default and (problem := inputs[each.name].problem(each.default)):
            tell(problems, (*each.at, "default"), problem)
