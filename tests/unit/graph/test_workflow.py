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
    assert load_workflow(tmp_path, json.dumps({"nodes": [{"id": "a", "type": "value"}]}), name="flow.json").name == "flow"


def test_the_path_may_be_text_and_a_batch_takes_it_too(tmp_path):
    path = write_workflow(tmp_path, "inputs: {a: {required: true}}\nnodes: [{id: n, type: value, params: {a: '${a}'}}]")
    assert gm.batch(str(path), [1]).collect() == gm.batch(path, [1]).collect() == gm.batch(gm.load(str(path)), [1]).collect() == [{"a": 1}]


def test_json_is_read_as_json_surrogate_pairs_tabs_and_all(tmp_path):
    text = json.dumps({"nodes": [{"id": "a", "type": "value", "params": {"x": "😀 \u2028 12:30", "n": 1e3}}]}, indent="\t")
    assert "\\ud83d" in text
    assert output_of(load_workflow(tmp_path, text, name="flow.JSON"), {}) == {"x": "😀 \u2028 12:30", "n": 1000.0}


# --- mistakes ---


def test_all_problems_are_reported_at_once_each_with_its_place(tmp_path):
    problems = problems_of(
        tmp_path,
        """
        nmae: typo
        inputs:
          url: {required: true, defualt: 1}
          bad name: {}
          bare:
        nodes:
          - {id: first, type: valu, params: {}}
          - {id: second, type: value, parms: {}, purpose: none}
          - {id: first, type: value, params: {x: "${later} ${urll}"}}
          - {type: value}
          - just text
          - {id: later, type: python, params: {function: nowhere}}
          - {id: url, type: value, params: [1]}
        outputs: {x: "${missing.y}"}
        """,
    )
    assert problems == [
        "workflow: unknown key 'nmae'; did you mean 'name'?; known are name, inputs, nodes, outputs",
        "input 'url': unknown key 'defualt'; did you mean 'default'?; known are required, default",
        "input 'bad name': a name has letters, digits, _ and -, and begins with a letter or _",
        "input 'bare': {required: true} or {default: …} is wanted",
        "node 'first': no node type 'valu'; did you mean 'value'?; there are python, value",
        "node 'second': unknown key 'parms'; did you mean 'params'?; known are id, type, params",
        "node 'second': unknown key 'purpose'; known are id, type, params",
        "node 'first': ${later} is not known here; known are bare, first, second, url",
        "node 'first': ${urll} is not known here; did you mean 'url'?; known are bare, first, second, url",
        "node 'first': the name 'first' is already taken",
        "node 4 in the list: 'id' is missing",
        "node 5 in the list: a mapping with id, type and params is wanted",
        "node 'later': function is written module:name, not 'nowhere'",
        "node 'url': params is a mapping, not list",
        "node 'url': the name 'url' is already taken",
        "outputs: ${missing} is not known here; known are bare, first, later, second, url",
    ]


def test_the_message_names_the_file_before_every_problem(tmp_path):
    path = write_workflow(tmp_path, "a: 1\nb: 2\n")
    with pytest.raises(gm.WorkflowError) as caught:
        gm.load(path)
    assert caught.value.path == str(path)
    assert [line.startswith(f"{path}: ") for line in str(caught.value).splitlines()] == [True] * 3


