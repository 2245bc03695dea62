import pytest

import graphmill as gm


@pytest.mark.parametrize(
    ("status", "is_success", "is_failure"),
    [
        ("succeeded", True, False),
        ("failed", False, True),
        ("timed_out", False, True),
        ("cancelled", False, False),
        ("pending", False, False),
    ],
)
def test_a_result_says_whether_it_succeeded_or_failed(status, is_success, is_failure):
    result = gm.Result(job_id="a", position=0, status=gm.Status(status), input=None)
    assert (result.is_success, result.is_failure) == (is_success, is_failure)


@pytest.mark.parametrize(
    ("kind", "retryable"),
    [("throttled", True), ("transient", True), ("timeout", True), ("permanent", False), ("cancelled", False)],
)
def test_a_failure_says_whether_another_attempt_may_go_better(kind, retryable):
    assert gm.Failure(kind=gm.Kind(kind), message="", type="").retryable is retryable


def test_a_result_can_not_be_changed():
    result = gm.Result(job_id="a", position=0, status=gm.Status.SUCCEEDED, input=None)
    with pytest.raises(AttributeError):
        result.output = 1
