"""Checking workflow files from the command line."""

import json

import pytest

from support.command import run

GOOD = """
name: good
inputs: {a: {required: true}, b: {default: 1}}
nodes: [{id: x, type: value, params: {v: "${a}"}}]
outputs: {v: "${x.v}"}
"""
BAD = "nodes:\n  - {id: a, type: pyton}\n  - {id: a, type: value, params: {x: '${later}'}}\n"


def test_a_valid_workflow_is_one_line_with_what_it_has(tmp_path):
    (tmp_path / "good.yaml").write_text(GOOD)
    assert run(tmp_path, "validate", "good.yaml") == (
        0,
        "good.yaml: workflow 'good' · nodes x · inputs a, b? · outputs v\n",
        "",
    )


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
    assert lines[-1].startswith("none.yaml: no workflow file")


def test_notes_are_shown_as_notes_and_are_no_problems(tmp_path):
    (tmp_path / "plain.yaml").write_text("inputs: {a: {}}\nnodes: [{id: x, type: value, params: {v: '{{a}}'}}]\n")
    code, out, _ = run(tmp_path, "validate", "plain.yaml")
    assert code == 0
    assert out.startswith("plain.yaml:2:")
    assert ": note: " in out.splitlines()[0]


def test_as_json_it_is_one_object_with_places(tmp_path):
    (tmp_path / "bad.yaml").write_text(BAD)
    (tmp_path / "good.yaml").write_text(GOOD)
    code, out, _ = run(tmp_path, "validate", "good.yaml", "bad.yaml", "--json")
    good, bad = json.loads(out)["workflows"]
    assert code == 2
    assert (good["is_valid"], good["name"], good["nodes"], good["outputs"]) == (
        True,
        "good",
        [{"id": "x", "type": "value"}],
        ["v"],
    )
    assert [(each["name"], each["is_required"], each["default"]) for each in good["inputs"]] == [
        ("a", True, None),
        ("b", False, 1),
    ]
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


REMEDIES = {
    "a param beside the node's keys": (
        "nodes: [{id: a, type: python, function: 'math:sqrt'}]",
        "under 'params'",
    ),
    "a type alone": ("inputs: {o: string}\nnodes: [{id: a, type: value}]", "must be {type: string}"),
    "a return": ("nodes: [{id: a, type: code, params: {code: return 1}}]", "use result = … instead"),
    "another word for from": (
        "nodes: [{id: a, type: value}, {id: b, type: value}]\nedges: [{source: a, to: b}]",
        "write 'from'",
    ),
    "a comparison": (
        "nodes: [{id: a, type: code, params: {code: result = 1}, loop: {max: 2, until: {ok: '${round.result >= 0.8}'}}}]",
        "compare in a code node",
    ),
    "items in JSON Lines": (
        "nodes: [{id: a, type: value, batch: {items: !file rows.jsonl}}]",
        "save the items as a list",
    ),
    "another language's template": (
        "inputs: {q: {default: 1}}\nnodes: [{id: a, type: value, params: {x: 'Say {{ q }}'}}]",
        "write a template as ${q}",
    ),
}


@pytest.mark.parametrize("mistake", sorted(REMEDIES))
def test_a_common_mistake_is_told_with_its_remedy(tmp_path, mistake):
    text, remedy = REMEDIES[mistake]
    (tmp_path / "rows.jsonl").write_text('{"n": 1}\n{"n": 2}\n')
    (tmp_path / "w.yaml").write_text(text)
    assert remedy in run(tmp_path, "validate", "w.yaml")[1]


def test_braces_that_name_nothing_or_stand_in_code_are_not_noted(tmp_path):
    node = "{id: a, type: code, params: {code: \"result = f'{{q}}'\", inputs: {t: '{{ other }}'}}}"
    (tmp_path / "w.yaml").write_text(f"inputs: {{q: {{default: 1}}}}\nnodes: [{node}]")
    code, out, _ = run(tmp_path, "validate", "w.yaml")
    assert (code, "note" in out) == (0, False)


def test_numbers_of_a_csv_file_are_refused_with_the_remedy(tmp_path):
    (tmp_path / "n.csv").write_text("n\n3\n")
    (tmp_path / "w.yaml").write_text("inputs: {n: {type: integer, required: true}}\nnodes: [{id: a, type: value}]")
    assert "as all values of a CSV file are; use JSON Lines" in run(tmp_path, "batch", "w.yaml", "-s", "n.csv")[1]


def test_a_role_that_nobody_has_set_is_noted_with_the_remedy(tmp_path):
    (tmp_path / "w.yaml").write_text("nodes: [{id: ask, type: llm, params: {role: judge, prompt: x}}]")
    code, out, _ = run(tmp_path, "validate", "w.yaml")
    remedy = "write roles: {judge: provider/model} in graphmill.yaml, or use --model judge=provider/model"
    assert (code, f"w.yaml: note: node 'ask': no model for the role 'judge'; {remedy}\n" in out) == (0, True), out
    (tmp_path / "graphmill.yaml").write_text("roles: {judge: scripted/x}")
    assert "note" not in run(tmp_path, "validate", "w.yaml")[1]
