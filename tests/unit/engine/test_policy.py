import pytest

import graphmill as gm


@pytest.mark.parametrize("value", [0, -1, True, False, 2.0, "8", float("nan")])
def test_a_concurrency_that_is_no_whole_number_above_zero_is_refused(value):
    with pytest.raises(gm.UsageError, match="concurrency must be an integer >= 1"):
        gm.Policy(concurrency=value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"timeout_s": 0}, "timeout_s must be a number of seconds > 0"),
        ({"timeout_s": float("inf")}, "timeout_s"),
        ({"job_timeout_s": -1}, "job_timeout_s"),
        ({"batch_timeout_s": True}, "batch_timeout_s"),
        ({"on_failure": "stop"}, "on_failure must be one of continue, fail_fast"),
        ({"max_failures": -1}, "max_failures"),
        ({"max_failures": True}, "max_failures"),
        ({"max_failures": 0.0}, "max_failures"),
        ({"max_failures": 1.5}, "max_failures"),
        ({"max_failures": 3, "on_failure": "fail_fast"}, "leave one out"),
        ({"window": 5, "concurrency": 6}, "raise the window"),
        ({"window": 0}, "window must be an integer"),
        ({"retry": 3}, "retry must be a Retry, got 3; for example gm.Retry"),
        ({"guards": 0.9}, "guards must be a Guards, got 0.9; for example gm.Guards"),
        ({"alerts": True}, "alerts must be a Alerts"),
        ({"adaptive": "yes"}, "adaptive must be True, False or None"),
        ({"drain_s": -1}, "drain_s must be a number of seconds >= 0"),
        ({"park_after_s": -1}, "park_after_s must be a number of seconds"),
        ({"isolation": "thread"}, "isolation must be one of process"),
        ({"classify": "transient"}, "classify must be a function"),
        ({"grace_s": -1}, "grace_s"),
    ],
)
def test_a_policy_that_can_not_be_meant_is_refused_when_it_is_made(arguments, message):
    with pytest.raises(gm.UsageError, match=message):
        gm.Policy(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attempts": 0}, "attempts must be an integer"),
        ({"wait_s": -1}, "wait_s"),
        ({"backoff": "quadratic"}, "backoff must be one of fixed, linear, exponential"),
        ({"wait_s": 10, "cap_s": 5}, "raise cap_s"),
        ({"jitter": 1}, "jitter must be True or False"),
        ({"throttle_budget_s": "15"}, "throttle_budget_s"),
    ],
)
def test_a_retry_that_can_not_be_meant_is_refused_when_it_is_made(arguments, message):
    with pytest.raises(gm.UsageError, match=message):
        gm.Retry(**arguments)


def test_the_defaults_are_ten_at_once_three_attempts_and_five_minutes():
    policy = gm.Policy()
    assert (policy.slots, policy.retry.attempts, policy.timeout_s) == (10, 3, 300)


def test_the_window_is_a_thousand_or_twice_the_concurrency():
    assert gm.Policy().window_for(10) == 1000
    assert gm.Policy().window_for(5000) == 10_000
    assert gm.Policy(window=20).window_for(10) == 20


@pytest.mark.parametrize(
    ("arguments"),
    [{"id": 7, "graph": print}, {"id": "a", "graph": "x.yaml"}, {"id": "a", "graph": print, "priority": 1.5}],
)
def test_a_job_that_can_not_be_meant_is_refused_where_it_is_made(arguments):
    with pytest.raises(gm.UsageError):
        gm.Job(**arguments)
