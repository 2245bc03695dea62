"""One step of a shell node, run as it is."""

import json
import os

import pytest

import graphmill as gm
from graphmill.core.result import Kind
from graphmill.graph.node_type import Context
from graphmill.graph.registry import find_node_type
from graphmill.graph.run.step import read_params
from support.hostile_values import MARKER, UNSENDABLE, VALUES
from support.node_steps import ONCE, check, output_of_step, problem_of, result_of_step


def outputs(command, **params):
    return output_of_step("shell", command=command, **params).values


def failure(command, **params):
    return result_of_step("shell", command=command, **params).error


def in_folder(folder, command, **params):
    """Run a step of a workflow whose file stands in a folder; give its result."""
    node_type = find_node_type("shell")
    call = node_type.call(read_params(node_type, {"command": command, **params}), Context("n", root=folder))
    (result,) = gm.batch(call.function, [call.value], policy=ONCE).results()
    return result


def test_what_a_command_writes_is_given_as_it_is():
    assert outputs("printf ' a\\n\\n'; printf 'b\\r\\n' >&2; exit 3", ok_codes=[0, 3]) == {
        "stdout": " a\n\n",
        "stderr": "b\r\n",
        "exit_code": 3,
    }


def test_a_script_may_begin_as_an_option_does():
    assert failure("-e").message.startswith("exit code 127")


def test_bytes_that_are_no_text_are_replaced():
    assert outputs("printf 'a\\377b'")["stdout"] == "a\ufffdb"


def test_args_are_the_positional_parameters():
    args = [*VALUES.values()][:-2]
    assert outputs("printf '%s\\0' \"$@\"", args=args)["stdout"].split("\0")[:-1] == args


@pytest.mark.parametrize("count", [1, 12, 1000, 1001, 5000])
def test_there_may_be_many_args_and_none_is_left_among_the_variables(count):
    found = outputs(
        'printf "%s " "$#" "${12-}" "$(env | grep -c GRAPHMILL_VALUE)"; for last; do :; done; echo "$last"',
        args=list(range(count)),
    )
    assert found["stdout"].split(" ") == [str(count), "11" if count >= 12 else "", "0", f"{count - 1}\n"]


def test_args_are_not_among_the_words_of_the_shell():
    found = outputs("tr '\\0' ' ' < /proc/$$/cmdline; echo \"$1\"", args=["private"])
    words, given = found["stdout"].rsplit(" ", 1)
    assert ("private" in words, given) == (False, "private\n")


def test_args_and_variables_that_are_no_text_are_written_as_templates_write_them():
    found = outputs('printf "%s|" "$@" "$N"', args=[1, 1.5, True, None, {"a": ["é"]}], env={"N": 7})
    assert found["stdout"] == '1|1.5|true||{"a":["é"]}|7|'


