"""The scorers that need no model, and how scorers are found."""

import pytest

import graphmill as gm
from graphmill.core.errors import Permanent
from graphmill.scoring.scorer import find_scorer, find_scorers


def score(spec, answer, target=None, problem=None):
    scorer = find_scorer(spec)
    return scorer.score({"answer": answer, "target": target, "problem": problem})


def score_returned(value):
    def mine(answer):
        return value

    return find_scorer(mine).score({"answer": "a"})


@pytest.mark.parametrize(
    ("spec", "answer", "target", "outcome"),
    [
        ("exact", " yes\n", "yes", "correct"),
        ("exact", "Yes", "yes", "wrong"),
        ("exact?ignore_case=true", "Yes", "yes", "correct"),
        ("exact", {"a": 1}, {"a": 1}, "correct"),
        ("exact", "", "yes", "no_answer"),
        ("numeric", "First 3, then 1,250.", "1250", "correct"),
        ("numeric", "#### 42\nas 7 shows", "#### 42", "correct"),
        ("numeric", "The answer is 12, which is 3 less than 15.", 12, "correct"),
        ("numeric", "−3.50", -3.5, "correct"),
        ("numeric", "1/3", "0.333333333333", "correct"),
        ("numeric", "3", "3.0000000001", "correct"),
        ("numeric", "1000000001", "1000000002", "wrong"),
        ("numeric", "101", "100", "wrong"),
        ("numeric?tolerance=0.01", "101", "100", "correct"),
        ("numeric?tolerance=0.01", "102", "100", "wrong"),
        ("numeric", "none", "100", "no_answer"),
        (r"regex?pattern=label: (\w+)", "label: good, label: bad", "bad", "correct"),
        (r"regex?pattern=label: (\w+)", "label: good", "bad", "wrong"),
        (r"regex?pattern=^\d+$", "12", None, "correct"),
        (r"regex?pattern=^\d+$", "twelve", None, "no_answer"),
        ("choice", "I choose (B).", "B", "correct"),
        ("choice", r"Not A but \boxed{\text{C}}", "C", "correct"),
        ("choice", "The answer is D. Not (A), which is a trap.", 3, "correct"),
        ("choice", "b) because", "B", "correct"),
        ("choice", "I do not know", "B", "no_answer"),
    ],
)
def test_an_answer_is_judged(spec, answer, target, outcome):
    assert score(spec, answer, target).outcome == outcome


def test_a_choice_may_be_written_out():
    problem = {"metadata": {"choices": ["red", "green"]}}
    assert score("choice", "green", "B", problem).value == 1
    assert score("choice", "A", "red", problem).value == 1


@pytest.mark.parametrize(("spec", "target"), [("exact", None), ("numeric", "many"), ("choice", "all of them")])
def test_a_target_that_is_none_is_a_mistake_of_the_run_and_no_wrong_answer(spec, target):
    with pytest.raises(Permanent, match="target"):
        score(spec, "1", target)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("exakt", r"did you mean 'exact'\?"),
        ("exact?ignore=1", "has no option 'ignore'"),
        ("exact?ignore_case=maybe", "ignore_case: Expected `bool`"),
        ("exact?", r"write the options of a scorer as exact\?option=value"),
        ("regex", r"needs pattern: write 'regex\?pattern=…'"),
        ("regex?pattern=(", "is not valid"),
        ("numeric?tolerance=-1", "tolerance must be a number >= 0"),
        ("no_such_module:grade", "no_such_module"),
        (lambda guess: True, "has a parameter 'guess'"),
        (lambda: True, "takes none of"),
        (7, "must be a name, module:function or a function"),
    ],
)
def test_a_scorer_that_cannot_be_is_refused_before_anything_runs(spec, says):
    with pytest.raises(gm.UsageError, match=says):
        find_scorers(spec)


def test_scorers_of_a_run_have_names_of_their_own():
    assert len({each.name for each in find_scorers(["exact", "exact?ignore_case=true"])}) == 2
    with pytest.raises(gm.UsageError, match="two scorers are called 'exact'"):
        find_scorers(["exact", "exact"])


@pytest.mark.parametrize(
    ("returned", "value", "outcome"),
    [
        (True, 1.0, "correct"),
        (0, 0.0, "wrong"),
        (0.5, 0.5, "graded"),
        ({"value": 1, "explanation": "fine"}, 1, "correct"),
        (gm.Score(value=None), None, "undecided"),
    ],
)
def test_what_a_scorer_returns_is_a_score(returned, value, outcome):
    found = score_returned(returned)
    assert (found.value, found.outcome) == (value, outcome)


@pytest.mark.parametrize("returned", [None, "yes", 2, -0.1, {"valu": 1}])
def test_anything_else_is_the_scorers_mistake(returned):
    with pytest.raises(Permanent, match="scorer mine"):
        score_returned(returned)


def test_a_fingerprint_changes_with_the_version_the_source_and_the_options():
    def one(answer):
        return True

    def other(answer):
        return False

    prints = [find_scorer(each).fingerprint for each in ("exact", "exact?ignore_case=true", "numeric", one, other)]
    assert len(set(prints)) == 5
    assert find_scorer("exact").fingerprint == prints[0]
