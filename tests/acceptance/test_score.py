"""Scoring a run: a recorded run over its stored results."""

import json
import signal
import subprocess
import sys

import pytest

import graphmill as gm
from support.command import answered, environment, run

ITEMS = [
    {
        "id": f"p{number}",
        "problem": f"1 + {number}?",
        "ground_truth": str(number + 1),
        "metadata": {"level": number % 2},
    }
    for number in range(10)
]


def solve(item):
    """Answer wrongly where the problem is a multiple of five."""
    number = int(item["id"][1:])
    return {"answer": f"The answer is {number + 1 + (number % 5 == 0)}."}


class Counting:
    """A scorer that counts its calls."""

    def __init__(self, version="1"):
        self.name, self.version, self.calls = "counting", version, []

    def __call__(self, answer, target):
        self.calls.append(answer)
        return target in answer


def scored(store, graph=solve, items=ITEMS, scorers="numeric", **more):
    return gm.batch(graph, items, run_id="k7f2", journal=store, scorers=scorers, **more)


def headline(report, scorer=None):
    found = next(each for each in report.scores if scorer in (None, each.scorer))
    return round(found.headline.value, 3)


def test_a_batch_is_scored_when_it_has_ended(store):
    report = scored(store)
    assert headline(report) == 0.8
    assert "10/10 items succeeded · pass@1 0.800 [0.490, 0.943]" in report.closing_line()
    assert report.scores[0].outcomes == {"correct": 8, "wrong": 2}
    assert store.find("k7f2+numeric").manifest["of"] == "k7f2"


def test_a_stored_run_is_scored_later_and_its_items_are_not_run_again(store):
    ran = []
    gm.batch(lambda item: ran.append(item) or solve(item), ITEMS, run_id="k7f2", journal=store)
    report = gm.score("k7f2", ["numeric", "exact"], journal=store)
    assert [headline(report, "numeric"), headline(report, "exact")] == [0.8, 0.0]
    assert len(ran) == 10


def test_only_a_changed_answer_or_a_changed_scorer_is_scored_again(store):
    scored(store, scorers=())
    counting = Counting()
    gm.score("k7f2", counting, journal=store)
    assert len(counting.calls) == 10
    gm.score("k7f2", counting, journal=store)
    assert len(counting.calls) == 10
    gm.batch(
        lambda item: {"answer": "another"} if item["id"] == "p3" else solve(item),
        ITEMS,
        run_id="k7f2",
        journal=store,
        on_change="invalidate",
    )
    gm.score("k7f2", counting, journal=store)
    assert counting.calls[10:] == ["another"]
    newer = Counting("2")
    gm.score("k7f2", newer, journal=store)
    assert len(newer.calls) == 10


def test_answers_and_targets_are_found_in_the_fields_that_are_named(store):
    items = [{"id": "a", "right": {"value": 3}}, {"id": "b", "right": {"value": 4}}]
    gm.batch(lambda item: {"found": {"n": 3}, "more": 1}, items, run_id="k7f2", journal=store)
    report = gm.score("k7f2", "exact", answer="found.n", target="right.value", journal=store)
    assert headline(report) == 0.5
    report = gm.score("k7f2", "exact", answer="finding", target="right.value", journal=store)
    assert report.scores[0].left_out == 2
    assert "'finding'" in report.passes[0].errors[0].error.message
    assert "--answer" in report.passes[0].errors[0].error.message


def test_a_failed_item_is_no_wrong_answer_and_makes_the_figure_incomplete(store):
    def fail(item):
        if item["id"] == "p1":
            raise gm.Permanent("the server is on fire")
        return solve(item)

    found = scored(store, fail).scores[0]
    assert (found.left_out, found.items, found.is_complete) == (1, 9, False)
    assert str(found).endswith("incomplete")


def test_what_a_model_did_not_answer_is_wrong_under_its_own_name(store):
    causes = {"p1": "refusal", "p2": "content_filter", "p3": "truncated", "p4": "unmet_schema"}

    def refuse(item):
        if item["id"] in causes:
            error = gm.Permanent("no")
            error.cause = causes[item["id"]]
            raise error
        return {"answer": None} if item["id"] == "p6" else solve(item)

    found = scored(store, refuse).scores[0]
    assert found.outcomes == {"correct": 3, "wrong": 2, "no_answer": 1} | dict.fromkeys(causes.values(), 1)
    assert (found.headline.value, found.left_out, found.is_complete) == (0.3, 0, True)


def test_a_scorer_that_fails_leaves_the_answer_out_until_it_is_retried(store):
    broken = [True]

    def grade(answer, target):
        if broken[0]:
            raise gm.Permanent("no grader today")
        return True

    assert scored(store, scorers=grade).scores[0].left_out == 10
    broken[0] = False
    assert headline(gm.retry("k7f2+grade", graph=grade, journal=store)) == 1.0


def test_a_scorer_takes_what_it_declares(store):
    def steps(item):
        gm.step(lambda: 1)
        return "text"

    def traced(trace, problem):
        return len(trace) == 1 and problem["id"] == "p0"

    async def of_model(answer, complete):
        return answer == "text" and complete is not None

    report = scored(store, steps, ITEMS[:1], scorers=[traced, of_model])
    assert [headline(report, "traced"), headline(report, "of_model")] == [1.0, 1.0]


def test_a_pass_is_not_scored_and_a_batch_without_a_journal_neither(store):
    scored(store)
    with pytest.raises(gm.UsageError, match="scoring pass itself; score run k7f2"):
        gm.score("k7f2+numeric", "exact", journal=store)
    with pytest.raises(gm.UsageError, match="recorded"):
        gm.batch(solve, ITEMS, scorers="exact")


GRADER = """
import os
from pathlib import Path
def grade(answer, target):
    with open("calls", "a") as calls:
        calls.write("x")
    if Path("kill").exists() and Path("calls").stat().st_size == 5:
        os.kill(os.getpid(), 9)
    return True
grade.concurrency = 1
"""


def test_a_pass_that_is_killed_is_resumed_and_scores_nothing_twice_but_what_was_under_way(tmp_path):
    (tmp_path / "grading.py").write_text(GRADER)
    (tmp_path / "kill").touch()
    journal = tmp_path / ".graphmill" / "runs.db"
    scored(journal, scorers=())
    ended = subprocess.run(
        [sys.executable, "-m", "graphmill", "score", "k7f2", "--scorer", "grading:grade"],
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(tmp_path)),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    (tmp_path / "kill").unlink()
    out = answered(tmp_path, "resume", "k7f2+grade", PYTHONPATH=str(tmp_path))
    assert "pass@1 1.000" in out
    assert len((tmp_path / "calls").read_text()) == 11


def test_the_command_scores_a_run_by_the_start_of_its_id(tmp_path):
    scored(tmp_path / ".graphmill" / "runs.db", scorers=())
    found = json.loads(answered(tmp_path, "score", "k7", "--scorer", "numeric", "--json"))
    assert found["run"] == "k7f2"
    assert found["scores"][0]["headline"]["value"] == 0.8
    assert found["scores"][0]["outcomes"] == {"correct": 8, "wrong": 2}
    assert run(tmp_path, "score", "k7f2", "--scorer", "nothing")[0] == 2
