import re
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphmill as gm
from graphmill.journal.run_id import new_run_id, require_run_id

BEGAN = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
FIVE_LAST = BEGAN + 22 * 32**4 * 8
times = st.floats(0, BEGAN * 4)


def order(run_id):
    return len(run_id), run_id


@pytest.mark.parametrize(
    ("now", "run_id"),
    [
        (BEGAN, "a0000"),
        (BEGAN + 7.9, "a0000"),
        (BEGAN + 8, "a0001"),
        (BEGAN + 8 * 31, "a000z"),
        (BEGAN + 8 * 32, "a0010"),
        (BEGAN - 1, "a0000"),
        (0, "a0000"),
        (FIVE_LAST - 1, "zzzzz"),
        (FIVE_LAST, "a00000"),
    ],
)
def test_an_id_is_the_time_in_steps_of_eight_seconds(now, run_id):
    assert new_run_id(now, None) == run_id


def test_five_characters_last_until_november_2031():
    assert datetime.fromtimestamp(FIVE_LAST, UTC).strftime("%Y-%m") == "2031-11"


@pytest.mark.parametrize(
    ("newest", "run_id"),
    [("a0000", "a0001"), ("a000z", "a0010"), ("b5555", "b5556"), ("zzzzz", "a00000"), ("zzzzzz", "a000000")],
)
def test_two_runs_in_one_step_and_a_clock_set_back_give_the_id_after_the_newest(newest, run_id):
    assert new_run_id(BEGAN, newest) == run_id


@given(st.lists(times, max_size=20), st.sampled_from([None, "a0000", "zzzzy", "zzzzz", "zzzzzy"]))
def test_each_id_is_later_than_the_one_before_whatever_the_clock_does(clock, newest):
    for now in clock:
        run_id = new_run_id(now, newest)
        assert newest is None or order(run_id) > order(newest)
        assert order(run_id) >= order(new_run_id(now, None))
        newest = run_id


@given(times)
def test_an_id_begins_with_a_letter_has_none_that_is_misread_and_may_be_chosen(now):
    run_id = new_run_id(now, None)
    assert re.fullmatch(r"[a-hjkmnp-tv-z][0-9a-hjkmnp-tv-z]{4,5}", run_id)
    require_run_id(run_id)


@given(times, times)
def test_a_later_run_never_has_an_earlier_id(one, other):
    first, second = sorted((one, other))
    assert order(new_run_id(first, None)) <= order(new_run_id(second, None))


@pytest.mark.parametrize("newest", ["", "users-1", "a000", "0a000", "A0000", "a000i", "a0000\n"])
def test_an_id_that_was_not_made_here_is_not_the_newest(newest):
    with pytest.raises(ValueError, match="is not an id that was made here"):
        new_run_id(BEGAN, newest)


@pytest.mark.parametrize("text", ["a", "7", "users-1", "2026-01-01_a.b", "K7", "x" * 64])
def test_people_may_choose_letters_digits_and_a_few_signs(text):
    require_run_id(text)


@pytest.mark.parametrize("text", ["", "-a", ".a", "_a", "a b", "a/b", "a\n", "ä", "x" * 65, None, 7, b"a", "..", "a\0"])
def test_any_other_id_is_refused_with_the_rule_and_a_remedy(text):
    with pytest.raises(gm.UsageError, match=r"1 to 64 .*such as 'users-1', or leave it out"):
        require_run_id(text)
