"""One job of a workflow: from the command line and from Python, recorded and resumed."""

import asyncio
import json
import os
import re
import signal
import sqlite3
from contextlib import closing
from textwrap import dedent

import pytest

import graphmill as gm
from support.command import Command, run

FUNCTIONS = """
import os, time
import graphmill as gm

def half(n):
    if n == "bad":
        raise gm.Permanent("no half of \\x1b[31mbad")
    return n / 2

def slow(name):
    open(f"begun-{os.getpid()}", "w").close()
    while not os.path.exists("go"):
        time.sleep(0.01)
    return f"slow {name}"

def wait(n):
    return slow(n) if n == "wait" else n

def count(name):
    with open("calls", "a") as calls:
        calls.write(f"{name}\\n")
    return name
"""

GREET = """
    name: greet
    inputs: {name: {type: string, required: true}, times: {type: integer, default: 2}}
    nodes: [{id: hello, type: value, params: {text: "Hello ${name}", times: "${times}"}}]
    outputs: {greeting: "${hello.text}"}
"""

HALVES = """
    name: halves
    inputs: {numbers: {type: array, required: true}}
    nodes:
      - id: halve
        type: python
        params: {function: "run_functions:half", inputs: {n: "${item}"}}
        batch: {items: "${numbers}", parallel: true, max_concurrent: 40, error_handling: continue}
"""

