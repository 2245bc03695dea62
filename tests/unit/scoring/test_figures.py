"""Figures of a scored run."""

import pytest

from graphmill.scoring.figures import ScoredSample, figures_of


def samples(*values, outcome=None):
    return [
        ScoredSample(item_id=str(number), value=value, outcome=outcome or ("correct" if value else "wrong"))
        for number, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("left_out", "missing", "is_complete"), [(2, 0, True), (3, 0, False), (1, 2, False), (0, 0, True)]
)
def test_above_one_percent_without_a_score_the_figures_are_incomplete(left_out, missing, is_complete):
    lost = [ScoredSample(item_id=f"lost {number}", value=None, outcome="infrastructure") for number in range(left_out)]
    found = figures_of([*samples(*[1.0] * (200 - left_out)), *lost], scorer="s", missing=missing)
    assert found.is_complete is is_complete
    assert found.headline.items == 200 - left_out


def test_nothing_scored_has_no_figure():
    found = figures_of([], scorer="s")
    assert (found.headline, found.figures, str(found)) == (None, (), "nothing scored")


def test_scores_between_right_and_wrong_have_a_mean_and_no_figures_of_samples():
    each = [
        ScoredSample(item_id=item, value=value, outcome="graded")
        for item, value in (("a", 0.5), ("a", 1.0), ("b", 0.0), ("b", 0.0))
    ]
    found = figures_of(each, scorer="s")
    assert (found.headline.name, found.headline.value, found.figures) == ("mean", 0.375, ())


def test_items_with_fewer_samples_count_where_they_have_enough():
    full = [
        ScoredSample(item_id="a", value=float(number < 2), outcome="wrong", answer=str(number)) for number in range(4)
    ]
    short = [
        ScoredSample(item_id="b", value=1.0, outcome="correct"),
        ScoredSample(item_id="b", value=None, outcome="infrastructure"),
    ]
    figures = {
        figure.name: (figure.items, round(figure.value, 3))
        for figure in figures_of([*full, *short], scorer="s").figures
    }
    assert figures["maj@4"] == (1, 1.0)
    assert figures["pass@2"] == (1, 0.833)
    assert figures_of([*full, *short], scorer="s").headline.value == 0.75


def test_groups_are_in_order_of_their_values():
    each = [
        ScoredSample(item_id=str(number), value=1.0, outcome="correct", fields=(value,))
        for number, value in enumerate([10, 2, None, "hard", 2])
    ]
    found = figures_of(each, scorer="s", by=["level"]).groups
    assert [(group.value, group.figure.items) for group in found] == [(2, 2), (10, 1), ("hard", 1), (None, 1)]
