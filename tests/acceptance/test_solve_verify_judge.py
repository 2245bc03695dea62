"""The workflow solve-verify-judge, with agents behind a server of our own: how debates end, what each agent sees, what comes out."""

import asyncio

import pytest

import graphmill as gm
from support.agents import NAME, broken, ending, judgement, passing_in, solution, verification
from support.asked_model import answer
from support.driving import virtual
from support.model_server import said

FIELDS = [
    "answer",
    "solution",
    "reasoning",
    "confidence",
    "passed",
    "verifier",
    "score",
    "judge",
    "rounds",
    "best_round",
    "stop",
    "error",
]


def solve(problem="problem p1", **inputs):
    return gm.run(NAME, {"problem": problem, "domain": "math", **inputs})


def test_an_answer_that_passes_at_once_is_judged_and_comes_with_all_that_was_found(agents):
    output = solve().output
    assert list(output) == FIELDS
    assert ending(output) == ("passed", 1, 1, True)
    assert (output["solution"], output["confidence"], output["score"], output["error"]) == ("1", 0.1, 0.9, None)
    assert output["answer"].startswith("I guess wildly")
    assert output["reasoning"] == "I guess wildly: attempt 1 at problem p1 gives"
    assert output["verifier"]["scores"] == {"correctness": 0.5, "completeness": 0.8, "clarity": 0.9}
    assert output["judge"]["reasoning"] == "it is right"
    assert [request.role for request in agents.asked] == ["solver", "verifier", "judge"]


def test_a_solver_sees_its_former_answers_and_all_critiques_and_the_judge_the_best_round(agents):
    agents.verifier = passing_in(3)
    assert ending(solve().output) == ("passed", 3, 3, True)
    last = agents.of("solver")[-1].prompt
    parts = ["problem p1", "attempt 1", "flaw 1", "attempt 2", "flaw 2"]
    assert sorted(parts, key=last.index) == parts
    assert "attempt 3" in agents.of("judge")[0].prompt


def test_without_a_pass_the_best_round_is_the_verifiers_best(agents):
    agents.verifier = lambda request: verification(passed=False, correctness={1: 0.2, 2: 0.6, 3: 0.4}[request.round])
    output = solve().output
    assert ending(output) == ("max_rounds", 3, 2, False)
    assert (output["solution"], output["verifier"]["scores"]["correctness"]) == ("2", 0.6)
    assert "attempt 2" in agents.of("judge")[0].prompt


def test_a_solver_that_repeats_itself_is_stopped(agents):
    agents.solver = lambda request: solution(agents.of("solver")[0])
    agents.verifier = lambda request: verification(passed=False)
    assert ending(solve(max_rounds=9).output) == ("circular", 2, 1, False)


def test_the_same_solution_in_other_words_is_a_repeat_and_a_small_fix_is_none(agents):
    agents.verifier = lambda request: verification(passed=False)
    agents.solver = lambda request: f"{solution(request)[:30]} attempt {request.round}: \\boxed{{7}}"
    assert ending(solve().output) == ("circular", 2, 1, False)
    code = "\n".join(f"line_{number} = {number} + {number}" for number in range(50))
    agents.solver = lambda request: f"attempt {request.round}\n```\n{code}\nlast = {request.round}\n```"
    assert ending(solve(domain="code").output) == ("max_rounds", 3, 1, False)


def test_one_model_may_play_all_agents(played):
    played.by = lambda request: (
        judgement()
        if "strengths" in str(request.schema)
        else "fine"
        if request.schema is None
        else verification(passed=True)
    )
    result = gm.run(gm.load(NAME).with_models("scripted/one"), {"problem": "problem p1"})
    assert ending(result.output) == ("passed", 1, 1, True)
    assert [request.model for request in played.asked] == ["one"] * 3


def test_the_number_of_rounds_is_an_input(agents):
    agents.verifier = passing_in(9)
    assert ending(solve(max_rounds=1).output) == ("max_rounds", 1, 1, False)


def test_a_solver_that_fails_at_once_fails_the_item(agents):
    agents.solver = broken
    result = solve()
    assert (result.status, result.output) == ("failed", None)
    assert "not accepted" in result.error.message


def test_a_solver_that_fails_later_leaves_the_rounds_before_it_as_a_partial_item(agents):
    agents.solver = lambda request: broken(request) if request.round == 2 else solution(request)
    agents.verifier = passing_in(3)
    result = solve()
    assert result.is_partial
    assert ending(result.output) == ("error", 1, 1, False)
    assert (result.output["score"], result.output["error"]["kind"]) == (0.9, "permanent")


def test_when_the_verifier_fails_the_answer_is_kept_and_judged_in_a_partial_item(agents):
    agents.verifier = broken
    result = solve()
    assert result.is_partial
    assert ending(result.output) == ("error", 1, 1, None)
    assert (result.output["solution"], result.output["verifier"], result.output["score"]) == ("1", None, 0.9)
    assert "not accepted" in result.output["error"]["message"]


def test_a_verifier_that_fails_later_leaves_the_verified_round_as_the_best(agents):
    agents.verifier = lambda request: broken(request) if request.round == 2 else verification(passed=False)
    assert ending(solve().output) == ("error", 2, 1, False)


