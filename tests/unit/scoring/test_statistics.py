"""Statistics of scores. The expected values are those of scipy, statsmodels and scikit-learn."""

import random

import pytest

from graphmill.scoring.statistics import (
    agreement,
    bootstrap_interval,
    calibration,
    majority,
    pass_at_k,
    pass_hat_k,
    wilson_interval,
)


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (143, 162, 0.8240849444749194, 0.9236171131514994),
        (0, 10, 0.0, 0.27753279986288926),
        (10, 10, 0.7224672001371106, 1.0),
        (1, 3, 0.06149194472039626, 0.7923403991979523),
        (450, 1000, 0.4194153840742968, 0.4809672917742588),
    ],
)
def test_the_interval_of_a_share_is_that_of_statsmodels(successes, trials, low, high):
    assert wilson_interval(successes, trials) == pytest.approx((low, high), abs=1e-9)


def test_the_interval_of_a_share_has_a_level_and_is_everything_without_trials():
    expected = (0.8020835058423931, 0.9332328640153574)
    assert wilson_interval(143, 162, level=0.99) == pytest.approx(expected, abs=1e-9)
    assert wilson_interval(0, 0) == (0.0, 1.0)


def test_many_values_have_the_normal_interval_of_a_regression_on_a_constant():
    values = [(number * 37 % 101) / 100 for number in range(900)]
    assert bootstrap_interval(values) == pytest.approx((0.48086470717262414, 0.5190019594940428), abs=1e-9)


def test_many_clusters_have_the_cluster_robust_interval_of_statsmodels():
    values = [float(number * number * 7919 % 13 < 6) for number in range(3000)]
    clusters = [number * 31 // 50 % 600 for number in range(3000)]
    assert bootstrap_interval(values, clusters) == pytest.approx((0.37418811, 0.39447855), abs=1e-8)


def test_few_values_and_few_clusters_have_the_interval_of_a_long_bootstrap():
    values = [(number * 37 % 101) / 100 for number in range(60)]
    assert bootstrap_interval(values) == pytest.approx((0.4217, 0.5692), abs=0.01)
    values = [float(number * number * 7919 % 13 < 6) for number in range(200)]
    clusters = [int(number**0.5 * 3) for number in range(200)]
    assert bootstrap_interval(values, clusters) == pytest.approx((0.3143, 0.4670), abs=0.01)


def test_a_bootstrap_is_the_same_each_time_and_never_empty():
    values = [0.0, 0.5, 1.0, 0.25, 0.75]
    assert bootstrap_interval(values) == bootstrap_interval(values)
    assert bootstrap_interval([1.0] * 10) == wilson_interval(10, 10)
    assert bootstrap_interval([0.0] * 12, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]) == wilson_interval(0, 4)
    assert bootstrap_interval([0.0, 1.0], ["a", "a"]) == (0.0, 1.0)
    assert bootstrap_interval([]) == (0.0, 1.0)


def test_the_interval_over_items_holds_the_true_mean_as_often_as_it_says():
    """200 items of different difficulty, 8 samples of each. An interval over samples would hold it in 70 % of the cases."""
    chance = random.Random(7)
    held = 0
    for _ in range(100):
        values, clusters = [], []
        for item in range(200):
            difficulty = chance.betavariate(0.8, 0.8)
            values += [float(chance.random() < difficulty) for _ in range(8)]
            clusters += [item] * 8
        low, high = bootstrap_interval(values, clusters)
        held += low <= 0.5 <= high
    assert 0.92 <= held / 100 <= 0.98


@pytest.mark.parametrize(
    ("samples", "correct", "k", "any_right", "all_right"),
    [
        (10, 3, 1, 0.3, 0.3),
        (10, 3, 5, 0.9166666666666666, 0.0),
        (10, 0, 3, 0.0, 0.0),
        (10, 10, 3, 1.0, 1.0),
        (200, 37, 10, 0.8773745673794602, 1.5515124900677956e-08),
        (8, 6, 3, 1.0, 0.35714285714285715),
    ],
)
def test_the_chances_of_k_samples_are_hypergeometric(samples, correct, k, any_right, all_right):
    assert pass_at_k(samples, correct, k) == pytest.approx(any_right, abs=1e-12)
    assert pass_hat_k(samples, correct, k) == pytest.approx(all_right, abs=1e-12)


@pytest.mark.parametrize(
    ("answers", "is_correct", "chance"),
    [
        ("aab", (True, True, False), 1.0),
        ("abb", (True, False, False), 0.0),
        ("ab", (True, False), 0.5),
        (("1/2", "0.5", "x", "x", "x"), (True, True, False, False, False), 0.0),
        (("1/2", "0.5", "x"), (True, True, False), 1.0),
        (("a", None, None), (True, False, False), 1.0),
        ((None, None), (False, False), 0.0),
    ],
)
def test_the_most_frequent_answer_wins_and_right_ones_are_one_answer(answers, is_correct, chance):
    assert majority(answers, is_correct) == chance


def test_agreement_is_that_of_scikit_learn():
    rated = [number * 7 % 10 < 6 for number in range(50)]
    truth = [number * 3 % 10 < 7 for number in range(50)]
    found = agreement(rated, truth)
    assert (found.items, found.agreed, found.false_accept) == (50, 0.3, 1.0)
    assert found.kappa == pytest.approx(-0.5217391304347827)
    assert found.false_reject == pytest.approx(0.5714285714285714)


def test_agreement_without_a_difference_to_find_has_no_kappa_and_no_rates():
    found = agreement([True, True], [True, True])
    assert (found.agreed, found.kappa, found.false_accept, found.false_reject) == (1.0, None, None, 0.0)


def test_calibration_is_that_of_scikit_learn():
    confidences = [(number * 29 % 100) / 99.5 for number in range(80)]
    found = calibration(confidences, [number * 17 % 23 < 12 for number in range(80)])
    assert found.ece == pytest.approx(0.3326633165829146)
    assert found.brier == pytest.approx(0.35841203504961994)
    assert sum(each.items for each in found.bins) == found.items == 80
    assert calibration([], []) is None