@pytest.mark.parametrize("text", ["", "- a", "just text", "5"])
def test_what_is_no_mapping_is_no_workflow(tmp_path, text):
    (problem,) = problems_of(tmp_path, text)
    assert problem.startswith("a workflow is a mapping with a list of nodes, not ")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name: x", "workflow: 'nodes' is missing"),
        ("nodes:", "workflow: 'nodes' is missing"),
        ("nodes: []", "nodes: a list of at least one node is wanted"),
        ("nodes: {a: 1}", "nodes: a list of at least one node is wanted"),
        ("inputs: [a]\n" + NODES, "inputs: a mapping from names to {required: true} or {default: …} is wanted"),
        ("outputs: [a]\n" + NODES, "outputs: a mapping from names to values is wanted"),
        ("nodes: [{id: null, type: value}]", "node 1 in the list: 'id' is missing"),
        ("nodes: [{id: a, type: null}]", "node 'a': 'type' is missing"),
        ("nodes: [{id: a}]", "node 'a': 'type' is missing"),
        ("nodes: [{id: 5, type: value}]", "node 5: a name has letters, digits, _ and -, and begins with a letter or _"),
        ("nodes: [{id: a.b, type: value}]", "node 'a.b': a name has letters, digits, _ and -, and begins with a letter or _"),
        ("nodes: [{id: '', type: value}]", "node '': a name has letters, digits, _ and -, and begins with a letter or _"),
        ("nodes: [{id: a, type: [value]}]", "node 'a': no node type ['value']; did you mean 'value'?; there are python, value"),
        ("inputs: {a: {required: yes}}\n" + NODES, "input 'a': required is true or false, not 'yes'"),
        ("inputs: {a: {required: 1}}\n" + NODES, "input 'a': required is true or false, not 1"),
        ("inputs: {only: {}}\n" + NODES, "node 'only': the name 'only' is already taken"),
        ("nodes: [{id: a, type: value, params: {x: '${a}'}}]", "node 'a': ${a} is not known here; known are nothing"),
    ],
)
def test_a_mistake_is_told_with_what_would_be_right(tmp_path, text, problem):
    assert problems_of(tmp_path, text) == [problem]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "nodes: []\nname: a\nnodes: []", "line 3, column 1: the key 'nodes' stands here twice"),
        ("a.yaml", "nodes:\n  - {id: a, id: b}", "line 2, column 13: the key 'id' stands here twice"),
        ("a.json", '{"nodes": [], "nodes": []}', "the key 'nodes' stands twice in one object"),
        ("a.yaml", "nodes: [", "line 2, column 1: "),
        ("a.json", '{"nodes": []\n oops}', "line 2, column 2: not JSON: "),
        ("a.yaml", "nodes: &n [*n]", "line 1, column 8: this holds itself"),
        ("a.yaml", "nodes: !!python/name:os.system x", "line 1, column 8: "),
    ],
)
def test_a_file_that_can_not_be_read_as_data_names_the_place(tmp_path, name, text, message):
    (problem,) = problems_of(tmp_path, text, name)
    assert message in problem


def test_what_yaml_1_1_would_turn_into_something_else_stays_text(tmp_path):
    text = "nodes: [{id: n, type: value, params: {no: yes, day: 2024-02-29, at: 12:30, zip: 01234, t: true}}]"
    assert output_of(load_workflow(tmp_path, text), {}) == {"no": "yes", "day": "2024-02-29", "at": "12:30", "zip": "01234", "t": True}


def test_a_missing_file_is_told_with_the_nearest_name(tmp_path):
    write_workflow(tmp_path, NODES, name="reviews.yaml")
    with pytest.raises(gm.UsageError, match=r"there is no workflow file '.*review\.yaml'; did you mean 'reviews\.yaml'\?"):
        gm.load(tmp_path / "review.yaml")
    with pytest.raises(gm.UsageError, match=r"there is no workflow file '.*absent/a\.yaml'$"):
        gm.load(tmp_path / "absent" / "a.yaml")


def test_a_file_that_can_not_be_read_is_told_with_the_system_s_reason(tmp_path):
    with pytest.raises(gm.UsageError, match=f"can not read the workflow file .*: {os.strerror(errno.EISDIR)}"):
        gm.load(tmp_path)


@pytest.mark.parametrize("text", ["${ it }", "${it | upper}", "${}", "${it.0}", "Hi ${it", "${it[0]}", "${it} and ${"])
def test_what_begins_like_a_lookup_and_is_none_is_a_problem_and_not_text(tmp_path, text):
    path = tmp_path / "workflow.yaml"
    path.write_text(
        f"inputs: {{it: {{required: true}}}}\nnodes:\n  - {{id: n, type: value, params: {{deep: [{{x: {json.dumps(text)}}}]}}}}\n"
    )
    with pytest.raises(gm.WorkflowError, match=r"node 'n': .* holds a .* that is no lookup"):
        gm.load(path)
