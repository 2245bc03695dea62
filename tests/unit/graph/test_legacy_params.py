import json
from pathlib import Path

import pytest

import graphmill as gm
from support.http_server import Server, reply
from unit.graph.test_spec_reader import notes_of, problems_in, read


def old_node(node_type, **params):
    return {"ir_version": "0.1.0", "nodes": [{"id": "n", "type": node_type, "params": params}]}


def params_of(node_type, **params):
    return read(old_node(node_type, **params)).nodes[0].params


def output_of(folder, data):
    path = folder / "flow.json"
    path.write_text(json.dumps(data))
    return gm.run(path).output


@pytest.mark.parametrize(
    ("written", "stdout"), [({}, "a"), ({"strip_newline": True}, "a"), ({"strip_newline": False}, "a\n\n")]
)
def test_line_ends_behind_stdout_are_stripped_unless_the_node_says_otherwise(tmp_path, written, stdout):
    assert output_of(tmp_path, old_node("shell", command="printf 'a\\n\\n'", **written))["stdout"] == stdout


def test_line_ends_are_kept_in_workflows_of_today_unless_they_are_to_be_stripped(tmp_path):
    node = {"id": "n", "type": "shell", "params": {"command": "echo a"}}
    assert output_of(tmp_path, {"nodes": [node]})["stdout"] == "a\n"
    node["params"]["strip_newline"] = True
    assert output_of(tmp_path, {"nodes": [node]})["stdout"] == "a"


def test_ignored_errors_are_exit_codes_that_pass(tmp_path):
    data = old_node("shell", command="exit 42", ignore_errors=True)
    assert output_of(tmp_path, data)["exit_code"] == 42
    note = "every exit code passes, as there; a command that a signal has killed is a failure here"
    assert notes_of(data) == [f"node 'n': ignore_errors: {note}"]


@pytest.mark.parametrize("value", [False, None])
def test_errors_that_are_not_ignored_fail_as_they_do_here(value):
    assert "ok_codes" not in params_of("shell", command="exit 42", ignore_errors=value)
    assert notes_of(old_node("shell", command="exit 42", ignore_errors=value)) == []


@pytest.mark.parametrize(
    ("command", "name", "code"),
    [
        ("grep x file", "grep", 1),
        ("cat file |rg x", "rg", 1),
        ("which x", "which", 1),
        ("type x", "type", 127),
        ("command -v x", "command -v", 127),
        ("ls -l *.txt", "ls", 2),
    ],
)
def test_a_command_whose_failure_passed_there_is_noted(command, name, code):
    note = f"node 'n': command: that {name!r} finds nothing passed there, and fails here; ok_codes: [0, {code}] lets it pass"
    assert notes_of(old_node("shell", command=command)) == [note]
    assert notes_of(old_node("shell", command=command, ok_codes=[0, code])) == []


@pytest.mark.parametrize("command", ["ls folder", "echo grep", "./which x", "echo type x"])
def test_a_command_that_only_looks_like_one_is_not_noted(command):
    assert notes_of(old_node("shell", command=command)) == []


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ({"auth_token": "secret"}, {"authorization": "Bearer secret"}),
        (
            {"auth_token": "secret", "headers": {"Authorization": "other", "X-A": "1"}},
            {"authorization": "Bearer secret", "x-a": "1"},
        ),
        ({"api_key": "secret"}, {"x-api-key": "secret"}),
        ({"api_key": "secret", "api_key_header": "X-Key", "headers": {"x-key": "other"}}, {"x-key": "secret"}),
        ({"auth_token": "", "api_key": None, "api_key_header": "X-Key"}, {"authorization": "", "x-key": ""}),
    ],
)
def test_a_credential_of_an_http_node_is_sent(tmp_path, written, sent):
    with Server() as server:
        server.answer = lambda seen: reply(b"{}")
        output_of(tmp_path, old_node("http", url=server.url, **written))
        (seen,) = server.seen
    assert {name: seen.header(name) or "" for name in sent} == sent


def test_a_credential_that_is_read_as_it_was_meant_is_no_note():
    assert notes_of(old_node("http", url="http://a.example", auth_token="${token}")) == []


@pytest.mark.parametrize(
    ("node_type", "params", "problem"),
    [
        (
            "shell",
            {"ignore_errors": "${x}"},
            "ignore_errors: true or false is wanted, not '${x}'; ok_codes lists exit codes that pass",
        ),
        ("http", {"auth_token": "a", "api_key": "b"}, "api_key: auth_token is there already; leave one of them out"),
        (
            "http",
            {"auth_token": "a", "auth": {"bearer": "b"}},
            "auth_token: auth is there already; leave one of them out",
        ),
        (
            "http",
            {"api_key": "a", "api_key_header": "${x}"},
            "api_key_header: the name of a header is wanted, not '${x}'",
        ),
        (
            "http",
            {"api_key": "a", "headers": "${x}"},
            "api_key: it is sent as a header, and headers is no mapping; write the headers one by one",
        ),
    ],
)
def test_what_can_not_be_meant_is_told(node_type, params, problem):
    assert problems_in(old_node(node_type, **params)) == [f"node 'n': {problem}"]


@pytest.mark.parametrize(
    ("node_type", "params"),
    [("shell", {"command": "true", "ignore_errors": True}), ("http", {"url": "http://a.example", "api_key": "a"})],
)
def test_without_ir_version_they_are_unknown(tmp_path, node_type, params):
    (tmp_path / "flow.json").write_text(json.dumps({"nodes": [{"id": "n", "type": node_type, "params": params}]}))
    with pytest.raises(gm.WorkflowError, match="unknown key"):
        gm.load(tmp_path / "flow.json")


def test_the_page_of_differences_names_them():
    page = (Path(__file__).parents[3] / "docs" / "differences.md").read_text()
    keys = ("api_key", "api_key_header", "auth_token", "ignore_errors", "strip_newline")
    assert [key for key in keys if f"`{key}`" not in page] == []