def test_when_the_judge_fails_the_answer_and_its_verification_are_kept_in_a_partial_item(agents):
    agents.judge = broken
    result = solve()
    assert result.is_partial
    assert ending(result.output) == ("passed", 1, 1, True)
    assert (result.output["score"], result.output["judge"], result.output["error"]["kind"]) == (None, None, "permanent")


def test_an_agent_whose_answer_does_not_fit_is_asked_again(agents):
    texts = iter(['{"score": 2}', "no JSON", judgement(0.4)])
    agents.judge = lambda request: next(texts)
    output = solve().output
    assert (output["score"], len(agents.of("judge"))) == (0.4, 3)


def test_a_solver_whose_answer_was_cut_is_no_success(agents):
    agents.solver = lambda request: said("half an ans", reason="length")
    assert solve().status == "failed"


@pytest.mark.parametrize(
    ("domain", "wanted"),
    [("math", "\\boxed{}"), ("code", "fenced code block"), ("general", "directly"), ("physics", "directly")],
)
def test_the_domain_decides_the_form_of_the_answer_and_the_rubric(agents, domain, wanted):
    solve(domain=domain)
    assert wanted in agents.of("solver")[0].system
    assert (
        agents.of("verifier")[0].system.count("Correctness:") == agents.of("judge")[0].system.count("Correctness:") == 1
    )


def test_no_agent_sees_the_ground_truth_or_the_metadata(agents):
    item = {
        "id": "p7",
        "problem": "problem p7",
        "ground_truth": "SECRET-GOLD",
        "metadata": {"tests": "SECRET-TEST"},
        "domain": "math",
    }
    agents.verifier = passing_in(2)
    report = gm.batch(NAME, [item])
    assert report.summary().startswith("1/1 items succeeded")
    assert len(agents.asked) == 5
    assert not any("SECRET" in str(request.data) for request in agents.asked)


def test_verifier_and_judge_give_their_reasons_first_and_their_verdict_last(agents):
    solve()
    for role, first, last in [("verifier", "critique", "passed"), ("judge", "reasoning", "score")]:
        schema = agents.of(role)[0].data["response_format"]["json_schema"]["schema"]
        names = list(schema["properties"])
        assert (names[0], names[-1]) == (first, last)
        assert schema["required"] == names


def play(played, agent):
    """Play the agents inside the process, on virtual time."""
    played.settings("roles: {solver: scripted/solver, verifier: scripted/verifier, judge: scripted/judge}")
    played.by = agent
    (result,), _ = virtual([gm.Job(id="p1", graph=gm.load(NAME), input={"problem": "problem p1", **INPUTS})])
    return result.output


INPUTS = {"max_seconds": 60, "max_usd": 2.5, "max_rounds": 9}


async def slow(request):
    await asyncio.sleep(14)
    return answer(_said(request))


def _said(request):
    if request.model == "judge":
        return judgement()
    if request.model == "verifier":
        return verification(passed=False)
    return " ".join(["word", str(len(request.messages[-1].text))] * 9)


def test_the_deadline_of_a_problem_ends_its_debate_with_the_rounds_that_are_done(played):
    output = play(played, slow)
    assert ending(output) == ("deadline", 2, 1, False)
    assert output["score"] == 0.9


def test_the_budget_of_a_problem_ends_its_debate(played):
    output = play(played, lambda request: answer(_said(request)))
    assert ending(output) == ("budget", 3, 1, False)
    assert output["score"] == 0.9


def test_it_may_be_the_child_of_another_workflow(agents, tmp_path):
    (tmp_path / "twice.yaml").write_text("""
        inputs: {problem: {required: true}}
        nodes:
          - id: debates
            type: workflow
            params: {workflow: solve-verify-judge, inputs: {problem: "${problem}", max_rounds: 1}}
            batch: {times: 2}
        outputs: {scores: "${debates.results}"}
    """)
    output = gm.run("twice.yaml", {"problem": "problem p1"}).output
    assert [each["score"] for each in output["scores"]] == [0.9, 0.9]


def test_no_temperature_is_sent_and_settings_and_options_override_the_length_of_answers(agents, tmp_path):
    solve()
    assert {(each.data["max_tokens"], "temperature" in each.data) for each in agents.asked} == {(16000, False)}
    settings = tmp_path / "graphmill.yaml"
    settings.write_text(settings.read_text().replace("judge: own/judge", "judge: {model: own/judge, max_tokens: 500}"))
    agents.asked.clear()
    solve()
    assert [each.data["max_tokens"] for each in agents.asked] == [16000, 16000, 500]
    agents.asked.clear()
    gm.run(gm.load(NAME).with_models(max_tokens=90, temperature=0.5), {"problem": "problem p1"})
    assert {(each.data["max_tokens"], each.data["temperature"]) for each in agents.asked} == {(90, 0.5)}


def test_its_answers_are_scored_without_the_stated_confidence(agents, tmp_path):
    agents.judge = lambda request: broken(request) if request.problem == "p2" else judgement()
    items = [{"id": f"p{number}", "problem": f"problem p{number}", "ground_truth": number} for number in (1, 2)]
    report = gm.batch(NAME, items, run_id="scored", journal=tmp_path / "runs.db", scorers=["numeric"])
    assert "1 partial" in report.summary()
    assert "0.500" in "\n".join(report.score_lines())
