"""Scoring a run: a recorded run over its stored results."""

import json
import signal
import subprocess
import sys

import pytest

import graphmill as gm
from graphmill.report.run_pages import runs_view
from support.asked_model import answer
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


def test_on_result_is_for_the_batch_and_on_start_for_its_passes_too():
    started, seen = [], []
    report = gm.batch(
        solve,
        ITEMS,
        run_id="k7f2",
        journal="memory:",
        scorers=["numeric", "exact"],
        on_start=lambda run: started.append(run.id),
        on_result=lambda job, result: seen.append(job.id),
    )
    assert (started, len(seen)) == (["k7f2", "k7f2+numeric", "k7f2+exact"], 10)
    assert [len(result.metadata["scores"]) for result in report.results()] == [2] * 10


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


def test_a_run_that_has_grown_and_lost_items_is_scored_as_it_is_now(store):
    scored(store, items=ITEMS[:6])
    gm.batch(solve, ITEMS[3:], run_id="k7f2", journal=store)
    counting = Counting()
    found = gm.score("k7f2", counting, journal=store).scores[1]
    assert (len(counting.calls), found.items) == (7, 7)
    report = gm.score("k7f2", "numeric", journal=store)
    assert (report.passes[0].done_now, report.scores[0].items, report.scores[0].is_complete) == (4, 7, True)


def test_answers_and_targets_are_found_in_the_fields_that_are_named(store):
    items = [{"id": "a", "right": {"value": 3}}, {"id": "b", "right": {"value": 4}}]
    gm.batch(lambda item: {"found": {"n": 3}, "more": 1}, items, run_id="k7f2", journal=store)
    report = gm.score("k7f2", "exact", answer="found.n", target="right.value", journal=store)
    assert headline(report) == 0.5
    assert headline(gm.score("k7f2", "exact", journal=store)) == 0.5  # the fields are those of the earlier pass
    report = gm.score("k7f2", "exact", answer="finding", target="right.value", journal=store)
    assert report.scores[0].left_out == {"scorer_failed": 2}
    assert "'finding'" in report.passes[0].errors[0].error.message
    assert "--answer" in report.passes[0].errors[0].error.message


def test_an_item_that_is_text_has_no_target_and_a_run_without_results_no_figure(store):
    gm.batch(lambda item: "x", ["x"], run_id="k7f2", journal=store)
    report = gm.score("k7f2", "exact", journal=store)
    assert report.scores[0].left_out == {"scorer_failed": 1}
    assert "--target" in report.passes[0].errors[0].error.message
    gm.batch(solve, [], run_id="empty", journal=store)
    assert gm.score("empty", "exact", journal=store).score_lines() == ["exact: nothing scored"]


def test_a_failed_item_is_no_wrong_answer_and_makes_the_figure_incomplete(store):
    def fail(item):
        if item["id"] == "p1":
            raise gm.Permanent("the server is on fire")
        return solve(item)

    found = scored(store, fail).scores[0]
    assert (found.left_out, found.items, found.is_complete) == ({"infrastructure": 1}, 9, False)
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
    assert (found.headline.value, found.left_out, found.is_complete) == (0.3, {}, True)


def test_a_scorer_that_fails_leaves_the_answer_out_until_it_is_retried(store):
    broken = [True]

    def grade(answer, target):
        if broken[0]:
            raise gm.Permanent("no grader today")
        return True

    report = scored(store, scorers=grade)
    assert report.scores[0].left_out == {"scorer_failed": 10}
    assert "no grader today" in "\n".join(report.score_lines())
    broken[0] = False
    assert headline(gm.retry("k7f2+grade", graph=grade, journal=store)) == 1.0


def test_what_a_grader_cannot_decide_is_wrong_and_the_figure_shows_the_upper_bound(store):
    report = scored(store, scorers=lambda target: gm.Score(value={"1": None, "2": 0}.get(target, 1)))
    assert report.scores[0].outcomes == {"correct": 8, "wrong": 1, "undecided": 1}
    assert str(report.scores[0]) == "pass@1 0.800 [0.490, 0.943], at most 0.900"


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
    assert 11 <= len((tmp_path / "calls").read_text()) <= 12  # what ran, and what was not yet committed


def test_the_command_scores_a_run_by_the_start_of_its_id(tmp_path):
    scored(tmp_path / ".graphmill" / "runs.db", scorers=())
    found = json.loads(answered(tmp_path, "score", "k7", "--scorer", "numeric", "--json"))
    assert found["run"] == "k7f2"
    assert found["scores"][0]["headline"]["value"] == 0.8
    assert found["scores"][0]["outcomes"] == {"correct": 8, "wrong": 2}
    assert run(tmp_path, "score", "k7f2", "--scorer", "nothing")[0] == 2


# -- where scores are shown


