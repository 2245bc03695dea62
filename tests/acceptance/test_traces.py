"""The trace of a job as a person reads it."""

import json
from textwrap import dedent

import pytest

import graphmill as gm
from support.command import run

FUNCTIONS = """
import graphmill as gm

tries = {}

def half(n):
    tries[n] = tries.get(n, 0) + 1
    if n == 2:
        raise gm.Permanent("no half of \\x1b[31mtwo")
    if n == 3 and tries[n] < 3:
        raise gm.Transient("busy")
    return n / 2
"""

WORKFLOW = """
    name: tree
    inputs: {numbers: {type: array, required: true}}
    nodes:
      - id: halve
        type: python
        params: {function: "trace_functions:half", inputs: {n: "${n}"}}
        retry: {wait_s: 0}
        batch: {items: "${numbers}", as: n, error_handling: continue}
      - id: debate
        type: workflow
        params:
          workflow:
            nodes: [{id: solve, type: python, params: {function: "trace_functions:half", inputs: {n: 4}}}]
            outputs: {score: "${solve.result}"}
        loop: {max: 2}
    outputs: {stop: "${debate.stop}"}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "trace_functions.py").write_text(FUNCTIONS)
    (tmp_path / "tree.yaml").write_text(dedent(WORKFLOW))
    assert run(tmp_path, "run", "tree.yaml", "numbers=[0,1,2,3]", "--run-id", "t")[0] == 3
    return tmp_path


def test_the_steps_of_an_item_are_drawn_as_a_tree(project):
    code, out, _ = run(project, "show", "t", "job")
    assert code == 0
    assert out.startswith("item job of run t · row 1 · succeeded, degraded after 3 attempts · ")
    assert (
        "batches:\n  halve: 3/4 items succeeded, 1 failed\n    [2]   2   permanent: no half of \\x1b[31mtwo (1 attempt)\n"
        in out
    )
    drawn = [line.split("   ")[0].rstrip() for line in out.partition("steps:\n")[2].splitlines()]
    lines = out.partition("steps:\n")[2].splitlines()
    names = [line[: line.index("+") if "+" in line else 20].strip() for line in lines]
    assert names == [
        "halve",
        "[0]",
        "[1]",
        "[2]",
        "[3]",
        "attempt 1",
        "attempt 2",
        "debate",
        "round 1",
        "solve",
        "round 2",
        "solve",
    ], drawn
    assert "3/4 items succeeded, 1 failed" in lines[0]
    assert "failed: permanent: no half of \\x1b[31mtwo" in lines[3]
    assert '3 attempts · {"result":1.5' in lines[4]
    assert lines[5].endswith("transient: busy")
    assert lines[7].endswith("2 rounds")
    assert "\x1b" not in out


def test_one_step_is_shown_in_full_and_a_part_with_what_is_below(project):
    code, out, _ = run(project, "show", "t", "job", "--step", "halve[3]")
    assert code == 0
    assert out.startswith("step halve[3] · succeeded · 3 attempts · ")
    assert 'attempt 1 failed: transient: busy\nattempt 2 failed: transient: busy\noutput:\n{\n  "result": 1.5,' in out
    out = run(project, "show", "t", "--step", "debate@2")[1]
    assert "solve" in out
    assert "halve" not in out
    assert "error: permanent: no half of" in run(project, "show", "t", "--step", "halve[2]")[1]


def test_a_step_that_is_not_there_is_exit_2_with_the_nearest(project):
    code, out, err = run(project, "show", "t", "job", "--step", "debate@2/solv")
    assert (code, out) == (2, "")
    assert "did you mean 'debate@2/solve'?" in err


def test_a_step_needs_an_item_where_there_are_several(project):
    gm.batch("tree.yaml", [{"numbers": [1]}], run_id="many")
    code, _, err = run(project, "show", "many", "--step", "halve")
    assert code == 2
    assert "graphmill show many ITEM --step PATH" in err


def test_the_trace_as_json(project):
    found = json.loads(run(project, "show", "t", "job", "--json")[1])
    halve, debate = found["trace"]
    assert (halve["path"], halve["kind"], halve["status"]) == ("halve", "node", "succeeded")
    assert halve["items"] == {"count": 4, "succeeded": 3, "failed": 1, "unfinished": 0, "cancelled": 0}
    assert [child["path"] for child in debate["children"]] == ["debate@1", "debate@2"]
    assert halve["children"][2]["error"]["message"] == "no half of \x1b[31mtwo"
    assert {step["step"] for step in found["steps"]} == {
        *(f"halve[{n}]" for n in range(4)),
        "debate@1/solve",
        "debate@2/solve",
    }
    step = json.loads(run(project, "show", "t", "job", "--step", "halve[3]", "--json")[1])
    assert (step["run"], step["id"], step["path"]) == ("t", "job", "halve[3]")
    assert (step["step"]["output"]["result"], step["step"]["attempts"], len(step["attempts"])) == (1.5, 3, 2)


def test_the_steps_of_a_function_are_drawn_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def twice(value):
        return await gm.step(lambda: value) + await gm.step(abs, -value)

    gm.run(twice, 2, run_id="f")
    code, out, err = run(tmp_path, "show", "f", "job")
    assert code == 0, err
    assert "abs#1" in out.partition("steps:\n")[2]


def test_times_go_on_after_a_retry_and_earlier_attempts_say_that_they_are(project):
    (project / "again.yaml").write_text(
        dedent("""
            nodes:
              - {id: one, type: code, params: {code: "import time; time.sleep(0.2); result = 1"}}
              - {id: two, type: python, retry: {attempts: 2, wait_s: 0}, params: {function: "trace_functions:there", inputs: {name: go}}}
        """)
    )
    with (project / "trace_functions.py").open("a") as functions:
        functions.write(
            "import os\n\ndef there(name):\n    if not os.path.exists(name):\n        raise gm.Transient('not there')\n    return 1\n"
        )
    assert run(project, "run", "again.yaml", "--run-id", "r")[0] == 3
    (project / "go").touch()
    assert run(project, "retry", "r")[0] == 0
    lines = run(project, "show", "r", "job")[1].splitlines()
    assert next(line for line in lines if "attempt 1" in line and "transient" in line).endswith(
        "transient: not there · generation 1"
    )
    found = json.loads(run(project, "show", "r", "job", "--json")[1])
    one, two = found["trace"]
    assert two["began_s"] >= one["began_s"] + one["duration_s"] > 0.2
    assert found["results"][-1]["duration_s"] >= two["began_s"]


def summed_up(project, items, handling="continue"):
    """Run a batch over items, of which one without a number fails before its step begins; give what run and show say of it."""
    (project / "sums.yaml").write_text(
        dedent("""
            inputs: {items: {type: array, required: true}}
            nodes:
              - {id: first, type: python, params: {function: "trace_functions:half", inputs: {n: 4}}}
              - id: sums
                type: python
                params: {function: "trace_functions:half", inputs: {n: "${item.n}"}}
                batch: {items: "${items}", error_handling: HANDLING}
              - {id: last, type: python, params: {function: "trace_functions:half", inputs: {n: 6}}}
            outputs: {done: "${last.result}"}
        """).replace("HANDLING", handling)
    )
    _, _, said = run(project, "run", "sums.yaml", f"items={json.dumps(items)}", "--run-id", "s")
    return said, run(project, "show", "s", "job")[1], json.loads(run(project, "show", "s", "job", "--json")[1])


def test_items_that_failed_before_their_first_step_are_counted_and_shown(project):
    said, drawn, found = summed_up(project, [{"n": 1}, {"m": 2}, {"n": 4}, {"m": "x" * 90}])
    for text in (said, drawn):
        assert "sums: 2/4 items succeeded, 2 failed\n" in text
        assert '[1]   {"m":2}' in text
        assert '[3]   {"m":"xxx' in text
        assert "x" * 40 not in text.partition("steps:")[0].partition("batches:")[2]
    names = [part["path"] for part in found["trace"]]
    assert names == ["first", "sums", "last"]
    assert found["trace"][1]["items"] == {"count": 4, "succeeded": 2, "failed": 2, "unfinished": 0, "cancelled": 0}


def test_items_that_were_cancelled_are_counted(project):
    said, drawn, found = summed_up(project, [{"n": 1}, {"m": 2}, {"n": 4}, {"n": 6}], "fail_fast")
    for text in (said, drawn):
        assert "sums: 1/4 items succeeded, 1 failed, 2 cancelled\n" in text
    assert found["trace"][1]["status"] == "failed"
    assert found["trace"][1]["items"]["cancelled"] == 2


def test_a_batch_whose_items_all_failed_before_a_step_stands_where_it_ran_and_its_first_five_errors_are_shown(project):
    _, drawn, found = summed_up(project, [{}] * 7)
    assert "sums: 0/7 items succeeded, 7 failed\n" in drawn
    assert drawn.count("(1 attempt)") == 5
    assert "...and 2 more" in drawn
    assert [(part["path"], part["status"]) for part in found["trace"]] == [("first", "succeeded"), ("sums", "failed")]
    assert [step["step"] for step in found["steps"]] == ["first"]
