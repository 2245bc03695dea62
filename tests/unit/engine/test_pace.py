"""Pace: no minute, wherever it begins, holds more than are allowed."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.engine.pace import Limits, Pace


@given(st.integers(1, 200), st.lists(st.floats(0, 5), max_size=300))
def test_no_minute_holds_more_starts_than_are_allowed(allowed, waits):
    pace, now, starts = Pace(Limits(requests_per_minute=allowed)), 0.0, []
    for wait in waits:
        now = max(now + wait, pace.opens_at)
        pace.started(now, 0)
        starts.append(now)
    assert all(later - start >= 60 - 1e-6 for start, later in zip(starts, starts[allowed:], strict=False))


def test_a_busy_pace_is_the_limit():
    pace, now = Pace(Limits(requests_per_minute=30)), 0.0
    for _ in range(60):
        now = max(now, pace.opens_at)
        pace.started(now, 0)
    assert 117 < now < 119


def test_tokens_are_reserved_and_settled():
    pace = Pace(Limits(tokens_per_minute=600))
    pace.started(0.0, 100)
    assert pace.opens_at == 10
    pace.settled(100, 20)
    assert pace.opens_at == 2
    pace.settled(0, 50)
    assert pace.opens_at == 7


def test_without_limits_nothing_waits():
    pace = Pace(Limits(concurrency=3))
    pace.started(5.0, 10_000)
    assert pace.opens_at == 5


@pytest.mark.parametrize("seed", range(50))
def test_what_is_given_back_never_lets_more_be_sent_in_a_minute_than_allowed(seed):
    random, now, sent, under_way = Random(seed), 100.0, [], []
    pace = Pace(Limits(requests_per_minute=20))
    while len(sent) < 100:
        now = max(now, min([pace.opens_at, *(at for at, _ in under_way)]))  # nothing that may start waits
        for each in [each for each in under_way if each[0] <= now]:
            under_way.remove(each)
            pace.returned(each[1], 0)
        if pace.opens_at <= now:
            start = pace.started(now, 0)
            if random.random() < 0.2:
                under_way.append((now + random.choice([0.001, 10, 50]), start))
            else:
                sent.append(now)
    assert all(later - first >= 60 - 1e-6 for first, later in zip(sent, sent[20:], strict=False))


def test_a_start_that_asked_for_nothing_takes_no_time_and_no_tokens():
    pace = Pace(Limits(requests_per_minute=60, tokens_per_minute=60))
    for _ in range(100):
        pace.returned(pace.started(10.0, 30), 30)
    assert pace.opens_at == 10.0