@pytest.fixture
def project(tmp_path):
    """A scored run in the usual journal."""
    scored(tmp_path / ".graphmill" / "runs.db", scorers=["numeric", "exact"])
    return tmp_path


def test_results_exports_and_readers_join_the_scores(project):
    lines = answered(project, "results", "k7f2", "--limit", 2).splitlines()
    assert lines[0].split()[:5] == ["#", "id", "status", "numeric", "exact"]
    assert [line.split()[3] for line in lines[1:3]] == ["wrong", "correct"]
    wrong = json.loads(answered(project, "results", "k7f2", "--filter", "numeric=wrong", "--json"))["items"]
    assert [row["id"] for row in wrong] == ["p0", "p5"]
    assert wrong[1]["scores"]["numeric"]["answer"] == 7
    page = json.loads(answered(project, "results", "k7f2", "--limit", 1, "--offset", 7, "--json"))["items"]
    assert page[0]["scores"]["numeric"]["outcome"] == "correct"
    row = json.loads(answered(project, "export", "k7f2", "-", "--format", "jsonl").splitlines()[5])
    assert (row["id"], row["scores"]["numeric"]["value"], row["scores"]["exact"]["outcome"]) == ("p5", 0.0, "wrong")
    table = answered(project, "export", "k7f2", "-", "--format", "csv").splitlines()
    assert "scores.numeric.value" in table[0]
    chosen = answered(project, "export", "k7f2", "-", "--format", "csv", "--columns", "id,numeric.value").splitlines()
    assert [chosen[0], chosen[6]] == ["id,numeric.value", "p5,0.0"]
    results = list(gm.open_run("k7f2", project / ".graphmill" / "runs.db").results(offset=5, limit=1))
    assert results[0].metadata["scores"]["numeric"]["value"] == 0.0


def test_pages_of_a_run_and_of_an_item_show_scores_also_by_field(project):
    page = answered(project, "show", "k7f2", "--by", "level")
    assert "numeric: pass@1 0.800 [0.490, 0.943]" in page
    assert "level 0   pass@1 0.800 [0.376, 0.964]   5 items" in page
    record = json.loads(answered(project, "show", "k7f2", "--by", "level", "--json"))["scores"][0]
    assert [(group["value"], group["figure"]["items"]) for group in record["groups"]] == [(0, 5), (1, 5)]
    assert "numeric   wrong      7" in answered(project, "show", "k7f2", "p5")
    code, _, err = run(project, "show", "k7f2", "--by", "lvel")
    assert code == 2
    assert "'lvel' (did you mean 'level'?)" in err


def test_runs_lists_a_pass_under_its_run(project):
    gm.batch(solve, ITEMS, run_id="later", journal=project / ".graphmill" / "runs.db")
    gm.score("k7f2", "choice", journal=project / ".graphmill" / "runs.db")
    lines = answered(project, "runs").splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["k7f2", "k7f2+numeric", "k7f2+exact", "k7f2+choice", "later"]
    assert "10/10 items succeeded · pass@1 0.800" in lines[2]
    record = json.loads(answered(project, "runs", "--json"))["runs"][1]
    assert (record["of"], record["score"]["value"]) == ("k7f2", 0.8)


def test_a_score_of_an_earlier_answer_is_not_shown(store):
    scored(store)
    gm.batch(lambda item: {"answer": "1"}, ITEMS, run_id="k7f2", journal=store, on_change="invalidate")
    reader = gm.open_run("k7f2", store)
    found = reader.scores()[0]
    assert (found.headline, found.missing, found.is_complete) == (None, 10, False)
    assert next(reader.results()).metadata["scores"] == {}
    listed = runs_view(store.store, store.archive.runs(), limit=9).runs
    assert [(view.name, view.score) for view, _ in listed] == [("k7f2", None), ("k7f2+numeric", None)]
    assert headline(gm.score("k7f2", "numeric", journal=store)) == 0.1


def test_samples_of_an_item_are_one_item_in_every_figure(store):
    made = iter(range(1000))

    def sometimes(item):
        return {"answer": item["ground_truth"] if next(made) % 2 else "0"}

    gm.batch(sometimes, ITEMS, run_id="k7f2", journal=store, samples=4, concurrency=1)
    found = gm.score("k7f2", "numeric", journal=store).scores[0]
    assert (found.items, found.samples, found.outcomes) == (10, 4, {"wrong": 20, "correct": 20})
    figures = {figure.name: round(figure.value, 3) for figure in [found.headline, *found.figures]}
    assert figures == {"pass@1": 0.5, "maj@4": 0.5, "pass@2": 0.833, "pass^2": 0.167, "pass@4": 1.0, "pass^4": 0.0}