@pytest.mark.parametrize("name", VALUES)
def test_a_value_arrives_by_env_and_by_stdin(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    value = VALUES[name]
    found = outputs('cat; printf "\\0%s" "$X"', stdin=value, env={"X": value})
    assert found["stdout"].split("\0") == [value, value]
    assert not (tmp_path / MARKER).exists()


@pytest.mark.parametrize("given", [{"a": ["é", None, 1]}, [1, "\0"], "text", "", 12, True, None, "0" * 3_000_000])
def test_stdin_is_text_or_json(given):
    found = outputs(
        "wc -c | tr -d ' \\n'; wc -c | tr -d ' \\n'" if isinstance(given, str) and len(given) > 100 else "cat",
        stdin=given,
    )["stdout"]
    if isinstance(given, dict | list):
        assert json.loads(found) == given
    else:
        assert found == {12: "12", True: "true", None: ""}.get(given, given if len(str(given)) < 100 else "30000000")


def test_a_command_need_not_read_what_it_is_given():
    assert outputs("exec 0<&-; echo done", stdin="x" * 3_000_000)["stdout"] == "done\n"


@pytest.mark.parametrize("name", UNSENDABLE)
@pytest.mark.parametrize("param", ["args", "env"])
def test_what_no_argument_can_hold_fails_for_good(param, name):
    value = UNSENDABLE[name]
    found = failure("echo x", **{param: [value] if param == "args" else {"X": value}})
    assert found.kind is Kind.PERMANENT
    assert ("stdin" in found.message) is ("surrogate" not in name and "byte" not in name)
    assert f"{param}." in found.message


@pytest.mark.parametrize(("length", "is_sent"), [(131_040, True), (131_072, False)])
def test_an_argument_may_have_less_than_128_kib(length, is_sent):
    result = result_of_step("shell", command='printf %s "$1" | wc -c', args=["x" * length])
    assert (result.error is None) is is_sent
    assert not is_sent or result.output["stdout"].strip() == str(length)


def test_too_many_values_are_refused_with_a_remedy():
    found = failure("echo x", args=["x" * 130_000] * 200)
    assert found.kind is Kind.PERMANENT
    assert "stdin" in found.message


def test_the_environment_is_ours_and_what_is_given(monkeypatch):
    monkeypatch.setenv("GRAPHMILL_TEST_INHERITED", "yes")
    found = outputs('printf %s "$GRAPHMILL_TEST_INHERITED $GIVEN $HOME"', env={"GIVEN": "too", "HOME": "/other"})
    assert found["stdout"] == "yes too /other"
    assert "GIVEN" not in os.environ


def test_cwd_is_seen_from_the_workflow(tmp_path):
    (tmp_path / "a b").mkdir()
    assert in_folder(tmp_path, "pwd -P").output["stdout"] == f"{tmp_path.resolve()}\n"
    assert in_folder(tmp_path, "pwd -P", cwd="a b").output["stdout"] == f"{tmp_path.resolve()}/a b\n"
    assert in_folder(tmp_path, "pwd -P", cwd="/").output["stdout"] == "/\n"


@pytest.mark.parametrize(
    ("cwd", "value", "leads_to"),
    [
        ("${v}", "in", "flow/in"),
        ("${v}", ".", "flow"),
        ("in/${v}", "deep", "flow/in/deep"),
        ("../beside/${v}", "deep", "beside/deep"),
        ("${v}", "..", None),
        ("${v}", "/", None),
        ("in/${v}", "..", None),
        ("../beside/${v}", "../flow", None),
        ("${v}", "link", None),
    ],
)
def test_a_template_in_cwd_leads_no_further_than_below_what_is_written_before_it(tmp_path, cwd, value, leads_to):
    for name in ("flow/in/deep", "beside/deep"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "flow" / "link").symlink_to(tmp_path / "beside")
    workflow = tmp_path / "flow" / "w.yaml"
    workflow.write_text(
        f'{{inputs: {{v: {{}}}}, nodes: [{{id: a, type: shell, params: {{command: pwd -P, cwd: "{cwd}"}}}}]}}'
    )
    result = gm.run(str(workflow), {"v": value})
    if leads_to is None:
        assert result.error.kind is Kind.PERMANENT
        assert "cwd" in result.error.message
    else:
        assert result.output["stdout"] == f"{(tmp_path / leads_to).resolve()}\n"


@pytest.mark.parametrize(
    ("command", "kind", "said"),
    [
        ("echo first >&2; echo why >&2; exit 3", Kind.TRANSIENT, "exit code 3: first\nwhy"),
        ("exit 1", Kind.TRANSIENT, "exit code 1: (nothing on"),
        ("graphmill-no-such-command", Kind.PERMANENT, "exit code 127 (the command was not found)"),
        ("/", Kind.PERMANENT, "exit code 126 (the command cannot be executed)"),
        ("kill -SEGV $$", Kind.TRANSIENT, "killed by SIGSEGV"),
        ("sh -c 'kill -KILL $$'; exit $?", Kind.TRANSIENT, "exit code 137 (killed by SIGKILL)"),
        ("if", Kind.TRANSIENT, "exit code 2"),
    ],
)
def test_a_failure_says_how_it_ended_and_what_it_wrote_last(command, kind, said):
    found = failure(command)
    assert found.kind is kind
    assert found.message.startswith(said)


def test_a_failure_holds_the_end_of_a_long_stderr():
    found = failure("yes complaint | head -c 3000000 >&2; echo the reason >&2; exit 1")
    assert found.message.endswith("the reason")
    assert len(found.message) < 3_000


def test_output_is_cut_with_a_mark():
    found = outputs("printf é; yes é | head -c 5000000; head -c 1500000 /dev/zero >&2")
    text, mark = found["stdout"].split("\n[output cut: ")
    assert len(text.encode()) in (999_999, 1_000_000)
    assert "\ufffd" not in text
    assert mark == "4,000,002 more bytes; the first 1,000,000 are above]\n"
    assert "500,000 more bytes" in found["stderr"]


def test_output_of_a_million_bytes_is_whole():
    assert outputs("head -c 1000000 /dev/zero | tr '\\0' x")["stdout"] == "x" * 1_000_000


@pytest.mark.parametrize(
    ("params", "at", "said"),
    [
        ({"command": "a\0b"}, ("command",), "NUL"),
        ({"command": "#" * 140_000}, ("command",), "file"),
        ({"command": {"env": "X"}}, ("command",), "text"),
        ({"command": "eval ${x}"}, ("command",), "${x} is not safe in this place: it follows eval"),
        ({"command": "a ${x} `${y}`"}, ("command",), "one of ${x}, ${y}"),
        ({"command": "a", "args": ["b", {"env": "X"}]}, ("args", 1), "env or stdin"),
        ({"command": "a", "env": {"A-B": "x"}}, ("env", "A-B"), "not a variable name"),
        ({"command": "a", "env": {"GRAPHMILL_VALUE_1": "x"}}, ("env", "GRAPHMILL_VALUE_1"), "reserved"),
        ({"command": "a", "env": {"PATH": "${x}:/bin"}}, ("env", "PATH"), "another name"),
        ({"command": "a", "env": {"env": "X"}}, ("env",), "under a name"),
        ({"command": "a", "ok_codes": []}, ("ok_codes",), "empty"),
    ],
)
def test_what_is_wrong_is_found_before_the_first_item(params, at, said):
    found_at, found = problem_of("shell", **params)
    assert found_at == at
    assert said in found


def test_a_refusal_names_the_ways_out():
    assert all(way in problem_of("shell", command="sh -c ${x}")[1] for way in ("env", "args", "stdin"))


def test_variables_of_the_shell_are_its_own():
    check("shell", command='echo "$${HOME:-x}" $HOME "$1" "$@" $? ${x}', env={"PATH": "/bin", "A": {"env": "X"}})
    assert outputs("A=1; echo ${A} ${B:-2}")["stdout"] == "1 2\n"
