import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphmill as gm
from graphmill.engine.monitor.monitor import Latch, percent
from graphmill.engine.policy import require_share
from graphmill.engine.results.statistics import Share

hits = st.lists(st.booleans(), min_size=1, max_size=300)


def share_of(events, over=100):
    share = Share(over)
    for hit in events:
        share.add(hit=hit)
    return share


@given(hits, st.integers(1, 120))
def test_a_share_is_between_0_and_1_and_counts_up_to_its_bound(events, over):
    share = share_of(events, over)
    assert 0 <= share.value <= 1
    assert share.count == min(len(events), over)


@given(hits)
def test_the_first_events_make_the_plain_mean(events):
    assert share_of(events, over=300).value == pytest.approx(sum(events) / len(events))


@given(hits, st.booleans())
def test_a_change_is_followed_whatever_was_before(events, hit):
    changed = share_of([*events, *[hit] * 500])
    assert changed.value == pytest.approx(float(hit), abs=0.01)


def test_a_share_of_no_events_is_0():
    assert (Share().value, Share().count) == (0.0, 0)


@pytest.mark.parametrize("value", [None, 1, 1.0, 0.5, 1e-9])
def test_a_share_or_none_may_be_asked_for(value):
    require_share("memory", value)


@pytest.mark.parametrize("value", [0, -0.5, 1.01, True, False, "0.5", float("nan"), float("inf"), 10**400])
def test_what_is_no_share_is_refused(value):
    with pytest.raises(gm.UsageError, match="memory must be a share > 0 and <= 1, or None, got"):
        require_share("memory", value)


def test_a_share_is_told_in_percent():
    assert [percent(share) for share in (0.0, 0.05, 0.504, 2 / 3, 0.91, 0.99999, 1.0)] == [
        "0 %",
        "5 %",
        "50.4 %",
        "66.7 %",
        "91 %",
        "100 %",
        "100 %",
    ]


def test_a_latch_goes_on_above_its_high_mark_and_off_below_its_low_mark_and_tells_when_it_goes_on():
    latch = Latch(10, low_share=0.8)
    told = [(latch.feed(figure), latch.is_on) for figure in (10, 10.1, 12, 9, 8, 7.9, 9, 10, 11)]
    assert told == [
        (False, False),
        (True, True),
        (False, True),
        (False, True),
        (False, True),
        (False, False),
        (False, False),
        (False, False),
        (True, True),
    ]
