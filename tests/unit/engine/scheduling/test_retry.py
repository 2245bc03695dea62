from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from graphmill.core.result import Failure, Kind
from graphmill.engine.policy import Retry
from graphmill.engine.scheduling.retry import Tries

retries = st.builds(
    Retry,
    attempts=st.integers(1, 10),
    wait_s=st.floats(0, 30),
    backoff=st.sampled_from(["fixed", "linear", "exponential"]),
    cap_s=st.floats(30, 120),
    jitter=st.booleans(),
)


def failure(kind=Kind.TRANSIENT, retry_after_s=None):
    return Failure(kind=kind, message="x", type="X", retry_after_s=retry_after_s)


def wait(
    retry, *, kind=Kind.TRANSIENT, tries=1, throttles=0, throttled_s=0.0, crashes=1, retry_after_s=None, seed=0
):  # counts include the failure
    before = Tries(retry, Random(seed), refusals=0, crashes=crashes - (kind is Kind.CRASH))
    before.throttles = throttles - (kind is Kind.THROTTLED)
    before.throttled_s = throttled_s
    return before.next_wait_s(failure(kind, retry_after_s), tries + throttles, 0.0, is_probe=False)


@given(retries, st.integers(1, 100), st.integers(0, 1000))
def test_a_wait_is_never_below_the_given_one_nor_above_the_cap(retry, tries, seed):
    assume(tries < retry.attempts)
    assert retry.wait_s <= wait(retry, tries=tries, seed=seed) <= retry.cap_s + 1e-9


@given(retries, st.integers(1, 9), st.floats(0, 10_000), st.integers(0, 1000))
def test_retry_after_is_honoured_even_above_the_cap(retry, tries, retry_after_s, seed):
    assume(tries < retry.attempts)
    assert wait(retry, tries=tries, retry_after_s=retry_after_s, seed=seed) >= retry_after_s


@given(retries, st.integers(1, 20))
def test_there_are_as_many_attempts_as_allowed(retry, tries):
    assert (wait(retry, tries=tries) is None) == (tries >= retry.attempts)


@pytest.mark.parametrize("kind", [Kind.PERMANENT, Kind.CANCELLED])
def test_what_will_not_go_well_is_not_tried_again(kind):
    assert wait(Retry(attempts=10), kind=kind) is None


def test_waits_grow_as_the_backoff_says():
    def waits(backoff):
        retry = Retry(attempts=10, wait_s=1, backoff=backoff, cap_s=6, jitter=False)
        return [wait(retry, tries=tries) for tries in range(1, 5)]

    assert waits("fixed") == [1, 1, 1, 1]
    assert waits("linear") == [1, 2, 3, 4]
    assert waits("exponential") == [1, 2, 4, 6]


def test_jitter_spreads_waits_also_at_the_cap():
    retry = Retry(attempts=100, wait_s=1, cap_s=60)
    at_the_cap = {wait(retry, tries=50, seed=seed) for seed in range(50)}
    assert len(at_the_cap) == 50
    assert min(at_the_cap) >= 40


@given(st.integers(1, 10_000), st.floats(0, 2000))
def test_throttles_use_up_time_not_attempts(throttles, throttled_s):
    retry = Retry(attempts=1, throttle_budget_s=900)
    waited = wait(retry, kind=Kind.THROTTLED, tries=0, throttles=throttles, throttled_s=throttled_s)
    if waited is None:
        assert throttled_s > 899
    else:
        assert throttled_s + waited <= 900


def test_a_wait_that_the_throttle_budget_has_no_room_for_is_cut_to_what_is_left():
    retry = Retry(throttle_budget_s=900)
    assert wait(retry, kind=Kind.THROTTLED, throttles=1, retry_after_s=36_000) == 900
    assert wait(retry, kind=Kind.THROTTLED, throttles=2, throttled_s=890.0, retry_after_s=36_000) == 10
    assert wait(retry, kind=Kind.THROTTLED, throttles=3, throttled_s=900.0, retry_after_s=1) is None


def test_an_item_that_crashes_its_worker_three_times_is_poison_however_many_attempts_there_are():
    def crash(crashes):
        return wait(Retry(attempts=10), kind=Kind.CRASH, tries=5, crashes=crashes)

    assert [crash(count) is None for count in (1, 2, 3, 4)] == [False, False, True, True]
    assert wait(Retry(attempts=2), kind=Kind.CRASH, tries=2) is None


def test_earlier_crashes_do_not_end_what_fails_otherwise():
    assert wait(Retry(attempts=10), tries=5, crashes=3) is not None
