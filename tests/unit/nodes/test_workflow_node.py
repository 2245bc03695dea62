import asyncio

import pytest

from graphmill.core.errors import InternalError
from support.node_steps import call_of, check, problem_of


def test_a_child_is_a_path_a_name_or_a_mapping():
    check("workflow", workflow="child.yaml", inputs={"a": "${b}"})
    check("workflow", workflow={"nodes": [{"id": "a", "type": "value", "params": {"x": "${y}"}}]}, inputs="${all}")
    for nothing in ("", {}):
        assert problem_of("workflow", workflow=nothing)[0] == ("workflow",)


def test_a_workflow_node_is_never_run_as_a_step():
    call = call_of("workflow", workflow="child.yaml")
    with pytest.raises(InternalError, match="was run as a step"):
        asyncio.run(call.function(call.value))