SLOW = """
    name: slow
    inputs: {name: {required: true}}
    nodes:
      - {id: counted, type: python, params: {function: "run_functions:count", inputs: {name: "${name}"}}}
      - {id: waited, type: python, params: {function: "run_functions:slow", inputs: {name: "${name}"}}}
    outputs: {text: "${waited.result}"}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "run_functions.py").write_text(FUNCTIONS)
    for name, text in (("greet", GREET), ("halves", HALVES), ("slow", SLOW)):
        (tmp_path / f"{name}.yaml").write_text(dedent(text))
    return tmp_path


def test_one_output_that_is_text_is_printed_as_it_is(project):
    code, out, err = run(project, "run", "greet.yaml", "name=Zoë", "--run-id", "g")
    assert (code, out) == (0, "Hello Zoë\n")
    assert err.startswith("greet · run g · concurrency 10\nsucceeded · ")
    assert "graphmill show g job   shows the job and its steps\n" in err


def test_several_outputs_are_printed_by_name_and_what_is_nested_as_indented_json(project):
    (project / "greet.yaml").write_text(
        dedent(GREET).replace('greeting: "${hello.text}"', 'all: "${hello}", times: "${times}"')
    )
    code, out, _ = run(project, "run", "greet.yaml", "name=A", "--no-journal")
    assert (code, out) == (0, 'all: {\n  "text": "Hello A",\n  "times": 2\n}\ntimes: 2\n')
    assert not (project / ".graphmill").exists()


def test_as_json_the_whole_row_is_printed(project):
    code, out, _ = run(project, "run", "greet.yaml", "name=A", "--run-id", "g", "--json")
    row = json.loads(out)
    assert code == 0
    assert (row["id"], row["run"], row["status"], row["input"]) == ("job", "g", "succeeded", {"name": "A"})
    assert row["output"] == {"greeting": "Hello A"}


@pytest.mark.parametrize(
    ("text", "value"), [("name=007", "007"), ("name=7", "7"), ("name=true", "true"), ('name="7"', "7"), ("name=", "")]
)
def test_an_input_that_is_declared_as_a_string_is_given_as_it_is_written(project, text, value):
    assert run(project, "run", "greet.yaml", text, "--no-journal")[1] == f"Hello {value}\n"


@pytest.mark.parametrize("text", ['{"name": "Ada", "times": 3}', "name: Ada\ntimes: 3\n"])
def test_inputs_come_from_a_file_and_a_named_value_wins(project, text):
    name = "given.json" if text.startswith("{") else "given.yaml"
    (project / name).write_text(text)
    assert run(project, "run", "greet.yaml", "--inputs", name, "--no-journal")[1] == "Hello Ada\n"
    assert run(project, "run", "greet.yaml", "name=Bo", "--inputs", name, "--no-journal")[1] == "Hello Bo\n"


def test_a_batch_takes_inputs_from_a_file_too(project):
    (project / "given.yaml").write_text("times: 5\n")
    (project / "items.jsonl").write_text('{"name": "A"}\n')
    code, out, err = run(project, "batch", "greet.yaml", "-s", "items.jsonl", "--inputs", "given.yaml", "-o", "-")
    assert code == 0, err
    assert json.loads(out)["output"] == {"greeting": "Hello A"}
    assert run(project, "batch", "greet.yaml", "-s", "items.jsonl", "times=x", "--inputs", "given.yaml")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        ([], ["input 'name' is missing", "it takes name (string, required), times (integer, default 2)"]),
        (["nam=A"], ["no input 'nam' (did you mean 'name'?)", "input 'name' is missing"]),
        (["name=A", "times=many"], ["input 'times': must be an integer, got 'many'"]),
        (["name"], ["NAME=VALUE"]),
        (["name=A", "--inputs", "no.json"], ["no file 'no.json'"]),
        (["name=A", "--inputs", "run_functions.py"], ["--inputs must be a .json or .yaml file"]),
        (["name=A", "--inputs", "list.json"], ["must hold a mapping"]),
        (["name=A", "--inputs", "broken.yaml"], ["broken.yaml: line 2, column 1"]),
        (["name=A", "--timeout", "0"], ["--timeout must be a number of seconds > 0"]),
        (["name=A", "--no-journal", "--run-id", "x"], ["leave one out"]),
    ],
)
def test_wrong_or_missing_inputs_are_exit_2_before_anything_runs(project, arguments, messages):
    (project / "list.json").write_text("[1]")
    (project / "broken.yaml").write_text("a: [")
    code, out, err = run(project, "run", "greet.yaml", *arguments)
    assert (code, out) == (2, "")
    for message in messages:
        assert message in err
    assert "Traceback" not in err
    assert not (project / ".graphmill").exists()


def test_a_batch_inside_is_summed_up_with_its_errors_and_the_job_is_degraded(project):
    numbers = json.dumps([1, "bad", 2, *["bad"] * 6])
    code, out, err = run(project, "run", "halves.yaml", f"numbers={numbers}", "--run-id", "h")
    assert code == 3
    assert "\ncount: 9\n" in out
    lines = err.splitlines()
    assert lines[0] == "halves · run h · concurrency 40"
    assert lines[1].startswith("succeeded, degraded · ")
    assert lines[2] == "  halve: 2/9 items succeeded, 7 failed"
    assert lines[3] == '    [1]   "bad"   permanent: no half of \\x1b[31mbad (1 attempt)'
    assert lines[8] == "    ...and 2 more"


def test_a_batch_says_how_many_items_are_degraded_and_errors_names_them(project):
    lists = [[1], [1, "bad"], ["bad", 2], [3]]
    (project / "lists.jsonl").write_text(
        "".join(json.dumps({"id": f"list {at}", "numbers": each}) + "\n" for at, each in enumerate(lists))
    )
    code, out, _ = run(project, "batch", "halves.yaml", "--source", "lists.jsonl", "--run-id", "lists")
    assert code == 0
    assert out.startswith("4/4 items succeeded, 2 degraded · ")
    assert re.search(r"graphmill errors lists +shows which items are degraded\n", out)
    assert "4/4 items succeeded, 2 degraded" in run(project, "status", "lists")[1]
    assert run(project, "errors", "lists")[1].splitlines() == [
        "run lists · finished · 4/4 items succeeded, 2 degraded",
        "no item failed",
        "2 items are degraded: succeeded, though something inside failed",
        "  graphmill show lists 'list 1'",
        "  graphmill show lists 'list 2'",
    ]
    assert "  ...and 1 more" in run(project, "errors", "lists", "--limit", "1")[1]
    found = json.loads(run(project, "errors", "lists", "--json")[1])
    assert (found["degraded"], found["degraded_items"]) == (2, ["list 1", "list 2"])
    again = json.loads(run(project, "resume", "lists", "--json")[1])
    assert (again["summary"], again["statistics"]["degraded"]) == ("4/4 items succeeded, 2 degraded", 2)


def test_what_the_outputs_hold_of_a_batch_is_summed_up_without_a_journal(project):
    _, _, err = run(project, "run", "halves.yaml", 'numbers=[1, "bad"]', "--no-journal")
    assert "items: 1/2 items succeeded, 1 failed\n" in err
    assert '[1]   "bad"   permanent: no half' in err


def test_a_job_that_fails_is_exit_3_and_can_be_retried(project):
    code, out, err = run(project, "run", "halves.yaml", 'numbers=["bad"]', "--run-id", "h")
    assert (code, out) == (3, "")
    assert "failed · " in err
    assert "permanent: 1 of 1 items failed; the first, item 0: no half of" in err
    assert "graphmill retry h" in err
    code, out, err = run(project, "retry", "h")
    assert (code, out) == (3, "")
    assert "\nfailed · " in err


def recorded_steps(project):
    with closing(sqlite3.connect(project / ".graphmill" / "runs.db")) as store:
        return store.execute("SELECT count(*) FROM steps").fetchone()[0]


def test_a_run_that_was_killed_is_resumed_with_its_inputs_and_does_no_step_twice(project):
    with Command(project, "run", "slow.yaml", "name=Zoe", "--run-id", "s") as command:
        command.until_file("begun-*")
        command.until(lambda: recorded_steps(project) == 1)  # what ended a moment ago may not be there yet
        command.send(signal.SIGKILL)
        command.wait()
    (project / "go").touch()
    code, out, err = run(project, "resume", "s")
    assert (code, out) == (0, "slow Zoe\n"), err
    assert "\nsucceeded · " in err
    assert json.loads(run(project, "resume", "s", "--json")[1])["output"] == {"text": "slow Zoe"}
    (result,) = gm.resume("s").results()
    assert result.output == {"text": "slow Zoe"}
    assert (project / "calls").read_text() == "Zoe\n"


def test_a_run_that_was_interrupted_says_so_in_plain_words_and_what_to_do(project):
    with Command(project, "run", "slow.yaml", "name=Zoe", "--run-id", "s") as command:
        command.until_file("begun-*")
        command.send(signal.SIGINT)
        command.until_said("repeat to cancel")
        command.send_once_more(signal.SIGTERM)
        assert command.wait() == 130
    assert "paused: stopped by Ctrl-C before it was done\n" in run(project, "status", "s")[1]
    assert "graphmill resume s " in run(project, "status", "s")[1]
    assert re.search("^pending · (?!0.0 s)", command.err, re.MULTILINE)


def test_a_batch_that_was_interrupted_claims_no_more_than_it_knows(project):
    numbers = json.dumps([1, 2, "wait", *range(9)])
    text = HALVES.replace("run_functions:half", "run_functions:wait").replace(
        "parallel: true, max_concurrent: 40, ", ""
    )
    (project / "waits.yaml").write_text(dedent(text))
    with Command(project, "run", "waits.yaml", f"numbers={numbers}", "--run-id", "w") as command:
        command.until_file("begun-*")
        command.send(signal.SIGINT)
        command.until_said("repeat to cancel")
        command.send_once_more(signal.SIGTERM)
        assert command.wait() == 130
    assert "  halve: 2 items succeeded so far\n" in command.err


def test_an_edit_is_refused_with_how_little_runs_again(project):
    (project / "two.yaml").write_text(SLOW.replace("run_functions:slow", "run_functions:count"))
    assert run(project, "run", "two.yaml", "name=Zoe", "--run-id", "two")[0] == 0
    edited = SLOW.replace(
        '"run_functions:slow", inputs: {name: "${name}"}', '"run_functions:count", inputs: {name: "${name}!"}'
    )
    (project / "two.yaml").write_text(edited)
    code, _, err = run(project, "resume", "two")
    assert code == 2
    assert "only steps whose node or input changed" in err


def test_a_run_that_is_done_gives_its_result_again_and_other_inputs_are_refused(project):
    assert run(project, "run", "greet.yaml", "name=A", "--run-id", "g")[1] == "Hello A\n"
    code, out, err = run(project, "run", "greet.yaml", "name=A", "--run-id", "g")
    assert (code, out) == (0, "Hello A\n")
    assert "it already has a result" in err
    assert run(project, "run", "greet.yaml", "name=B", "--run-id", "g")[0] == 2
    assert run(project, "run", "greet.yaml", "name=B", "--run-id", "g", "--on-change", "invalidate")[1] == "Hello B\n"


def test_python_runs_a_path_a_graph_or_a_function(project):
    assert gm.run("greet.yaml", {"name": "A"}).output == {"greeting": "Hello A"}
    assert gm.run(gm.load("greet.yaml"), "A").output == {"greeting": "Hello A"}
    assert gm.run(lambda value: value * 2, 4).output == 8
    assert gm.run(os.path.basename, "a/b", run_id="b").output == "b"
    assert gm.resume("b").collect() == ["b"]


def test_in_a_running_loop_it_is_awaited(project):
    assert asyncio.run(gm.arun("greet.yaml", {"name": "A"})).output == {"greeting": "Hello A"}


def test_a_failed_job_is_a_result_and_not_an_exception(project):
    result = gm.run("halves.yaml", {"numbers": ["bad"]})
    assert (result.status, result.error.kind) == ("failed", "permanent")
    with pytest.raises(gm.UsageError, match="no input 'number' \\(did you mean 'numbers'\\?\\)"):
        gm.run("halves.yaml", {"number": []})


def test_an_input_that_is_not_plain_data_can_not_be_resumed_by_itself(project):
    assert gm.run(type, object(), run_id="t").error is not None
    with pytest.raises(gm.UsageError, match="cannot reread the items"):
        gm.resume("t")


def test_without_a_concurrency_it_is_ten_or_the_widest_batch(project):
    report = gm.batch("halves.yaml", [{"numbers": [1]}])
    assert report.policy.concurrency == 40
    assert gm.batch("greet.yaml", [{"name": "A"}]).policy.concurrency == 10
    assert gm.batch("halves.yaml", [{"numbers": [1]}], concurrency=3).policy.concurrency == 3
    assert gm.batch("halves.yaml", [{"numbers": [1]}], policy=gm.Policy(timeout_s=9)).policy.concurrency == 40
    assert gm.batch("halves.yaml", [{"numbers": [1]}], policy=gm.Policy(window=20)).policy.concurrency == 20
    (project / "outer.yaml").write_text(
        "nodes: [{id: in, type: workflow, params: {workflow: ./halves.yaml, inputs: {numbers: [1]}}}]"
    )
    assert gm.load("outer.yaml").widest == 40


@pytest.fixture
def elsewhere(tmp_path):
    """A workflow with its functions beside it, below the folder in which commands are run."""
    below = tmp_path / "flows"
    below.mkdir()
    (below / "helpers_beside.py").write_text(
        "import os\n\ndef go():\n    assert os.path.exists('ready'), 'no'\n    return 'beside'\n"
    )
    node = '{id: %s, type: python, params: {function: "helpers_beside:go"%s}, retry: {attempts: 1}}'
    text = f"nodes: [{node % ('a', '')}, {node % ('b', ', isolation: process')}]\noutputs: {{text: '${{a.result}} ${{b.result}}'}}\n"
    (below / "flow.yaml").write_text(text)
    return tmp_path


def test_functions_beside_the_workflow_are_found_from_another_folder_and_after_a_restart(elsewhere):
    def told(*arguments):
        code, out, err = run(elsewhere, *arguments)
        return code, out + err

    code, said = told("run", "flows/flow.yaml", "--run-id", "r")
    assert (code, "AssertionError" in said) == (3, True), said
    (elsewhere / "ready").touch()
    code, said = told("retry", "r")
    assert code == 0, said
    code, said = told("run", "flows/flow.yaml")
    assert (code, "beside beside" in said) == (0, True), said


def test_a_module_beside_the_workflow_that_has_the_name_of_another_is_refused(tmp_path):
    (tmp_path / "json.py").write_text("def go(): return 1\n")
    (tmp_path / "w.yaml").write_text('nodes: [{id: a, type: python, params: {function: "json:go"}}]')
    with pytest.raises(gm.WorkflowError, match="rename that file"):
        gm.load(tmp_path / "w.yaml")
