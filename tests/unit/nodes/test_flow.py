"""The nodes that make up a workflow's flow."""

import asyncio

import pytest

from graphmill.core.errors import InternalError, Permanent
from graphmill.graph.node_type import Output
from support.node_steps import call_of, check, output_of_step, problem_of
from support.workflows import load_workflow, output_of

CASES = {"right": "keep", "wrong": "drop", "true": "yes", "3": "three", "2.5": "half", "null": "nothing", "": "empty"}


@pytest.mark.parametrize(
    ("on", "action"),
    [
        ("right", "keep"),
        (True, "yes"),
        ("true", "yes"),
        (3, "three"),
        (3.0, "three"),
        ("3", "three"),
        (2.5, "half"),
        (None, "nothing"),
        ("", "empty"),
        (False, "other"),
        ("True", "other"),
        ("3.0", "other"),
        (["right"], "other"),
        ({}, "other"),
    ],
)
def test_a_value_is_compared_by_its_json_text(on, action):
    assert output_of_step("branch", on=on, cases=CASES, default="other") == Output({"action": action}, action)


@pytest.mark.parametrize(("key", "on"), [(True, True), (True, "true"), (3, 3), (None, None), (2.5, 2.5)])
def test_keys_that_yaml_does_not_read_as_text_are_cases_too(key, on):
    assert output_of_step("branch", on=on, cases={key: "here"}).action == "here"


@pytest.mark.parametrize(("on", "shown"), [("maybe", '"maybe"'), (1, "1"), ("", '""'), ([1], "a value of type list")])
def test_a_value_without_a_case_or_default_fails_for_good_and_lists_the_cases(on, shown):
    with pytest.raises(Permanent) as caught:
        output_of_step("branch", on=on, cases={"yes": "a", "no": "b"})
    assert f"no case for {shown} among yes, no" in str(caught.value)


def test_a_branch_without_any_case_is_a_problem():
    assert problem_of("branch", on="${x}") == (
        ("cases",),
        "cases or default is required, otherwise every value fails",
    )
    check("branch", on="${x}", default="go")


def test_two_keys_that_are_the_same_text_are_a_problem():
    assert problem_of("branch", on="${x}", cases={True: "a", "true": "b"}) == (
        ("cases", "true"),
        "cases: 'true' and True are the same case",
    )


ENDS = {
    "right": "succeeded",
    "unsure": "partial",
    "half": {"flag": "partial", "reason": "half of it"},
    "wrong": {"status": "failed", "reason": "no"},
}


@pytest.mark.parametrize(
    ("on", "flag", "reason"), [("right", None, "why"), ("unsure", "partial", "why"), ("half", "partial", "half of it")]
)
def test_a_job_ends_well_with_the_flag_of_its_case_and_no_default_edge_fires(on, flag, reason):
    output = output_of_step("end", on=on, cases=ENDS, reason="why")
    assert output == Output(
        {"status": "succeeded", "flag": flag, "reason": reason}, "end", frozenset({flag} if flag else ())
    )


def test_a_failed_end_is_a_permanent_failure_with_its_reason():
    for params, message in (
        ({"on": "wrong", "cases": ENDS, "reason": "why"}, "no"),
        ({"on": "x", "cases": {"x": "failed"}, "reason": "why"}, "why"),
        ({"default": "failed"}, "the workflow ended it as failed"),
    ):
        with pytest.raises(Permanent) as caught:
            output_of_step("end", **params)
        assert str(caught.value) == message


def test_an_end_without_any_case_is_a_problem():
    assert problem_of("end", on="${x}")[0] == ("cases",)


def test_a_value_node_gives_its_params_as_they_are_resolved(tmp_path):
    text = """
    inputs: {it: {required: true}}
    nodes: [{id: v, type: value, params: {type: "${it}", "any key": {deep: ["x ${it}", 1.5, null, true]}}}]
    """
    assert output_of(load_workflow(tmp_path, text), 3) == {"type": 3, "any key": {"deep": ["x 3", 1.5, None, True]}}


def test_a_child_is_a_path_a_name_or_a_mapping():
    check("workflow", workflow="child.yaml", inputs={"a": "${b}"})
    check("workflow", workflow={"nodes": [{"id": "a", "type": "value", "params": {"x": "${y}"}}]}, inputs="${all}")
    for nothing in ("", {}):
        assert problem_of("workflow", workflow=nothing)[0] == ("workflow",)


def test_a_workflow_node_is_never_run_as_a_step():
    call = call_of("workflow", workflow="child.yaml")
    with pytest.raises(InternalError, match="was run as a step"):
        asyncio.run(call.function(call.value))
