"""``graphmill convert``, and what readers say of the older JSON form."""

import json

import graphmill as gm
from support.command import run

OLD = {
    "ir_version": "0.1.0",
    "mappings": [],
    "inputs": {"n": {"type": "integer"}},
    "nodes": [
        {"id": "a", "type": "value", "params": {"rows": ["${n}", 2]}},
        {"id": "b", "type": "value", "params": {"x": "${item}"}, "batch": {"items": "${a.rows}"}},
    ],
    "edges": [{"from": "a", "to": "b"}],
    "outputs": {"rows": {"source": "b.results", "description": "d"}},
}


def test_an_older_workflow_is_converted_and_runs(tmp_path):
    (tmp_path / "old.json").write_text(json.dumps(OLD, indent=1))
    code, out, _ = run(tmp_path, "convert", "old.json")
    assert code == 0
    assert out.splitlines() == [
        "old.json:3:2: note: mappings: dropped: a node reads another node's output with ${node.output}",
        "old.yaml: converted; check it with: graphmill validate old.yaml",
    ]
    assert [row["x"] for row in gm.run(tmp_path / "old.yaml", {"n": 1}).output["rows"]] == [1, 2]


def test_no_file_is_overwritten(tmp_path):
    (tmp_path / "old.json").write_text(json.dumps(OLD))
    (tmp_path / "old.yaml").write_text("mine")
    code, _, err = run(tmp_path, "convert", "old.json")
    assert (code, "already exists" in err) == (2, True)
    assert run(tmp_path, "convert", "old.json", "--output", "new.yaml")[0] == 0
    assert (tmp_path / "old.yaml").read_text() == "mine"


def test_every_command_that_reads_it_says_how_to_convert_it(tmp_path):
    (tmp_path / "old.json").write_text(json.dumps(OLD, indent=1))
    code, out, _ = run(tmp_path, "validate", "old.json")
    assert (code, out.startswith("old.json:2:2: ")) == (2, True)
    assert "graphmill convert old.json" in out
    code, _, err = run(tmp_path, "run", "old.json", "n=1")
    assert (code, "graphmill convert old.json" in err) == (2, True)


def test_a_workflow_of_the_present_form_is_left_alone(tmp_path):
    (tmp_path / "now.yaml").write_text("nodes: [{id: a, type: value, params: {x: 1}}]")
    code, _, err = run(tmp_path, "convert", "now.yaml", "--output", "new.yaml")
    assert (code, "now.yaml is already in the present form" in err) == (2, True)
    assert not (tmp_path / "new.yaml").exists()
