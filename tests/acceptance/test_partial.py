"""Items that succeed with less than all: counted and shown everywhere, and run again when a person asks for it."""

import json

import pytest

import graphmill as gm
from support.command import answered, run, write_items
from support.workflows import EAGER, load_workflow, write_workflow

ACTS = '''
from pathlib import Path

CALLS = Path(__file__).with_name("calls.txt")


def answer(name):
    """Sure from the second time on, but of what is clear."""
    with CALLS.open("a") as file:
        file.write(f"{name}\\n")
    return "sure" if name == "clear" or CALLS.read_text().split().count(name) > 1 else "unsure"


def go(name, n):
    """Fails in the second round, the first time."""
    if answer(f"{name}-{n}") == "unsure" and n == 2:
        raise ValueError("no second round")
    return n
'''

ENDS = """
inputs: {name: {}}
nodes:
  - {id: answer, type: python, params: {function: "acts:answer", inputs: {name: "${name}"}}}
  - id: done
    type: end
    params: {on: "${answer.result}", cases: {sure: succeeded, unsure: partial}}
outputs: {said: "${answer.result}"}
"""

LOOPS = """
inputs: {name: {}}
nodes:
  - id: again
    type: python
    params: {function: "acts:go", inputs: {name: "${name}", n: "${__round__}"}}
    loop: {max: 3, on_error: keep}
outputs: {rounds: "${again.round_count}"}
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "acts.py").write_text(ACTS)
    write_workflow(tmp_path, ENDS, "ends.yaml")
    write_workflow(tmp_path, LOOPS, "loops.yaml")
    write_items(tmp_path, [{"id": name, "name": name} for name in ("clear", "dim", "dark")])
    return tmp_path


def calls(project):
    return (project / "calls.txt").read_text().split()


def batch(project, workflow):
    return answered(project, "batch", workflow, "--source", "items.jsonl", "--run-id", "r", "--retries", 0, "-c", 1)


def test_partial_items_are_counted_and_named_by_every_command(project):
    said = batch(project, "ends.yaml")
    assert "3/3 items succeeded, 2 partial" in said
    assert "graphmill retry r --partial" in said
    assert "2 partial" in answered(project, "status", "r")
    assert "3/3 items succeeded, 2 partial" in answered(project, "runs")
    assert json.loads(answered(project, "status", "r", "--json"))["counts"]["partial"] == 2
    errors = answered(project, "errors", "r")
    assert "2 items are partial" in errors
    assert "graphmill show r dim" in errors
    assert json.loads(answered(project, "errors", "r", "--json"))["partial_items"] == ["dim", "dark"]
    table = answered(project, "results", "r", "--status", "partial").splitlines()
    assert [line.split()[:4] for line in table[1:]] == [
        ["2", "dim", "succeeded,", "partial"],
        ["3", "dark", "succeeded,", "partial"],
    ]


def test_partial_items_run_again_as_a_whole_when_asked_for(project):
    batch(project, "ends.yaml")
    code, _, err = run(project, "retry", "r")
    assert code == 2
    assert "2 partial" in err
    assert "--partial" in err
    assert "3/3 items succeeded ·" in answered(project, "retry", "r", "--partial")
    assert calls(project) == ["clear", "dim", "dark", "dim", "dark"]
    assert run(project, "retry", "r", "--partial")[0] == 2


def test_one_partial_item_runs_again_by_its_row(project):
    batch(project, "ends.yaml")
    assert "3/3 items succeeded, 1 partial" in answered(project, "retry", "r", "--item", "3")
    assert calls(project)[3:] == ["dark"]


def test_a_round_that_is_kept_after_an_error_is_partial_and_only_what_failed_runs_again(project):
    assert "3/3 items succeeded, 3 partial" in batch(project, "loops.yaml")
    before = calls(project)
    assert "3/3 items succeeded ·" in answered(project, "retry", "r", "--partial")
    again = calls(project)[len(before) :]
    assert sorted(again) == sorted(f"{name}-{n}" for name in ("clear", "dim", "dark") for n in (2, 3))


def test_partial_items_are_counted_and_run_again_from_python(project, monkeypatch):
    monkeypatch.syspath_prepend(project)
    graph = load_workflow(project, ENDS)
    items = [{"id": name, "name": f"py-{name}"} for name in "abc"]
    report = gm.batch(graph, items, policy=EAGER, run_id="p", journal=project / "runs.db")
    assert (report.summary(), report.statistics.partial) == ("3/3 items succeeded, 3 partial", 3)
    assert all(result.is_partial for result in report.results())
    with pytest.raises(gm.UsageError, match=r"no failed items to retry; .*partial=True"):
        gm.retry("p", journal=project / "runs.db")
    again = gm.retry("p", partial=True, journal=project / "runs.db")
    assert (again.summary(), again.done_now) == ("3/3 items succeeded", 3)
    unrecorded = gm.batch(graph, [{"name": "new"}], policy=EAGER)
    assert unrecorded.summary() == "1/1 items succeeded, 1 partial"
    assert not unrecorded.is_failure
