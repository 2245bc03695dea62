"""The circuit breaker, driven by hand: every transition, and that nothing else moves it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.result import Failure, Kind
from graphmill.engine.scheduling.health import Health, HealthState


def failed(kind, message="no credit"):
    return Failure(kind=kind, message=message, type="graphmill.X")


DOWN = failed(Kind.UNAVAILABLE)


def opened(*, park_after_s=60.0):
    health = Health(park_after_s)
    health.ended(DOWN, 100.0, is_probe=False)
    return health


def probe(health, failure):
    """Let a probe start when it may, and end at once; give the time."""
    now = health.opens_at()
    assert health.started()
    health.ended(failure, now, is_probe=True)
    return now


def test_while_all_is_well_everything_may_start_and_nothing_is_a_probe():
    health = Health(60.0)
    for failure in (
        None,
        failed(Kind.TRANSIENT),
        failed(Kind.PERMANENT),
        failed(Kind.THROTTLED),
        failed(Kind.TIMEOUT),
        failed(Kind.CRASH),
    ):
        assert health.opens_at() == 0.0
        assert health.started() is False
        health.ended(failure, 1.0, is_probe=False)
    assert (health.state, health.reason) == (HealthState.CLOSED, "")


def test_one_attempt_that_finds_its_dependency_unavailable_opens_it_for_a_second():
    health = opened()
    assert (health.state, health.reason, health.opens_at()) == (HealthState.OPEN, "no credit", 101.0)


def test_attempts_that_had_started_before_do_not_move_an_open_one():
    health = opened()
    for failure in (None, DOWN, failed(Kind.PERMANENT)):
        health.ended(failure, 100.5, is_probe=False)
    assert (health.state, health.opens_at()) == (HealthState.OPEN, 101.0)


def test_one_probe_at_a_time():
    health = opened()
    assert health.started()
    assert (health.state, health.opens_at()) == (HealthState.HALF_OPEN, None)


@pytest.mark.parametrize("answer", [None, failed(Kind.PERMANENT), failed(Kind.TRANSIENT), failed(Kind.THROTTLED)])
def test_a_probe_that_is_answered_closes_it(answer):
    health = opened()
    probe(health, answer)
    assert (health.state, health.reason, health.opens_at()) == (HealthState.CLOSED, "", 0.0)


@pytest.mark.parametrize("kind", [Kind.CANCELLED, Kind.PAUSED, Kind.CRASH])
def test_a_probe_that_was_cut_short_says_nothing_and_another_may_start_at_once(kind):
    health = opened()
    now = probe(health, failed(kind))
    assert (health.state, health.opens_at()) == (HealthState.OPEN, now)


@pytest.mark.parametrize("failure", [DOWN, failed(Kind.TIMEOUT)])
def test_failed_probes_come_ever_less_often_and_after_a_minute_it_is_parked(failure):
    health = opened()
    times = []
    while health.state is HealthState.OPEN:
        times.append(probe(health, failure) - 100.0)
    assert times == [1.0, 3.0, 7.0, 15.0, 30.0, 45.0, 60.0]
    assert (health.state, health.opens_at()) == (HealthState.GIVEN_UP, None)
    assert health.reason == "no credit (no probe succeeded for 60 s)"


def test_without_patience_the_first_failed_probe_parks_it():
    health = opened(park_after_s=0.0)
    probe(health, DOWN)
    assert health.state is HealthState.GIVEN_UP


def test_the_time_starts_anew_after_it_was_well_again():
    health = opened()
    probe(health, DOWN)
    probe(health, None)
    health.ended(DOWN, 500.0, is_probe=False)
    assert (health.since, health.opens_at()) == (500.0, 501.0)


def test_what_is_parked_stays_so():
    health = opened()
    assert health.started()
    health.give_up("given up")
    for failure in (None, DOWN):
        health.ended(failure, 200.0, is_probe=True)
    assert (health.state, health.reason, health.opens_at()) == (HealthState.GIVEN_UP, "given up", None)


@given(st.lists(st.tuples(st.sampled_from([None, *Kind]), st.floats(0, 5)), max_size=60))
def test_whatever_comes_at_most_one_attempt_runs_while_it_is_not_closed(steps):
    health, now, probes = Health(10.0), 0.0, 0
    for kind, wait_s in steps:
        now += wait_s
        at = health.opens_at()
        if at is not None and at <= now and health.started():
            probes += 1
            assert health.opens_at() is None
            health.ended(None if kind is None else failed(kind), now, is_probe=True)
        else:
            health.ended(None if kind is None else failed(kind), now, is_probe=False)
        assert health.state is not HealthState.HALF_OPEN
        assert (health.reason == "") is (health.state is HealthState.CLOSED)
