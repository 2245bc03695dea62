"""Rate limiter: no minute, wherever it begins, holds more than are allowed."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.usage import RateLimit, RateLimits
from graphmill.engine.scheduling.rate_limits import Limits, RateLimiter


@given(st.integers(1, 200), st.lists(st.floats(0, 5), max_size=300))
def test_no_minute_holds_more_starts_than_are_allowed(allowed, waits):
    limiter, now, starts = RateLimiter(Limits(requests_per_minute=allowed)), 0.0, []
    for wait in waits:
        now = max(now + wait, limiter.opens_at())
        limiter.reserve(now, 0)
        starts.append(now)
    assert all(later - start >= 60.4 for start, later in zip(starts, starts[allowed:], strict=False))


CALL = st.tuples(st.floats(0, 5), st.integers(0, 900), st.floats(0, 1), st.floats(0, 20))


@given(st.integers(10, 600), st.lists(CALL, max_size=100))
def test_no_minute_holds_more_tokens_than_are_allowed_however_unlike_the_calls_are(allowed, calls):
    limiter, now, starts, ends = RateLimiter(Limits(tokens_per_minute=allowed)), 0.0, [], []
    for wait, wanted, part, takes in calls:
        most, now = min(wanted, allowed), now + wait
        while (at := limiter.opens_at(most)) > now:
            ends.sort(key=lambda end: end[0])
            now = min(at, ends[0][0]) if ends else at
            while ends and ends[0][0] <= now:
                limiter.settle(*ends.pop(0)[1:])
        used = int(most * part)
        starts.append((now, used))
        ends.append((now + takes, limiter.reserve(now, most), used))
    for begun, _ in starts:
        assert sum(used for at, used in starts if begun <= at < begun + 60) <= allowed


def test_a_busy_limiter_is_the_limit():
    limiter, now = RateLimiter(Limits(requests_per_minute=30)), 0.0
    for _ in range(60):
        now = max(now, limiter.opens_at())
        limiter.reserve(now, 0)
    assert 117 < now < 120


def test_starts_that_come_late_are_caught_up_with():
    limiter, now = RateLimiter(Limits(requests_per_minute=6000)), 0.0
    for _ in range(600):
        now = max(now, limiter.opens_at()) + 0.003
        limiter.reserve(now, 0)
    assert now < 6.2


def test_tokens_are_reserved_and_settled():
    limiter = RateLimiter(Limits(tokens_per_minute=600))
    reserved = limiter.reserve(0.1, 100)
    assert round(limiter.opens_at()) == 10
    limiter.settle(reserved, 20)
    assert round(limiter.opens_at()) == 2
    limiter.settle(limiter.reserve(0.1, 0), 50)
    assert round(limiter.opens_at()) == 7


def test_a_call_that_is_larger_than_a_whole_minute_allows_waits_for_an_empty_one_and_no_longer():
    limiter = RateLimiter(Limits(tokens_per_minute=600))
    limiter.reserve(0.0, 10)
    assert 60 <= limiter.opens_at(10_000) <= 61


def test_without_limits_nothing_waits():
    limiter = RateLimiter(Limits(concurrency=3))
    limiter.reserve(5.0, 10_000)
    assert limiter.opens_at() <= 5


@pytest.mark.parametrize("seed", range(50))
def test_what_is_given_back_never_lets_more_be_sent_in_a_minute_than_allowed(seed):
    random, now, sent, under_way = Random(seed), 100.0, [], []
    limiter = RateLimiter(Limits(requests_per_minute=20))
    while len(sent) < 100:
        now = max(now, min([limiter.opens_at(), *(at for at, _ in under_way)]))  # nothing that may start waits
        for each in [each for each in under_way if each[0] <= now]:
            under_way.remove(each)
            limiter.cancel(each[1])
        if limiter.opens_at() <= now:
            start = limiter.reserve(now, 0)
            if random.random() < 0.2:
                under_way.append((now + random.choice([0.001, 10, 50]), start))
            else:
                sent.append(now)
    assert all(later - first >= 60 - 1e-6 for first, later in zip(sent, sent[20:], strict=False))


def test_a_start_that_asked_for_nothing_takes_no_time_and_no_tokens():
    limiter = RateLimiter(Limits(requests_per_minute=60, tokens_per_minute=60))
    for _ in range(100):
        limiter.cancel(limiter.reserve(10.0, 30))
    assert limiter.opens_at(30) <= 10.0


class TestWhatAnAnswerSays:
    """Learned limits."""

    def test_nothing_starts_while_nothing_is_left(self):
        limiter = RateLimiter(Limits())
        reserved = limiter.reserve(0.0, 0)
        limiter.learn(RateLimits(requests=RateLimit(allowed=10, remaining=0, reset_s=12.0)), 1.0, reserved)
        limiter.settle(reserved, 0)
        assert limiter.opens_at() == 13.0
        limiter.reserve(13.0, 0)
        assert limiter.opens_at() <= 13.0

    def test_those_under_way_count_as_not_yet_counted(self):
        limiter = RateLimiter(Limits())
        first, _ = limiter.reserve(0.0, 0), limiter.reserve(0.0, 0)
        limiter.learn(RateLimits(requests=RateLimit(remaining=1, reset_s=5.0)), 1.0, first)
        assert limiter.opens_at() == 6.0

    def test_tokens_that_are_left_are_enough_for_a_small_call_and_not_for_a_large_one(self):
        limiter = RateLimiter(Limits())
        reserved = limiter.reserve(0.0, 0)
        limiter.learn(RateLimits(tokens=RateLimit(allowed=1000, remaining=600, reset_s=24.0)), 0.0, reserved)
        assert limiter.counts_tokens
        assert limiter.opens_at(600) == 0.0
        assert limiter.opens_at(601) == 24.0

    def test_the_first_half_may_be_used_at_once_and_the_rest_is_spread(self):
        limiter, now = RateLimiter(Limits()), 0.0
        limiter.learn(RateLimits(requests=RateLimit(allowed=60, remaining=60, reset_s=60.0)), now)
        starts = []
        for _ in range(60):
            now = max(now, limiter.opens_at())
            reserved = limiter.reserve(now, 0)
            limiter.settle(reserved, 0)
            starts.append(now)
        assert starts[29] == 0.0
        assert 25 < starts[-1] < 35

    def test_the_lower_of_what_is_set_and_what_is_learned_counts(self):
        told = RateLimits(requests=RateLimit(allowed=60, remaining=10, reset_s=50.0))
        fast, slow = RateLimiter(Limits(requests_per_minute=600)), RateLimiter(Limits(requests_per_minute=6))
        for limiter in (fast, slow):
            limiter.learn(told, 0.0)
            limiter.reserve(0.0, 0)
        assert round(fast.opens_at(), 1) == 1.0
        assert round(slow.opens_at()) == 10

    def test_a_limit_of_less_than_a_minute_is_not_taken_for_one_of_a_minute(self):
        limiter = RateLimiter(Limits())
        limiter.learn(RateLimits(requests=RateLimit(allowed=10, remaining=1, reset_s=0.9)), 0.0)
        limiter.reserve(0.0, 0)
        assert limiter.opens_at() == 0.9

    def test_what_is_back_only_tomorrow_closes_nothing(self):
        limiter = RateLimiter(Limits())
        limiter.learn(RateLimits(requests=RateLimit(allowed=10_000, remaining=0, reset_s=40_000.0)), 0.0)
        assert limiter.opens_at() == 0.0
