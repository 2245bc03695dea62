"""What a run lets others see of its waits, and how often."""

import time
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from graphmill.core.result import Failure, Kind
from graphmill.engine.monitor.monitor import Monitor
from graphmill.engine.policy import Policy
from graphmill.engine.results.statistics import Tally
from graphmill.engine.scheduling.scheduler import Holds
from support.driving import Calm

NOON = time.mktime((2026, 11, 16, 12, 0, 0, 0, 0, -1))


@dataclass
class Run:
    """A run as its monitor sees it: what its calls wait for, how many run, and what it has noted."""

    lane: SimpleNamespace | None = None
    running: int = 0
    stop_failure: Failure | None = None
    noted: list = field(default_factory=list)

    # What it asks of scheduler, figures, audience and recorder.
    holds: Holds = field(default_factory=Holds)
    active = 1
    lanes = ()
    tally = Tally()

    def waiting_lane(self, _now):
        return self.lane

    def mark(self, *_):
        pass

    def report_progress(self, _read):
        pass

    def note(self, **news):
        self.noted.append(news)

    def wait_for(self, what, next_s=None):
        self.lane = SimpleNamespace(waits=what, next_s=next_s)


@pytest.fixture
def run():
    return Run()


@pytest.fixture
def monitor(run):
    options = SimpleNamespace(policy=Policy(), machine=Calm(), wall=lambda: NOON)
    return Monitor(run, run, run, run, run, options, now=0.0)


def test_a_wait_is_noted_with_its_end_on_the_clock_it_was_given_and_taken_back_when_it_is_over(run, monitor):
    run.wait_for("m: waits for its limit", 90.0)
    monitor.look(2.0)
    run.lane = None
    monitor.look(4.0)
    assert run.noted == [{"waits": "m: waits for its limit, next at 12:01:30"}, {"waits": ""}]


def test_a_wait_that_is_short_or_of_unknown_length_has_no_end(run, monitor):
    run.wait_for("m: waits", 1.9)
    monitor.look(2.0)
    run.wait_for("n: waits")
    monitor.look(4.0)
    assert run.noted == [{"waits": "m: waits"}, {"waits": "n: waits"}]


def test_it_is_noted_at_most_every_two_seconds_and_not_again_while_it_is_the_same(run, monitor):
    for tenth in range(100):
        run.wait_for(f"wait {tenth}")
        monitor.look(tenth / 10)
    assert [news["waits"] for news in run.noted] == ["wait 20", "wait 40", "wait 60", "wait 80"]
    for tenth in range(100, 200):
        monitor.look(tenth / 10)
    assert run.noted[4:] == [{"waits": "wait 99"}]


def test_that_a_run_is_drained_is_noted_at_once_and_then_how_many_still_run(run, monitor):
    run.running, run.stop_failure = 3, Failure(kind=Kind.PAUSED, message="stopped by Ctrl-C", type="Paused")
    monitor.note_draining(0.5)
    monitor.note_draining(0.6)
    run.running = 1
    monitor.look(3.0)
    assert run.noted == [
        {"state": "stopping"},
        {"waits": "3 running; stopped by Ctrl-C"},
        {"waits": "1 running; stopped by Ctrl-C"},
    ]
