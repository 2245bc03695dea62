"""Pace: no minute, wherever it begins, holds more than are allowed."""

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
