from pathlib import Path

import pytest

import graphmill as gm
from graphmill.core.yaml import from_yaml, to_yaml
from graphmill.graph.language import legacy
from graphmill.graph.language.document import Document
from graphmill.graph.language.legacy import convert_workflow
from graphmill.graph.workflow import load_data

OLD = {
    "ir_version": "0.1.0",
    "inputs": {
        "url": {"type": "string", "description": "where"},
        "limit": {"type": "number", "required": False, "default": 10},
        "tag": {"required": False},
    },
    "nodes": [
        {"id": "fetch", "type": "http", "purpose": "Fetch the users", "params": {"url": "${url}"}},
        {"id": "rows", "type": "value", "batch": {"items": "${fetch.response}", "as": "user"}, "params": {"a": 1}},
    ],
    "edges": [{"from": "fetch", "to": "rows"}],
    "outputs": {
        "all": {"source": "${rows.results}", "description": "all of them", "type": "array"},
        "bare": {"source": "rows.count"},
        "text": "${rows.count}",
    },
}


def converted(data):
    workflow, notes = convert_workflow(Document.from_data(data))
    return workflow, [note.message for note in notes]


def node(**keys):
    return converted({"nodes": [{"id": "n", "type": "llm", **keys}]})[0]["nodes"][0]


def notes_on(**keys):
    return converted({**OLD, **keys})[1]


def test_a_workflow_is_converted_to_one_that_means_the_same():
    workflow, notes = converted(OLD)
    assert notes == []
    assert "ir_version" not in workflow
    assert workflow["outputs"] == {"all": "${rows.results}", "bare": "${rows.count}", "text": "${rows.count}"}
    assert workflow["nodes"][1]["batch"] == {"items": "${fetch.response}", "as": "user", "max_retries": 1}
    graph = load_data(from_yaml(to_yaml(workflow).encode()))
    assert [(name, rule.is_required) for name, rule in graph.inputs.items()] == [
        ("url", True),
        ("limit", False),
        ("tag", False),
    ]


def test_a_saved_workflow_is_unwrapped():
    saved = {"name": "saved", "description": "words", "ir": OLD, "created_at": "2025", "rich_metadata": {}}
    workflow, _ = converted(saved)
    assert (workflow["name"], workflow["description"], len(workflow["nodes"])) == ("saved", "words", 2)


def test_keys_are_renamed():
    workflow, _ = converted({"nodes": [{"id": "a", "parameters": {"p": 1}}], "edges": [{"source": "a", "target": "b"}]})
    assert workflow["nodes"] == [{"id": "a", "params": {"p": 1}}]
    assert workflow["edges"] == [{"from": "a", "to": "b"}]
    assert node(retry={"max": 4, "wait": 1})["retry"] == {"attempts": 4, "wait_s": 1}
    assert node(loop={"max_iterations": 3})["loop"] == {"max": 3}


def test_a_batch_that_is_retried_waits_alike_each_time():
    assert node(batch={"items": [1], "max_retries": 3}) == {
        "id": "n",
        "type": "llm",
        "batch": {"items": [1], "max_retries": 3, "retry_wait": 0},
        "retry": {"backoff": "fixed"},
    }
    said = node(batch={"items": [1]}, retry={"max": 4, "wait": 1, "backoff": "exponential"})
    assert (said["batch"], said["retry"]) == (
        {"items": [1]},
        {"attempts": 4, "wait_s": 1, "backoff": "exponential"},
    )


def test_a_child_inside_a_node_is_converted_too():
    child = node(type="workflow", params={"workflow": {"ir_version": "0.1.0", "outputs": {"x": {"source": "a.b"}}}})
    assert child["params"]["workflow"] == {"outputs": {"x": "${a.b}"}}


