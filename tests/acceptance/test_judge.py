"""A model as a judge of answers."""

import json
import re

import pytest

import graphmill as gm
from support.asked_model import answer

ITEMS = [{"id": f"p{number}", "problem": f"What is {number}?", "ground_truth": str(number)} for number in range(3)]


@pytest.fixture
def answered(store, played):
    """A run with answers, beside a model that judges."""
    gm.batch(lambda item: {"answer": f"It is {item['ground_truth']}."}, ITEMS, run_id="k7f2", journal=store)
    played.settings("models: {default: scripted/play}")
    return store


def judged(score):
    return json.dumps({"reasoning": "because", "score": score})


def test_a_judge_grades_by_a_rubric_with_the_target_as_reference(answered, played, tmp_path):
    (tmp_path / "strict.md").write_text("- Only digits are right.")
    played.by = lambda request: judged(0.75)
    report = gm.score("k7f2", "judge?rubric=strict.md", journal=answered)
    found = report.scores[0]
    assert (found.headline.name, found.headline.value, found.outcomes) == ("mean", 0.75, {"graded": 3})
    prompts = played.texts()
    assert len(prompts) == 3
    assert all("Only digits are right." in prompt and "It is " in prompt for prompt in prompts)
    assert re.search(r"<reference_\w{6}>\n0\n", next(prompt for prompt in prompts if "What is 0?" in prompt))
    assert found.usage["scripted/play"].requests == 3
    assert "scoring took 3 requests" in "\n".join(report.score_lines())


def test_a_judged_run_asks_nothing_again_unless_the_rubric_changes(answered, played, tmp_path):
    (tmp_path / "strict.md").write_text("- Only digits are right.")
    played.by = lambda request: judged(1)
    for _ in range(2):
        gm.score("k7f2", "judge?rubric=strict.md", journal=answered)
    assert len(played.asked) == 3
    (tmp_path / "strict.md").write_text("- Only words are right.")
    gm.score("k7f2", "judge?rubric=strict.md", journal=answered)
    assert len(played.asked) == 6


def test_answers_are_compared_in_a_random_order_and_in_the_opposite_one(answered, played):
    def first(request):
        return json.dumps({"reasoning": "the first", "best": "A"})

    def own(request):
        letter = re.search(r"<answer_(\w)_\w{6}>\nIt is", played.texts()[-1])[1]
        return json.dumps({"reasoning": "it says so", "best": letter})

    played.by = own
    found = gm.score("k7f2", "judge?compare=true", journal=answered).scores[0]
    assert (found.headline.value, len(played.asked)) == (1.0, 6)
    assert {re.search(r"<answer_(\w)_\w{6}>\nIt is", text)[1] for text in played.texts()} == {"A", "B"}
    played.by = first
    again = gm.score("k7f2", "judge?compare=1", journal=answered)
    assert again.scores[-1].headline.value == 0.5
    scores = [result.metadata["scores"] for result in gm.open_run("k7f2", answered).results()]
    assert [list(each.values())[-1]["metadata"]["is_consistent"] for each in scores] == [False] * 3


def test_a_judge_that_gives_no_score_leaves_the_answer_out(answered, played):
    played.by = lambda request: "I like it."
    report = gm.score("k7f2", "judge", journal=answered, policy=gm.Policy(retry=gm.Retry(attempts=1)))
    assert (report.scores[0].left_out, report.scores[0].headline) == ({"scorer_failed": 3}, None)


def test_a_judge_needs_a_rubric_that_exists_and_a_model(answered, played):
    with pytest.raises(gm.UsageError, match=r"cannot read the rubric 'nothing.md'"):
        gm.score("k7f2", "judge?rubric=nothing.md", journal=answered)
    played.settings("")
    with pytest.raises(gm.UsageError, match="model"):
        gm.score("k7f2", "judge", journal=answered)


def test_a_judge_after_a_batch_may_spend_what_the_batch_has_left_of_its_budget(store, played):
    played.settings("models: {default: {model: scripted/play, max_tokens: 10}}")
    played.by = lambda request: judged(1) if "judge" in str(request.messages[0]) else answer("42")

    async def ask(item):
        return {"answer": (await gm.complete("scripted/play", item["problem"], max_tokens=10)).text}

    policy = gm.Policy(budget_usd=2.0, concurrency=1)
    report = gm.batch(ask, ITEMS, run_id="k7f2", journal=store, policy=policy, scorers="judge")
    assert report.passes[0].stopped == "budget"
    assert report.passes[0].policy.budget_usd == 0.5


def test_a_scorer_that_calls_models_by_itself_keeps_to_the_budget_and_a_pass_scored_again_keeps_its_own(store, played):
    played.by = lambda request: answer("42")

    async def asking(answer):
        await gm.complete("scripted/play", str(answer), max_tokens=10)
        return 1.0

    async def ask(item):
        return {"answer": (await gm.complete("scripted/play", item["problem"], max_tokens=10)).text}

    policy = gm.Policy(budget_usd=2.0, concurrency=1)
    report = gm.batch(ask, ITEMS, run_id="k7f2", journal=store, policy=policy, scorers=asking)
    assert (report.passes[0].stopped, report.passes[0].policy.budget_usd) == ("budget", 0.5)
    again = gm.score("k7f2", asking, journal=store)
    assert again.passes[0].stopped == "budget"
    assert gm.score("k7f2", asking, journal=store, policy=gm.Policy(budget_usd=9)).passes[0].stopped is None


def test_a_judge_may_not_spend_what_a_lost_answer_may_have_cost(store, played):
    played.settings("prices: {scripted/play: {input: 100, output: 100}}\nmodels: {default: scripted/play}")
    answers = iter([OSError("the answer is lost"), *[answer("42")] * 3])
    played.by = lambda request: judged(1) if "judge" in str(request.messages[0]) else next(answers)

    async def ask(item):
        return {"answer": (await gm.complete("scripted/play", item["problem"], max_tokens=10)).text}

    policy = gm.Policy(budget_usd=100.0, concurrency=1, retry=gm.Retry(wait_s=0))
    report = gm.batch(ask, ITEMS, run_id="k7f2", journal=store, policy=policy, scorers="judge")
    used = report.statistics.usage["scripted/play"]
    assert used.lost_nano > 0
    assert report.passes[0].policy.budget_usd == pytest.approx(100 - (used.cost_nano + used.lost_nano) / 1e9)
