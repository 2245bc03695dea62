"""Checking workflow files from the command line."""

import json
import subprocess

from support.command import COMMAND, environment

GOOD = """
name: good
inputs: {a: {required: true}, b: {default: 1}}
nodes: [{id: x, type: value, params: {v: "${a}"}}]
outputs: {v: "${x.v}"}
"""
BAD = "nodes:\n  - {id: a, type: pyton}\n  - {id: a, type: value, params: {x: '${later}'}}\n"
OLD = {"ir_version": "0.1.0", "nodes": [{"id": name, "type": "value", "params": {"v": 1}} for name in "ab"], "edges": []}


def run(project, *arguments):
    done = subprocess.run([*COMMAND, *arguments], cwd=project, capture_output=True, timeout=60, env=environment(), check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_valid_workflow_is_one_line_with_what_it_has(tmp_path):
    (tmp_path / "good.yaml").write_text(GOOD)
    assert run(tmp_path, "validate", "good.yaml") == (0, "good.yaml: workflow 'good' · nodes x · inputs a, b? · outputs v\n", "")


def test_all_problems_stand_with_file_line_and_column_and_the_exit_status_is_2(tmp_path):
    (tmp_path / "bad.yaml").write_text(BAD)
    (tmp_path / "good.yaml").write_text(GOOD)
    code, out, _ = run(tmp_path, "validate", "bad.yaml", "good.yaml", "none.yaml")
    lines = out.splitlines()
    assert code == 2
    assert lines[0].startswith("bad.yaml:2:19: ")
    assert "did you mean 'python'?" in lines[0]
    assert any(line.startswith("bad.yaml:3:") for line in lines)
    assert lines[-2].startswith("good.yaml: workflow 'good'")
    assert lines[-1].startswith("none.yaml: there is no workflow file")


def test_notes_are_shown_as_notes_and_are_no_problems(tmp_path):
    (tmp_path / "old.json").write_text(json.dumps(OLD))
    code, out, _ = run(tmp_path, "validate", "old.json")
    assert code == 0
    assert out.startswith("old.json:1:")
    assert ": note: " in out.splitlines()[0]


def test_as_json_it_is_one_object_with_places(tmp_path):
    (tmp_path / "bad.yaml").write_text(BAD)
    (tmp_path / "good.yaml").write_text(GOOD)
    code, out, _ = run(tmp_path, "validate", "good.yaml", "bad.yaml", "--json")
    good, bad = json.loads(out)["workflows"]
    assert code == 2
    assert (good["is_valid"], good["name"], good["nodes"], good["outputs"]) == (True, "good", [{"id": "x", "type": "value"}], ["v"])
    assert [(each["name"], each["is_required"], each["default"]) for each in good["inputs"]] == [("a", True, None), ("b", False, 1)]
    assert (bad["is_valid"], bad["nodes"], bad["problems"][0]["line"]) == (False, None, 2)


def test_the_schema_is_printed_for_editors(tmp_path):
    code, out, _ = run(tmp_path, "validate", "--schema")
    schema = json.loads(out)
    assert code == 0
    assert "code" in schema["$defs"]["node"]["properties"]["type"]["enum"]
    assert json.loads(run(tmp_path, "validate", "--schema", "--json")[1]) == schema


def test_nothing_to_check_is_a_usage_error(tmp_path):
    assert run(tmp_path, "validate")[0] == 2
    assert run(tmp_path, "validate", "--schema", "a.yaml")[0] == 2
