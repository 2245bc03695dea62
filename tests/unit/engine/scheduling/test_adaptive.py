from random import Random

import pytest
from benchmarks.adaptive import oracle_rate, outcome
from benchmarks.servers import SEVEN, Answer, Knee
from benchmarks.simulation import WARM_UP_S, simulate
from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.result import Kind
from graphmill.engine.scheduling.adaptive import Controller

kinds = st.sampled_from([None, None, None, *Kind])
waits = st.sampled_from([None, 0.0, 0.5, 30.0, 7200.0])
events = st.lists(st.tuples(st.booleans(), kinds, waits, st.floats(0.0, 90.0)), max_size=400)


class Drive:
    """Keeps a controller's limit in use, and ends all calls of a generation the same way."""

    def __init__(self, ceiling):
        self.controller = Controller(ceiling=ceiling)
        self.now = 0.0

    def generations(self, count, kind=None, *, retry_after_s=None, latency_s=1.0, used=1.0):
        for _ in range(count):
            self.now = max(self.now, self.controller.gated_until)
            stamps = [self.controller.started(self.now) for _ in range(max(1, int(self.controller.limit * used)))]
            self.now += latency_s
            for stamp in stamps:
                self.controller.ended(stamp, self.now, kind, retry_after_s)
        return self.controller


@pytest.mark.parametrize("seed", [100, 101])
@pytest.mark.parametrize("name", SEVEN)
def test_each_server_is_used_nearly_as_well_as_by_a_client_that_knows_it(name, seed):
    found = outcome(name, seed)
    assert found.rate(WARM_UP_S) >= 0.85 * oracle_rate(name)
    assert found.throttled_share <= 0.015
    assert found.settled_s(oracle_rate(name)) <= 60


def test_a_server_that_merely_queues_is_not_driven_to_the_ceiling():
    found = simulate(Knee(knee=24, exponent=1.0), Controller(ceiling=1000), Random(1))
    assert found.last_limit < 100
    assert found.rate(WARM_UP_S) >= 0.95 * 24


@given(st.integers(1, 300), events)
def test_the_limit_and_the_gate_stay_within_bounds_whatever_happens(ceiling, given_events):
    controller, running, now = Controller(ceiling=ceiling), [], 0.0
    for is_start, kind, wait, pause in given_events:
        now += pause
        if is_start or not running:
            running.append(controller.started(now))
        else:
            controller.ended(running.pop(0), now, kind, wait)
        assert 1 <= controller.limit <= ceiling
        assert controller.gated_until <= now + 60


@given(st.integers(5, 300), st.floats(0.0, 0.74), st.floats(0.001, 60.0))
def test_a_limit_that_is_not_used_never_grows(ceiling, used, latency_s):
    drive = Drive(ceiling)
    limit = drive.controller.limit
    assert drive.generations(200, used=used, latency_s=latency_s).limit == limit


def test_a_limit_that_is_no_longer_used_at_most_ends_the_step_it_was_taking():
    drive = Drive(1000)
    limit = drive.generations(20).limit
    assert drive.generations(200, used=0.4).limit <= 2 * limit


def test_a_server_without_limits_is_driven_to_the_ceiling():
    assert Drive(1000).generations(60).limit == 1000


@pytest.mark.parametrize("kind", [None, Kind.THROTTLED, Kind.TRANSIENT])
def test_a_ceiling_of_one_is_a_limit_of_one(kind):
    assert Drive(1).generations(200, kind).limit == 1


def test_if_everything_is_throttled_one_call_at_a_time_asks_again_and_the_limit_recovers_with_the_server():
    drive = Drive(200)
    before = drive.generations(30).limit
    assert drive.generations(200, Kind.THROTTLED, retry_after_s=1.0, latency_s=0.05).limit == 1
    assert drive.generations(60).limit > before / 2


@pytest.mark.parametrize("kind", [Kind.TRANSIENT, Kind.PERMANENT, Kind.TIMEOUT, Kind.CANCELLED])
def test_other_failures_say_nothing_about_the_limit(kind):
    drive = Drive(200)
    limit = drive.generations(20).limit
    assert drive.generations(200, kind).limit == limit


def test_calls_that_started_before_a_cut_do_not_cut_again():
    drive = Drive(64)
    controller = drive.generations(40)
    stamps = [controller.started(drive.now) for _ in range(64)]
    for stamp in stamps:
        controller.ended(stamp, drive.now + 0.05, Kind.THROTTLED, 1.0)
    assert controller.limit == int(0.7 * 64)


def test_a_single_throttle_neither_cuts_nor_gates():
    drive = Drive(64)
    limit = drive.generations(40).limit
    controller = drive.generations(1, used=1 / 64, kind=Kind.THROTTLED, retry_after_s=30.0)
    assert (controller.limit, controller.gated_until) == (limit, 0.0)


def test_the_gate_is_the_servers_word_but_at_most_a_minute():
    for retry_after_s, gate_s in [(None, 0), (3.0, 3), (7200.0, 60)]:
        drive = Drive(64)
        controller = drive.generations(40)
        stamps = [controller.started(drive.now) for _ in range(64)]
        for stamp in stamps:
            controller.ended(stamp, drive.now, Kind.THROTTLED, retry_after_s)
        controller.started(drive.now)
        assert controller.gated_until - drive.now == gate_s


@pytest.mark.parametrize(("kind", "gate_s"), [(None, -105.0), (Kind.THROTTLED, 30.0), (Kind.TRANSIENT, 20.0)])
def test_one_goes_through_a_gate_and_opens_it_if_it_is_answered(kind, gate_s):
    controller, now = Controller(ceiling=8), 95.0
    for stamp in [controller.started(now) for _ in range(8)]:
        controller.ended(stamp, now, Kind.THROTTLED, 30.0)
    assert controller.gated_until <= now
    probe = controller.started(now)
    assert controller.gated_until == now + 30
    controller.ended(probe, now + 10, kind, 30.0)
    assert controller.gated_until == now + 10 + gate_s


def test_what_starts_after_a_gate_is_no_probe_of_it():
    controller = Controller(ceiling=8)
    for stamp in [controller.started(0.0) for _ in range(8)]:
        controller.ended(stamp, 0.0, Kind.THROTTLED, 30.0)
    controller.ended(controller.started(31.0), 31.0, Kind.THROTTLED, 30.0)
    assert controller.gated_until <= 31.0


def test_the_reason_says_in_words_why_the_limit_was_changed():
    drive = Drive(64)
    assert drive.generations(10).reason == "found free room"
    assert drive.generations(1, Kind.THROTTLED).reason.startswith("throttled ")
    controller = Controller(ceiling=256)
    reasons = set()

    class Watched(Knee):
        def call(self, now: float, random: Random) -> Answer:
            reasons.add(controller.reason)
            return super().call(now, random)

    simulate(Watched(), controller, Random(1))
    assert any(reason.startswith("no faster above ") for reason in reasons)
