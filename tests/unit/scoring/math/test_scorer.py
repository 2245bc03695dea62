"""The math scorer, with its worker processes."""

import asyncio
import threading

import psutil
import pytest

from graphmill.core.errors import Permanent
from graphmill.scoring.scorer import find_scorer


@pytest.fixture(scope="module")
def score():
    scorer = find_scorer("math")
    yield scorer.call
    asyncio.run(scorer.close())


def test_a_whole_solution_is_compared_with_a_whole_reference_solution(score):
    found = score("Half of it: \\boxed{0.5}", "We divide.\n#### \\frac{1}{2}")
    assert (found.value, found.answer, found.outcome) == (1.0, "0.5", "correct")


def test_only_the_last_answer_counts(score):
    assert score(r"\boxed{4} or rather \boxed{5}", "4").outcome == "wrong"


@pytest.mark.parametrize("answer", [None, "", "I do not know what they want.", r"\boxed{1"])
def test_no_answer_is_wrong_under_its_own_name(score, answer):
    found = score(answer, "1")
    assert (found.value, found.outcome) == (0.0, "no_answer")


@pytest.mark.parametrize("answer", [7, 7.0, "7"])
def test_numbers_may_be_data(score, answer):
    assert score(answer, 7).value == 1.0


def test_an_item_without_a_reference_answer_is_a_mistake_of_the_run(score):
    with pytest.raises(Permanent, match="--target"):
        score("1", None)


@pytest.mark.parametrize(
    "bomb",
    [
        "9^9^9^9",
        "+".join(["1"] * 10_000),
        "x" * 1_000_000,
        "{" * 1_000 + "1" + "}" * 1_000,
        "(" * 900 + "x" + ")" * 900,
    ],
)
def test_what_the_grader_cannot_decide_within_its_limits_is_undecided(score, bomb):
    found = score(rf"\boxed{{{bomb}}}", "1")
    assert (found.value, found.outcome) == (None, "undecided")
    assert "limit" in found.explanation
    assert score(r"\boxed{\frac{2}{2}}", "1").value == 1.0


def test_answers_are_never_executed(score, tmp_path):
    proof = tmp_path / "proof"
    for answer in (
        f"__import__('os').system('touch {proof}')",
        f"\\text{{}}open('{proof}','w')",
        f"${{touch {proof}}}",
    ):
        score(rf"\boxed{{{answer}}}", "1")
    assert not proof.exists()


def test_threads_share_the_scorer(score):
    found = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(score(f"\\boxed{{{n}+x}}", f"x+{n}").value)) for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1.0] * 6


def test_closing_it_ends_its_processes():
    scorer = find_scorer("math")
    before = set(psutil.Process().children())
    assert scorer.call("x+x", "2x").value == 1.0
    started = set(psutil.Process().children()) - before
    assert started
    asyncio.run(scorer.close())
    assert not any(process.is_running() for process in started)
