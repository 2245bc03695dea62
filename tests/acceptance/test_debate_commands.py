"""solve-verify-judge from the command line: copied out, run, killed, retried, shown and exported."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import graphmill as gm
from support.agents import NAME, broken, ending, judgement, passing_in, solution, verification
from support.command import IMPATIENT, answered, rows, run, write_items
from support.model_server import reply

ROOT = Path(__file__).parents[2]


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


def test_a_verifier_that_is_down_pauses_the_run_and_fails_no_item(agents, tmp_path):
    agents.verifier = lambda request: reply({"error": {"message": "no", "code": "invalid_api_key"}}, 401)
    write_items(tmp_path, [{"id": f"p{number}", "problem": f"problem p{number}"} for number in range(3)])
    asking = ["batch", NAME, "--source", "items.jsonl", "--run-id", "down"]
    code, out, err = run(tmp_path, *asking, argv=IMPATIENT)
    assert (code, "0/3 items succeeded" in out) == (5, True), out + err
    agents.verifier = lambda request: verification(passed=True)
    code, out, err = run(tmp_path, "resume", "down")
    assert (code, "3/3 items succeeded" in out, err.count("  ✓ p")) == (0, True, 3)
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


def test_items_of_one_row_and_similar_ids_have_trajectories_of_their_own(agents, tmp_path):
    items = write_items(tmp_path, [{"id": "p/1", "problem": "problem p1"}])
    answered(tmp_path, "batch", NAME, "--source", items, "--run-id", "two")
    write_items(tmp_path, [{"id": "p:1", "problem": "problem p1"}, {"id": "p/1", "problem": "problem p1"}])
    answered(tmp_path, "resume", "two")
    run(tmp_path, "export", "two", "debates", "--format", "trajectory")
    found = trajectories(tmp_path / "debates")
    assert sorted(records[0]["item"] for records in found.values()) == ["p/1", "p:1"]


@pytest.mark.parametrize(
    ("folder", "options", "said"),
    [
        ("full", [], "'full' already exists"),
        (".", [], "'.' already exists"),
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


def test_the_package_as_it_is_installed_has_every_file_of_the_workflow(tmp_path):
    build = f"from hatchling.build import build_wheel; build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        packed = {name.removeprefix("graphmill/") for name in wheel.namelist()}
    folder = ROOT / "src" / "graphmill"
    ours = {str(path.relative_to(folder)) for path in (folder / "pipelines").rglob("*") if path.is_file()}
    assert {name for name in ours if not name.endswith(".pyc")} <= packed


@pytest.mark.parametrize(("role", "asked"), [("judge", ["judge"]), ("verifier", ["verifier", "judge"])])
def test_a_partial_item_is_completed_by_asking_only_the_agents_that_are_missing(agents, tmp_path, role, asked):
    well = getattr(agents, role)
    setattr(agents, role, broken)
    items = write_items(tmp_path, [{"id": "p1", "problem": "problem p1"}])
    assert "1 partial" in answered(tmp_path, "batch", NAME, "--source", items, "--run-id", "half")
    (line,) = (line for line in answered(tmp_path, "errors", "half").splitlines() if "graphmill show half p1" in line)
    assert "this prompt is not accepted" in line
    agents.asked.clear()
    setattr(agents, role, well)
    assert "1/1 items succeeded" in answered(tmp_path, "retry", "half", "--partial")
    (result,) = gm.open_run("half").results()
    assert ending(result.output) == ("passed", 1, 1, True)
    assert (result.is_partial, result.output["error"], [each.role for each in agents.asked]) == (False, None, asked)
