"""Scorers as reward functions, as a trainer calls them."""

import asyncio
import os
import pickle
import subprocess
import sys

import pytest

import graphmill as gm

COMPLETIONS = [r"So \boxed{\frac12}", [{"role": "assistant", "content": r"\boxed{0.5}"}], "no idea"]


@pytest.fixture(scope="module")
def math():
    reward = gm.reward("math")
    yield reward
    reward.close()


def test_completions_are_texts_or_messages_and_rewards_are_floats(math):
    assert math(completions=COMPLETIONS, solution=["0.5"] * 3, prompts=["?"] * 3, trainer_state=object()) == [1, 1, 0]
    parts = [{"role": "user", "content": "?"}, {"role": "assistant", "content": [{"type": "text", "text": "2"}]}]
    assert math(completions=[parts], answer=["2"]) == [1.0]
    assert math.__name__ == "math"
    assert math(completions=[], solution=[]) == []


def test_a_reward_is_none_where_the_scorer_failed_or_could_not_decide():
    def grade(answer):
        if answer == "a":
            raise ValueError("broken grader")
        return gm.Score(value=None) if answer == "b" else 0.25

    with pytest.warns(RuntimeWarning, match="broken grader"):
        assert gm.reward(grade)(completions=["a", "b", "c", "a"]) == [None, None, 0.25, None]


def test_an_async_scorer_runs_inside_a_running_event_loop():
    async def grade(answer, target):
        await asyncio.sleep(0)
        return answer == target

    async def train():
        return gm.reward(grade)(completions=["a", "b"], target=["a", "a"])

    assert asyncio.run(train()) == [1.0, 0.0]


def test_a_scorer_of_the_problem_gets_it_or_the_columns_of_its_row():
    def grade(answer, problem):
        return answer in problem["tests"]

    assert gm.reward(grade)(completions=["a", "b"], problem=[{"tests": "a"}, {"tests": "a"}]) == [1.0, 0.0]
    assert gm.reward(grade)(completions=["a", "b"], problem=["?", "?"], tests=["a", "a"]) == [1.0, 0.0]


def test_options_are_the_scorers_and_mistakes_are_found_at_once():
    assert gm.reward("exact", ignore_case=True)(completions=["A"], solution=["a"]) == [1.0]
    assert gm.reward("exact", target="right")(completions=["A"], right=["A"]) == [1.0]
    with pytest.raises(gm.UsageError, match="no scorer 'maths'"):
        gm.reward("maths")
    with pytest.raises(gm.UsageError, match="needs the right answers: a column solution or"):
        gm.reward("exact")(completions=["A"])
    with pytest.raises(gm.UsageError, match="solution must be a list of 1 values"):
        gm.reward("exact")(completions=["A"], solution="A")


def test_it_is_sent_to_other_processes_and_survives_a_fork(math):
    assert pickle.loads(pickle.dumps(gm.reward("exact")))(completions=["a"], solution=["a"]) == [1.0]
    math(completions=["1"], solution=["1"])
    child = os.fork()
    if child == 0:
        os._exit(0 if math(completions=["2"], solution=["2"]) == [1.0] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert math(completions=["3"], solution=["4"]) == [0.0]


def test_a_plain_script_needs_no_guard_around_its_main_code(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("import graphmill as gm\nprint(gm.reward('math')(completions=['1/2'], solution=['0.5']))\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("[1.0]\n", "")
