import errno
import json
import os

import pytest

import graphmill as gm
from support.workflows import load_workflow, output_of, problems_of, write_workflow

NODES = "nodes: [{id: only, type: value, params: {}}]\n"


def test_a_workflow_is_loaded_from_yaml_or_json_and_named_by_itself_or_its_file(tmp_path):
    assert load_workflow(tmp_path, "name: greet\n" + NODES).name == "greet"
    assert load_workflow(tmp_path, NODES, name="my flow.yml").name == "my flow"
    assert (
        load_workflow(tmp_path, json.dumps({"nodes": [{"id": "a", "type": "value"}]}), name="flow.json").name == "flow"
    )


def test_the_path_may_be_text_and_a_batch_takes_it_too(tmp_path):
    path = write_workflow(tmp_path, "inputs: {a: {required: true}}\nnodes: [{id: n, type: value, params: {a: '${a}'}}]")
    assert (
        gm.batch(str(path), [1]).collect()
        == gm.batch(path, [1]).collect()
        == gm.batch(gm.load(str(path)), [1]).collect()
        == [{"a": 1}]
    )


def test_json_is_read_as_json_surrogate_pairs_tabs_and_all(tmp_path):
    text = json.dumps(
        {"nodes": [{"id": "a", "type": "value", "params": {"x": "😀 \u2028 12:30", "n": 1e3}}]}, indent="\t"
    )
    assert "\\ud83d" in text
    assert output_of(load_workflow(tmp_path, text, name="flow.JSON"), {}) == {"x": "😀 \u2028 12:30", "n": 1000.0}


def test_what_yaml_1_1_would_turn_into_something_else_stays_text(tmp_path):
    text = "nodes: [{id: n, type: value, params: {no: yes, day: 2024-02-29, at: 12:30, zip: 01234, t: true}}]"
    assert output_of(load_workflow(tmp_path, text), {}) == {
        "no": "yes",
        "day": "2024-02-29",
        "at": "12:30",
        "zip": "01234",
        "t": True,
    }


# --- mistakes ---


def test_every_line_of_the_message_names_the_file_and_the_place(tmp_path):
    path = write_workflow(tmp_path, "a: 1\nb: 2\n")
    with pytest.raises(gm.WorkflowError) as caught:
        gm.load(path)
    assert caught.value.path == str(path)
    assert [line.split(": ")[0] for line in str(caught.value).splitlines()] == [
        f"{path}:1:1",
        f"{path}:1:1",
        f"{path}:2:1",
    ]


@pytest.mark.parametrize("text", ["${ it }", "${it | upper}", "${}", "${it.0}", "Hi ${it", "${it[}", "${it} and ${"])
def test_what_begins_like_a_template_and_is_none_is_a_problem_and_not_text(tmp_path, text):
    nodes = f"nodes:\n  - {{id: n, type: value, params: {{deep: [{{x: {json.dumps(text)}}}]}}}}\n"
    (problem,) = problems_of(tmp_path, f"inputs: {{it: {{required: true}}}}\n{nodes}")
    assert "node 'n': params.deep[0].x: '${" in problem


def test_a_missing_file_is_told_with_the_nearest_name(tmp_path):
    write_workflow(tmp_path, NODES, name="reviews.yaml")
    with pytest.raises(gm.UsageError, match=r"no workflow file '.*review\.yaml' \(did you mean 'reviews\.yaml'\?\)"):
        gm.load(tmp_path / "review.yaml")
    with pytest.raises(gm.UsageError, match=r"no workflow file '.*absent/a\.yaml'$"):
        gm.load(tmp_path / "absent" / "a.yaml")


def test_a_file_that_can_not_be_read_is_told_with_the_system_s_reason(tmp_path):
    with pytest.raises(gm.UsageError, match=f"cannot read the workflow file .*: {os.strerror(errno.EISDIR)}"):
        gm.load(tmp_path)


def test_an_installed_workflow_is_found_by_its_name_unless_a_file_has_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert gm.load("solve-verify-judge").path.endswith("solve-verify-judge.yaml")
    (tmp_path / "solve-verify-judge").mkdir()
    assert "debate" in gm.load("solve-verify-judge").nodes
    (tmp_path / "solve-verify-judge").rmdir()
    (tmp_path / "solve-verify-judge").write_text(NODES)
    assert list(gm.load("solve-verify-judge").nodes) == ["only"]


def test_a_misspelt_name_of_an_installed_workflow_is_suggested(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(gm.UsageError, match=r"no workflow file 'solve-verfy-judge' .did you mean 'solve-verify-judge'"):
        gm.load("solve-verfy-judge")