@pytest.mark.parametrize(
    ("keys", "note"),
    [
        ({"mappings": {}}, "mappings: dropped"),
        ({"enable_namespacing": False}, "enable_namespacing: dropped"),
        ({"inputs": {"a": {"stdin": True, "required": False}}}, "input 'a': stdin: dropped"),
        ({"inputs": {"a": {"default": 1}}}, "input 'a': it has a default, so it may be left out"),
        ({"outputs": {"a": {"source": "${rows.count}", "stdout": True}}}, "output 'a': stdout: dropped"),
        ({"edges": []}, "without edges all nodes run"),
        ({"nodes": [*OLD["nodes"], {"id": "other"}]}, "node 'other': starts too"),
        ({"edges": [*OLD["edges"], {"from": "fetch", "to": "x"}]}, "all edges of node 'fetch' for 'default' are taken"),
    ],
)
def test_a_note_says_what_behaves_differently(keys, note):
    (found,) = notes_on(**keys)
    assert note in found


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({"nodes": [{"id": "n", "approval": "required"}]}, "node 'n': approval: "),
        ({"nodes": [{"id": "n", "loop": {"while": "${n.more}"}}]}, "node 'n': loop.while: it has no counterpart"),
        ({"outputs": {"a": {"description": "words"}}}, "output 'a': 'source' must be text, got nothing"),
        ({"nodes": [{"id": "n", "type": "shell", "params": {"ignore_errors": "${x}"}}]}, "ignore_errors: must be"),
        ({"nodes": [{"id": "n", "type": "http", "params": {"auth_token": "a", "api_key": "b"}}]}, "second credential"),
        ({"nodes": [{"id": "n", "type": "http", "params": {"api_key": "b", "headers": "x"}}]}, "must be a mapping"),
        ([], "a workflow must be a mapping"),
    ],
)
def test_what_has_no_counterpart_is_a_problem(data, problem):
    with pytest.raises(gm.WorkflowError) as caught:
        converted(data)
    assert problem in str(caught.value)


def params(node_type, **written):
    workflow, notes = converted({"nodes": [{"id": "n", "type": node_type, "params": written}]})
    return workflow["nodes"][0]["params"], notes


def test_shell_params():
    assert params("shell", command="echo a") == ({"command": "echo a", "strip_newline": True}, [])
    found, (note,) = params("shell", command="exit 42", ignore_errors=True)
    assert (found["ok_codes"], "ignore_errors" in found) == (list(range(256)), False)
    assert "signal" in note


@pytest.mark.parametrize(
    ("command", "code"), [("grep x file", 1), ("cat file |rg x", 1), ("command -v x", 127), ("ls -l *.txt", 2)]
)
def test_a_command_that_now_fails_when_it_finds_nothing_is_noted(command, code):
    (note,) = params("shell", command=command)[1]
    assert f"ok_codes: [0, {code}]" in note
    assert params("shell", command=command, ok_codes=[0])[1] == []


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"auth_token": "t"}, {"auth": {"bearer": "t"}, "headers": {}}),
        (
            {"auth_token": "t", "headers": {"Authorization": "x", "A": "1"}},
            {"auth": {"bearer": "t"}, "headers": {"A": "1"}},
        ),
        ({"api_key": "k"}, {"headers": {"X-API-Key": "k"}}),
        ({"api_key": "k", "api_key_header": "X-Key", "headers": {"x-key": "x"}}, {"headers": {"X-Key": "k"}}),
        ({"auth_token": "", "api_key": None, "api_key_header": "X-Key"}, {}),
    ],
)
def test_http_credentials(written, expected):
    assert params("http", **written) == (expected, [])


def test_the_page_of_differences_names_every_key_that_is_converted():
    page = (Path(__file__).parents[4] / "docs" / "differences.md").read_text()
    blocks = [each for each in vars(legacy).values() if isinstance(each, legacy._Keys)]
    keys = {key for each in blocks for table in (each.renamed, each.dropped, each.refused) for key in table}
    keys |= {"api_key", "api_key_header", "auth_token", "ignore_errors", "strip_newline"}
    assert [key for key in sorted(keys) if f"`{key}`" not in page] == []
