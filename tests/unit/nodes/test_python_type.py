import importlib
import os

import pytest

from graphmill.core.fingerprint import function_fingerprint
from graphmill.graph.registry import find_node_type
from support.node_steps import call_of, problem_of, result_of_step

# --- functions ---


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_on_request_a_function_runs_in_a_worker_process(module, kind):
    name = module(f"""
        import os
        {kind} f(it): return [it, os.getpid()]
    """)
    it, pid = result_of_step("python", function=f"{name}:f", inputs={"it": 5}, isolation="process").output["result"]
    assert it == 5
    assert pid != os.getpid()


def test_a_limit_of_the_params_is_told_to_the_engine(module):
    name = module("def f(): return 1")
    assert call_of("python", function=f"{name}:f", timeout=2.5).timeout_s == 2.5
    assert call_of("python", function=f"{name}:f", timeout=2, isolation="process")[2:] == ("process", 2)
    assert call_of("code", code="result = 1", timeout=2)[2:] == ("process", 2)


def test_a_function_s_fingerprint_is_its_own_and_code_s_is_among_its_params(module):
    name = module("def f(): return 1")
    python = find_node_type("python")
    assert python.fingerprint({"function": f"{name}:f"}) == function_fingerprint(importlib.import_module(name).f)
    assert python.fingerprint({"code": "result = 1"}) == ""


# --- what is found when the workflow is compiled ---


def test_one_of_code_and_function_is_wanted():
    assert problem_of("python") == ((), "code or function is required")
    assert problem_of("python", code="result = 1", function="json:loads") == (
        (),
        "give either code or function, not both",
    )
