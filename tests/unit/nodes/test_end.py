import pytest

from graphmill.core.errors import Permanent
from graphmill.graph.node_type import Output
from support.node_steps import output_of_step, problem_of

CASES = {
    "right": "succeeded",
    "unsure": "partial",
    "half": {"flag": "partial", "reason": "half of it"},
    "wrong": {"status": "failed", "reason": "no"},
}


@pytest.mark.parametrize(
    ("on", "flag", "reason"), [("right", None, "why"), ("unsure", "partial", "why"), ("half", "partial", "half of it")]
)
def test_a_job_ends_well_with_the_flag_of_its_case_and_no_default_edge_fires(on, flag, reason):
    output = output_of_step("end", on=on, cases=CASES, reason="why")
    assert output == Output(
        {"status": "succeeded", "flag": flag, "reason": reason}, "end", frozenset({flag} if flag else ())
    )


def test_a_failed_end_is_a_permanent_failure_with_its_reason():
    for params, message in (
        ({"on": "wrong", "cases": CASES, "reason": "why"}, "no"),
        ({"on": "x", "cases": {"x": "failed"}, "reason": "why"}, "why"),
        ({"default": "failed"}, "the workflow ended it as failed"),
    ):
        with pytest.raises(Permanent) as caught:
            output_of_step("end", **params)
        assert str(caught.value) == message


def test_a_value_without_a_case_fails_for_good():
    with pytest.raises(Permanent, match='no case for "other"; there are right, unsure, half, wrong'):
        output_of_step("end", on="other", cases=CASES)


def test_an_end_without_any_case_is_a_problem():
    assert problem_of("end", on="${x}")[0] == ("cases",)