def test_verifier_judge_and_confidence_are_compared_with_the_truth(store):
    def debate(item):
        number = int(item["id"][1:])
        return {**solve(item), "passed": number != 1, "score": 0.9 if number % 5 else 0.1, "confidence": 0.8}

    found = scored(store, debate).scores[0]
    agreed = {(each.rater, each.other): each.agreement for each in found.agreements}
    verifier, judge = agreed["verifier", "truth"], agreed["judge", "truth"]
    assert (verifier.agreed, verifier.false_accept, verifier.false_reject) == (0.7, 1.0, 0.125)
    assert (judge.agreed, judge.kappa) == (1.0, 1.0)
    assert ("verifier", "judge") in agreed
    assert (found.calibration.items, round(found.calibration.ece, 6)) == (10, 0.0)


def test_intervals_are_over_clusters_if_they_are_named(store):
    items = [item | {"source": number // 5} for number, item in enumerate(ITEMS)]
    gm.batch(
        lambda item: {"answer": item["ground_truth"] if item["source"] else "0"}, items, run_id="k7f2", journal=store
    )
    plain = gm.score("k7f2", "numeric", journal=store).scores[0].headline
    clustered = gm.score("k7f2", "numeric", cluster="source", journal=store).scores[0].headline
    assert (plain.value, clustered.value) == (0.5, 0.5)
    assert clustered.high - clustered.low > plain.high - plain.low


def test_a_run_is_deleted_with_its_passes(project):
    assert "3 runs deleted" in answered(project, "runs", "delete", "k7f2")
    assert answered(project, "runs", "--json") == '{"runs":[],"older":0}\n'


# -- answers that are asked for again


def refusing(causes):
    """Solve, but that some answers fail for the given causes, once each."""
    left = dict(causes)

    def graph(item):
        cause = left.pop(item["id"], None)
        if cause is None:
            return solve(item)
        error = gm.Permanent("no answer")
        error.cause = "" if cause == "broken" else cause
        raise error

    return graph


def test_retry_leaves_refused_cut_and_unfitting_answers_alone_unless_they_are_to_be_resampled(store):
    graph = refusing({"p1": "refusal", "p2": "truncated", "p3": "unmet_schema", "p4": "broken"})
    scored(store, graph)
    gm.retry("k7f2", graph=graph, journal=store)
    reader = gm.open_run("k7f2", store)
    assert [result.job_id for result in reader.results(status="failed")] == ["p1", "p2", "p3"]
    with pytest.raises(gm.UsageError, match="3 whose answer was refused, cut or did not fit; --resample"):
        gm.retry("k7f2", graph=graph, journal=store)
    found = gm.retry("k7f2", graph=graph, resample=True, journal=store).scores[0]
    assert (found.outcomes, found.resampled) == ({"correct": 8, "wrong": 2}, 3)
    marked = [result.job_id for result in reader.results() if result.metadata.get("resampled")]
    assert marked == ["p1", "p2", "p3"]


def test_an_item_that_is_named_is_resampled_and_a_changed_graph_is_not_a_resample(store):
    graph = refusing({"p1": "refusal", "p2": "refusal"})
    scored(store, graph)
    assert gm.retry("k7f2", items=["p1"], graph=graph, journal=store).scores[0].resampled == 1
    report = gm.batch(solve, ITEMS, run_id="k7f2", journal=store, on_change="invalidate", scorers="numeric")
    assert report.scores[0].resampled == 0


def test_the_commands_for_what_is_left_tell_failures_from_answers(project):
    journal = project / ".graphmill" / "runs.db"
    gm.batch(refusing({"p1": "refusal", "p4": "broken"}), ITEMS, run_id="more", journal=journal)
    lines = answered(project, "show", "more")
    assert "graph=function)   " in lines
    assert "runs the failed item again" in lines
    assert "resample=True)   also asks again for the answer that was refused" in lines


def test_refusals_cut_and_unfitting_answers_of_a_model_are_wrong_in_workflows_and_functions(store, played):
    kinds = {"refusal": answer(reason="refusal"), "truncated": answer("x", reason="length"), "unmet_schema": "no JSON"}
    items = [{"id": name, "q": name, "target": "1"} for name in ("fine", *kinds)]
    shape = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    played.by = lambda request: kinds.get(request.messages[0].text, '{"answer": "1"}')
    workflow = played.graph(
        {
            "inputs": {"q": {}},
            "nodes": [
                {
                    "id": "ask",
                    "type": "llm",
                    "params": {"model": "scripted/play", "prompt": "${q}", "output_schema": shape},
                }
            ],
        }
    )

    async def function(item):
        return await gm.complete("scripted/play", item["q"], schema=shape)

    quick = gm.Policy(retry=gm.Retry(attempts=1))
    for graph, run_id in ((workflow, "workflow"), (function, "function")):
        found = gm.batch(graph, items, run_id=run_id, journal=store, policy=quick, scorers="exact").scores[0]
        assert found.outcomes == {"correct": 1} | dict.fromkeys(kinds, 1)
        assert found.is_complete
