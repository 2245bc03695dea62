"""The workflow solve-verify-judge, with agents behind a server of our own: how debates end, what each agent sees, what comes out."""

import asyncio
import re
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import pytest

import graphmill as gm
from support.agents import Agents, broken, judgement, passing_in, solution, verification
from support.asked_model import answer
from support.command import IMPATIENT, Command, answered, rows, run, write_items
from support.driving import virtual
from support.model_server import reply, said

NAME = "solve-verify-judge"
ROOT = Path(__file__).parents[2]
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


@pytest.fixture
def agents(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    with Agents(tmp_path) as played:
        yield played


def solve(problem="problem p1", **inputs):
    return gm.run(NAME, {"problem": problem, "domain": "math", **inputs})


def ending(output):
    return output["stop"], output["rounds"], output["best_round"], output["passed"]


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


def test_it_is_copied_out_to_edit_and_the_copy_runs(agents, tmp_path):
    assert "mine/mine.yaml: copied from solve-verify-judge" in answered(tmp_path, "new", "mine", "--from", NAME)
    copied = sorted(
        str(path.relative_to(tmp_path / "mine")) for path in (tmp_path / "mine").rglob("*") if path.is_file()
    )
    assert copied[:3] == ["formats/code.md", "formats/general.md", "formats/math.md"]
    assert not any(name.endswith(".py") for name in copied)
    (tmp_path / "mine" / "solver.md").write_text("You are Ada. ${format}")
    result = gm.run("mine/mine.yaml", {"problem": "problem p1", "domain": "math"})
    assert ending(result.output) == ("passed", 1, 1, True)
    assert agents.of("solver")[0].system.startswith("You are Ada. Put the final answer")
    assert gm.load("mine/mine.yaml").name == "mine"
    (tmp_path / "mine" / "solver.md").write_text("mine")
    code, _, err = run(tmp_path, "new", "mine", "--from", NAME)
    assert (code, "'mine' already exists" in err) == (2, True)
    assert (tmp_path / "mine" / "solver.md").read_text() == "mine"


def test_only_an_installed_workflow_can_be_copied(tmp_path):
    code, _, err = run(tmp_path, "new", "mine", "--from", "solve-verify")
    assert (code, "did you mean 'solve-verify-judge'" in err) == (2, True)
    assert list(tmp_path.iterdir()) == []


def play(played, agent):
    """Play the agents inside the process, on virtual time."""
    played.settings("roles: {solver: scripted/solver, verifier: scripted/verifier, judge: scripted/judge}")
    played.by = agent
    (result,), _ = virtual([gm.Job(id="p1", graph=gm.load(NAME), input={"problem": "problem p1", **INPUTS})])
    return result.output


INPUTS = {"timeout": 60, "budget_usd": 2.5, "max_rounds": 9}


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


def test_a_verifier_that_is_down_pauses_the_run_and_fails_no_item(agents, tmp_path):
    agents.verifier = lambda request: reply({"error": {"message": "no", "code": "invalid_api_key"}}, 401)
    write_items(tmp_path, [{"id": f"p{number}", "problem": f"problem p{number}"} for number in range(3)])
    asking = ["batch", NAME, "--source", "items.jsonl", "--run-id", "down"]
    code, out, err = run(tmp_path, *asking, argv=IMPATIENT)
    assert (code, "0/3 items succeeded" in out) == (5, True), out + err
    agents.verifier = lambda request: verification(passed=True)
    assert "3/3 items succeeded" in answered(tmp_path, "resume", "down")
    assert len(agents.of("solver")) == 3


def test_while_a_batch_runs_each_problem_is_a_line_with_score_rounds_and_time(agents, tmp_path):
    agents.solver = lambda request: broken(request) if request.problem == "p2" else solution(request)
    agents.verifier = lambda request: passing_in(3 if request.problem == "p1" else 1)(request)
    agents.judge = lambda request: broken(request) if request.problem == "p3" else judgement(0.95)
    write_items(tmp_path, [{"id": f"p{number}", "problem": f"problem p{number}"} for number in range(4)])
    code, out, err = run(tmp_path, "batch", NAME, "--source", "items.jsonl")
    assert (code, out.splitlines()[0][:40]) == (3, "3/4 items succeeded, 1 partial, 1 failed")
    lines = {
        line.split()[1]: re.sub(r"[\d.]+ s", "N s", line.rstrip()) for line in err.splitlines() if line[2:3] in "✓~✗"
    }
    assert lines["p0"] == "  ✓ p0              0.95  1 round   N s"
    assert lines["p1"] == "  ✓ p1              0.95  3 rounds  N s"
    assert lines["p2"].startswith("  ✗ p2              permanent: ")
    assert lines["p3"] == "  ~ p3              –     1 round   N s  partial"


def test_a_workflow_without_a_score_is_shown_by_its_counts_alone(agents, tmp_path):
    (tmp_path / "plain.yaml").write_text("inputs: {id: {}}\nnodes: [{id: a, type: value, params: {x: '${id}'}}]")
    write_items(tmp_path, [{"id": "p1"}])
    assert "p1" not in run(tmp_path, "batch", "plain.yaml", "--source", "items.jsonl")[2]


def test_one_problem_is_solved_and_the_debate_printed(agents, tmp_path):
    agents.verifier = passing_in(2)
    said = answered(tmp_path, "run", NAME, "problem=problem p1", "domain=math")
    assert [line.strip() for line in said.splitlines() if line.strip()] == [
        "round 1",
        "solver · own/solver",
        "I guess wildly: attempt 1 at problem p1 gives \\boxed{1}.",
        "Confidence: 0.1",
        "verifier · own/verifier",
        "critique: flaw 1",
        "scores: correctness 0.1, completeness 0.8, clarity 0.9",
        "confidence: 0.7",
        "passed: false",
        "round 2",
        "solver · own/solver",
        "Now by hand: attempt 2 at problem p1 gives \\boxed{2}.",
        "Confidence: 0.2",
        "verifier · own/verifier",
        "critique: flaw 2",
        "scores: correctness 0.2, completeness 0.8, clarity 0.9",
        "confidence: 0.7",
        "passed: true",
        "judge · own/judge",
        "reasoning: it is right",
        "strengths:",
        "- short",
        "weaknesses: none",
        "score: 0.9",
        "2 rounds (passed, best 2) · score 0.9",
        "solution: 2",
    ]


def test_without_recorded_prompts_the_debate_is_printed_too_and_a_failed_agent_says_why(agents, tmp_path):
    agents.judge = broken
    _, out, _ = run(tmp_path, "run", NAME, "problem=problem p1", "--no-record-prompts")
    assert "attempt 1 at problem p1" in out
    assert "failed: permanent: " in out


def trajectories(folder):
    return {path.name: rows(path) for path in sorted(folder.iterdir())}


def test_thirty_problems_at_once_give_a_trajectory_each_and_never_mix(agents, tmp_path):
    agents.verifier = passing_in(2)
    items = write_items(tmp_path, [{"id": f"set/{number}", "problem": f"problem p{number}"} for number in range(30)])
    answered(tmp_path, "batch", NAME, "--source", items, "--run-id", "many", "--concurrency", 30)
    _, _, err = run(tmp_path, "export", "many", "debates", "--format", "trajectory")
    assert "30 files in debates" in err
    found = trajectories(tmp_path / "debates")
    assert [f"{number + 1:05}-set_{number}.jsonl" for number in range(30)] == list(found)
    for number, records in enumerate(found.values()):
        assert {(record["run"], record["item"], record["sample"]) for record in records} == {
            ("many", f"set/{number}", 0)
        }
        assert [(record["agent"], record["round"]) for record in records] == [
            ("solver", 1), ("verifier", 1), ("solver", 2), ("verifier", 2), ("judge", None)
        ]  # fmt: skip
        assert all(f"problem p{number}" in record["messages"][-1]["content"] for record in records)
        assert "attempt 1" in records[0]["answer"]
        assert all(record["usage"]["input_tokens"] == 5 for record in records)


def test_samples_have_trajectories_of_their_own_and_an_answer_that_did_not_fit_is_in_them(agents, tmp_path):
    answers = iter(["no JSON"])
    agents.judge = lambda request: next(answers, judgement())
    items = write_items(tmp_path, [{"id": "p1", "problem": "problem p1"}])
    answered(tmp_path, "batch", NAME, "--source", items, "--run-id", "two", "--samples", 2, "--concurrency", 1)
    run(tmp_path, "export", "two", "debates", "--format", "trajectory")
    found = trajectories(tmp_path / "debates")
    assert list(found) == ["00001-p1.jsonl", "00002-p1-2.jsonl"]
    assert [record["sample"] for records in found.values() for record in records] == [1, 1, 1, 1, 2, 2, 2]
    assert [record["answer"] for record in found["00001-p1.jsonl"]][2:] == ["no JSON", judgement()]
    assert "not JSON" in found["00001-p1.jsonl"][2]["problem"]
    steps = [record["step"] for records in found.values() for record in records]
    assert len(set(steps)) == len(steps)


@pytest.mark.parametrize(
    ("folder", "options", "said"),
    [
        ("full", [], "'full' already exists"),
        ("-", [], "name a folder"),
        ("missing/deep", [], "cannot write 'missing/deep'"),
        ("new", ["--no-record-prompts"], "did not record what was sent"),
    ],
)
def test_trajectories_are_written_whole_to_a_new_folder_or_not_at_all(agents, tmp_path, folder, options, said):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    answered(tmp_path, "run", NAME, "problem=problem p1", "--run-id", "one", *options)
    before = sorted(tmp_path.rglob("*"))
    code, _, err = run(tmp_path, "export", "one", folder, "--format", "trajectory")
    assert (code in {2, 74}, said in err, sorted(tmp_path.rglob("*"))) == (True, True, before), err


class Disturbed:
    """Agents of which some calls are refused, broken or answered without JSON, the first time they are asked."""

    def __init__(self, agents, share):
        self.agents, self.share, self.random, self.seen = agents, share, Random(7), set()
        for role in ("solver", "verifier", "judge"):
            setattr(agents, role, partial(self._answer, getattr(agents, role)))

    def _answer(self, agent, request):
        place = (request.role, request.problem, request.round)
        if place not in self.seen:
            self.seen.add(place)
            drawn = self.random.random() / self.share
            if drawn < 0.55:
                return reply({"error": {"message": "slow down"}}, 429, headers={"Retry-After": "0"})
            if drawn < 0.8:
                return '{"critique": "cut' if request.role != "solver" else agent(request)
            if drawn < 1:
                return reply({"error": {"message": "oh"}}, 500)
        return agent(request)


def debates(run_id):
    """What came out of each problem, and which agents it asked."""
    traces = gm.open_run(run_id).traces()
    return {each.item_id: (each.output, {(step.role, step.round) for step in each.steps}) for each in traces}


def test_a_disturbed_batch_that_is_killed_twice_comes_to_the_same_answers_as_a_calm_one(agents, tmp_path):
    agents.solver = lambda request: (
        solution(request) if int(request.problem[1:]) % 3 else solution(replace(request, round=1))
    )
    agents.verifier = lambda request: passing_in(int(request.problem[1:]) % 5)(request)
    agents.judge = lambda request: judgement(int(request.problem[1:]) / 100)
    items = write_items(
        tmp_path, [{"id": f"p{number}", "problem": f"problem p{number}", "domain": "math"} for number in range(60)]
    )
    asking = ["batch", NAME, "--source", items, "--concurrency", 32, "--run-id"]
    answered(tmp_path, *asking, "calm")
    calm = debates("calm")
    assert {output["stop"] for output, _ in calm.values()} == {"passed", "circular", "max_rounds"}
    Disturbed(agents, 0.2)
    for killed_after in (40, 120):
        agents.asked.clear()
        with Command(tmp_path, *asking, "wild", argv=IMPATIENT) as killed:
            killed.until(lambda: len(agents.asked) >= killed_after)  # noqa: B023
            killed.send(signal.SIGKILL)
            killed.wait()
    answered(tmp_path, *asking, "wild", argv=IMPATIENT)
    assert debates("wild") == calm


def test_the_package_as_it_is_installed_has_every_file_of_the_workflow(tmp_path):
    build = f"from hatchling.build import build_wheel; build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        packed = {name.removeprefix("graphmill/") for name in wheel.namelist()}
    folder = ROOT / "src" / "graphmill"
    ours = {str(path.relative_to(folder)) for path in (folder / "pipelines").rglob("*") if path.is_file()}
    assert {name for name in ours if not name.endswith(".pyc")} <= packed


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


@pytest.mark.parametrize(("role", "asked"), [("judge", ["judge"]), ("verifier", ["verifier", "judge"])])
def test_a_partial_item_is_completed_by_asking_only_the_agents_that_are_missing(agents, tmp_path, role, asked):
    well = getattr(agents, role)
    setattr(agents, role, broken)
    items = write_items(tmp_path, [{"id": "p1", "problem": "problem p1"}])
    assert "1 partial" in answered(tmp_path, "batch", NAME, "--source", items, "--run-id", "half")
    agents.asked.clear()
    setattr(agents, role, well)
    assert "1/1 items succeeded" in answered(tmp_path, "retry", "half", "--partial")
    (result,) = gm.open_run("half").results()
    assert ending(result.output) == ("passed", 1, 1, True)
    assert (result.is_partial, result.output["error"], [each.role for each in agents.asked]) == (False, None, asked)


def test_its_answers_are_scored_without_the_stated_confidence(agents, tmp_path):
    agents.judge = lambda request: broken(request) if request.problem == "p2" else judgement()
    items = [{"id": f"p{number}", "problem": f"problem p{number}", "ground_truth": number} for number in (1, 2)]
    report = gm.batch(NAME, items, run_id="scored", journal=tmp_path / "runs.db", scorers=["numeric"])
    assert "1 partial" in report.summary()
    assert "0.500" in "\n".join(report.score_lines())
