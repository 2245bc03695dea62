import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphmill as gm
from graphmill.engine.monitor.machine import Reading
from graphmill.engine.monitor.monitor import LOW_WATER, Guard
from graphmill.engine.policy import Guards

shares = st.floats(0, 1)
marks = st.none() | st.floats(0.01, 1)


def reading(memory=0.0, cpu=0.0):
    return Reading(memory=memory, cpu=cpu)


def reasons(guards, *, memory):
    guard = Guard(guards)
    return [guard.judge(reading(share)) for share in memory]


def test_a_pause_lasts_from_above_the_high_water_mark_until_below_the_low_one_and_tells_the_newest_share():
    assert reasons(Guards(memory=0.8), memory=[0.79, 0.91, 0.95, 0.75, 0.71, 0.75, 0.81]) == [
        None,
        "memory 91 % in use, above 80 %",
        "memory 95 % in use, above 80 %",
        "memory 75 % in use, not yet below 72 %",
        None,
        None,
        "memory 81 % in use, above 80 %",
    ]


def test_a_reason_names_all_that_is_too_full():
    guard = Guard(Guards(memory=0.85, cpu=0.9))
    assert guard.judge(reading(memory=0.9, cpu=0.95)) == "memory 90 % in use, above 85 %; CPU 95 % in use, above 90 %"
    assert guard.judge(reading(memory=0.1, cpu=0.95)) == "CPU 95 % in use, above 90 %"


@given(marks, marks, st.lists(st.tuples(shares, shares)))
def test_never_paused_below_the_low_water_marks_and_always_above_a_high_one(memory, cpu, history):
    guard = Guard(Guards(memory=memory, cpu=cpu))
    for used in history:
        is_paused = guard.judge(reading(*used)) is not None
        kept = [(share, high) for share, high in zip(used, (memory, cpu), strict=True) if high is not None]
        if all(share < LOW_WATER * high for share, high in kept):
            assert not is_paused
        if any(share > high for share, high in kept):
            assert is_paused


def test_by_default_only_memory_is_guarded():
    assert (Guards().memory, Guards().cpu, Guards().worker_memory_bytes) == (0.85, None, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"memory": 0}, "memory must be a share > 0 and <= 1"),
        ({"memory": 85}, r"for 85 % write 0\.85"),
        ({"cpu": True}, "cpu must be a share"),
        ({"worker_memory_bytes": True}, "worker_memory_bytes must be a number of bytes"),
        ({"worker_memory_bytes": 5e8}, "worker_memory_bytes must be a number of bytes"),
        ({"worker_memory_bytes": -1}, "1_000_000, got -1$"),
        ({"worker_memory_bytes": 512}, "for 512 MB write 512_000_000"),
    ],
)
def test_guards_that_can_not_be_meant_are_refused_when_they_are_made(arguments, message):
    with pytest.raises(gm.UsageError, match=message):
        Guards(**arguments)
