"""Questions as a person meets them on the command line."""

import json
import signal

import pytest

from support.command import Command, rows, write_items
from support.command import run as run_command

WORKFLOW = """
name: publish
inputs: {id: {type: string, required: true}}
nodes:
  - {id: draft, type: python, params: {function: "acts:draft", inputs: {name: "${id}"}}}
  - {id: approve, type: ask, params: {question: "Publish ${draft.result}?"}}
  - {id: publish, type: python, params: {function: "acts:publish", inputs: {name: "${id}"}}}
outputs: {said: "${approve.answer}", text: "${publish.result}"}
"""
ACTS = """
import time
from pathlib import Path

def note(word):
    with open("notes", "a") as file:
        file.write(word + "\\n")

def draft(name):
    note("draft-" + name)
    return "the draft of " + name

def publish(name):
    note("publish-" + name)
    while Path("hold").exists():
        time.sleep(0.01)
    return name + " is out"
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "publish.yaml").write_text(WORKFLOW)
    (tmp_path / "acts.py").write_text(ACTS)
    write_items(tmp_path, [{"id": name} for name in "abc"])
    return tmp_path


@pytest.fixture
def waiting(project):
    """A run whose three items wait for an answer; what it has said is in the file ``first``."""
    code, out, _ = run(
        project, "batch", "publish.yaml", "--source", "items.jsonl", "--run-id", "r", "--output", "out.jsonl"
    )
    assert code == 5
    (project / "first").write_text(out)
    return project


def run(project, *arguments):
    code, out, err = run_command(project, *arguments)
    assert "Traceback" not in err
    return code, out, err


def notes(project):
    return sorted((project / "notes").read_text().split())


def test_a_run_that_waits_ends_with_5_and_says_what_is_asked_and_how_to_answer(waiting):
    lines = (waiting / "first").read_text().splitlines()
    assert lines[0] == "every remaining item waits for an answer"
    assert lines[1].startswith("0/3 items succeeded, 3 waiting")
    assert lines[2:5] == [f"  {name}   approve/ask#1   asks: Publish the draft of {name}?" for name in "abc"]
    assert lines[5].split("   ")[0] == "graphmill resume r --answer a=VALUE"


def test_answers_are_given_one_by_one_or_in_a_file_as_json_or_text(waiting):
    (waiting / "answers.json").write_text(json.dumps({"b": {"ok": True}, "c": "no"}))
    code, out, _ = run(
        waiting, "resume", "r", "--answer", "a=yes, do", "--answer", "c=[1]", "--answers", "answers.json"
    )
    assert (code, out.splitlines()[0].split(" · ")[0]) == (0, "3/3 items succeeded")
    assert {row["id"]: row["output"]["said"] for row in rows(waiting / "out.jsonl")} == {
        "a": "yes, do",
        "b": {"ok": True},
        "c": [1],
    }
    assert notes(waiting) == ["draft-a", "draft-b", "draft-c", "publish-a", "publish-b", "publish-c"]


def test_a_plain_resume_runs_nothing_that_waits_and_says_so(waiting):
    before = notes(waiting)
    code, out, _ = run(waiting, "resume", "r")
    assert (code, out.splitlines()[0], notes(waiting)) == (5, "every remaining item waits for an answer", before)
    code, out, _ = run(waiting, "resume", "r", "--answer", "b=1", "--json")
    told = json.loads(out)
    assert (code, told["statistics"]["succeeded"], told["statistics"]["waiting"]) == (5, 1, 2)
    assert told["waiting"][0] == {"id": "a", "questions": {"approve/ask#1": "Publish the draft of a?"}}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--answer", "z=1"], "run r has no item 'z' waiting for an answer; waiting items: 'a', 'b', 'c'"),
        (["--answer", "a"], "must be ITEM=VALUE, got 'a'"),
        (["--answer", "a=1", "--answer", "a=2"], "item 'a' has two answers"),
        (["--answers", "none.json"], "no file 'none.json'"),
        (["--answers", "list.json"], "list.json must hold a mapping"),
        (["--answers", "acts.py"], "--answers must be a .json or .yaml file"),
    ],
)
def test_answers_that_can_not_be_meant_are_refused_and_change_nothing(waiting, arguments, said):
    (waiting / "list.json").write_text("[1]")
    code, out, err = run(waiting, "resume", "r", *arguments)
    assert (code, out, said in err) == (2, "", True), err
    assert run(waiting, "status", "r", "--json")[1].count('"state":"paused"') == 1


def test_status_runs_and_show_tell_what_waits_and_what_was_answered(waiting):
    run(waiting, "resume", "r", "--answer", "b=1")
    status = run(waiting, "status", "r")[1]
    assert "paused: 2 items wait for an answer" in status
    assert "  c   approve/ask#1   asks: Publish the draft of c?" in status
    assert json.loads(run(waiting, "status", "r", "--json")[1])["waiting"][1]["id"] == "c"
    assert "1/3 items succeeded, 2 waiting" in run(waiting, "runs")[1]
    assert "asks: Publish the draft of a?" in run(waiting, "show", "r")[1]
    assert "error:  paused: waits for an answer: Publish the draft of a?" in run(waiting, "show", "r", "a")[1]
    assert 'answers:\n  approve/ask#1   "Publish the draft of b?"   1\n' in run(waiting, "show", "r", "b")[1]
    told = json.loads(run(waiting, "show", "r", "b", "--json")[1])["answers"]
    assert told == [{"path": "approve/ask#1", "generation": 1, "question": "Publish the draft of b?", "answer": 1}]


def test_after_a_kill_the_answers_that_were_given_are_there(waiting):
    (waiting / "hold").touch()
    with Command(waiting, "resume", "r", "--answer", "a=yes", "--answer", "b=no") as command:
        command.until(lambda: {"publish-a", "publish-b"} <= set(notes(waiting)))
        command.send(signal.SIGKILL)
        command.wait()
    (waiting / "hold").unlink()
    status = run(waiting, "status", "r")[1]
    assert ("asks: Publish the draft of a?" in status, "asks: Publish the draft of c?" in status) == (False, True)
    assert "answered; resume continues it" in run(waiting, "show", "r", "a")[1]
    code, _, err = run(waiting, "resume", "r", "--answer", "a=again")
    assert (code, "item 'a' of run r already has its answer" in err) == (2, True)
    assert run(waiting, "resume", "r")[0] == 5
    said = {row["id"]: row["output"] and row["output"]["said"] for row in rows(waiting / "out.partial.jsonl")}
    assert said == {"a": "yes", "b": "no", "c": None}
    assert notes(waiting) == ["draft-a", "draft-b", "draft-c", "publish-a", "publish-a", "publish-b", "publish-b"]


def test_a_run_under_way_takes_no_answers(waiting):
    (waiting / "hold").touch()
    with Command(waiting, "resume", "r", "--answer", "a=yes") as command:
        command.until(lambda: "publish-a" in notes(waiting))
        code, _, err = run(waiting, "resume", "r", "--answer", "b=no")
        assert (code, "is running" in err) == (75, True), err
        (waiting / "hold").unlink()
        assert command.wait() == 5


def test_a_run_that_waits_can_be_given_up(waiting):
    assert run(waiting, "cancel", "r")[:2] == (0, "run r was paused and is now cancelled\n")
    assert "--answer" not in run(waiting, "show", "r")[1]


def test_one_job_that_asks_is_answered_by_its_name(project):
    code, out, err = run(project, "run", "publish.yaml", "id=x", "--run-id", "one")
    assert (code, out) == (5, "")
    assert "paused: waits for an answer: Publish the draft of x?" in err
    assert "graphmill resume one --answer job=VALUE" in err
    code, out, _ = run(project, "resume", "one", "--answer", "job=yes")
    assert (code, "x is out" in out) == (0, True)


def test_what_is_asked_can_not_disturb_a_terminal(project):
    write_items(project, [{"id": "x\x1b[2J\u202e\x07"}])
    code, out, err = run(project, "batch", "publish.yaml", "--source", "items.jsonl", "--run-id", "r")
    told = out + err + run(project, "status", "r")[1] + run(project, "show", "r")[1]
    assert (code, any(char in told for char in "\x1b\u202e\x07")) == (5, False)
