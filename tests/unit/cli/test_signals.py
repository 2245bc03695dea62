import asyncio
import signal

import pytest

from graphmill.cli import signals
from graphmill.cli.display import Display
from graphmill.cli.signals import ECHO_S, Interruption
from graphmill.datasets.sink import sink


class Left(Exception):  # noqa: N818
    pass


class Recorder:
    """A run and its loop: it notes what it was told."""

    drain_s = 25.0

    def __init__(self):
        self.drained = []

    def drain(self, within_s=None, *, because):
        assert because
        self.drained.append(within_s)

    def call_soon_threadsafe(self, act, *args):
        act(*args)


@pytest.fixture
def strike(monkeypatch, tmp_path):
    """Strikes at a time; after ``strike.watch()`` there is a run."""

    def leave(code):
        raise Left(code)

    monkeypatch.setattr(signals.os, "_exit", leave)
    now = 0.0
    recorder = Recorder()
    subject = Interruption(Display(), sink(tmp_path / "out.jsonl"), now=lambda: now)

    def strike(at, number=signal.SIGINT):
        nonlocal now
        now = at
        subject.on_signal(number, None)
        return recorder.drained

    def watch():
        monkeypatch.setattr(asyncio, "get_running_loop", lambda: recorder)
        subject.watch(recorder)

    strike.watch, strike.subject, strike.recorder = watch, subject, recorder
    return strike


def test_three_signals_drain_cancel_and_leave_with_the_code_of_the_first(strike):
    strike.watch()
    assert strike(10, signal.SIGTERM) == [None]
    assert strike(11) == [None, 0]
    with pytest.raises(Left, match="143"):
        strike(12)


def test_what_comes_right_after_a_signal_is_its_echo_whatever_its_name(strike):
    strike.watch()
    for at in (10, 10.001, 10 + 0.9 * ECHO_S):
        assert strike(at, signal.SIGHUP) == [None]
    assert strike(10 + 1.1 * ECHO_S) == [None, 0]
    assert strike(10 + 1.2 * ECHO_S) == [None, 0]
    assert strike.subject.exit_code == 129


def test_a_key_that_is_held_down_gets_through_all_three(strike):
    strike.watch()
    with pytest.raises(Left, match="130"):
        for tick in range(100):
            strike(10 + tick * 0.03)


def test_without_a_run_the_first_signal_leaves(strike):
    with pytest.raises(Left, match="143"):
        strike(0, signal.SIGTERM)


def test_after_the_run_a_signal_leaves_but_not_the_echo_of_the_one_that_ended_it(strike):
    strike.watch()
    strike(10, signal.SIGTERM)
    strike.subject.__exit__()
    strike(10 + 0.5 * ECHO_S)
    with pytest.raises(Left, match="143"):
        strike(10 + 2 * ECHO_S)


def test_a_signal_between_the_end_of_the_loop_and_the_end_of_the_run_is_remembered(strike, monkeypatch):
    def closed(*_):
        raise RuntimeError("Event loop is closed")

    strike.watch()
    monkeypatch.setattr(strike.recorder, "call_soon_threadsafe", closed)
    assert strike(10) == []
    assert strike.subject.exit_code == 130
