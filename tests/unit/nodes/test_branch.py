import pytest

from graphmill.core.errors import Permanent
from graphmill.graph.node_type import Output
from support.node_steps import check, output_of_step, problem_of

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
    assert str(caught.value) == f"no case for {shown}; there are yes, no; add that case or a default"


def test_a_branch_without_any_case_is_a_problem():
    assert problem_of("branch", on="${x}") == (
        ("cases",),
        "cases or a default is missing: without them every value fails",
    )
    check("branch", on="${x}", default="go")


def test_two_keys_that_are_the_same_text_are_a_problem():
    assert problem_of("branch", on="${x}", cases={True: "a", "true": "b"}) == (
        ("cases", "true"),
        "cases: 'true' and True are the same case",
    )
