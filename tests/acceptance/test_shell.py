"""The shell node in workflow files: values are data in every place, and nothing that a command starts outlives it."""

import os
import signal
import time

import pytest

import graphmill as gm
from graphmill.cli.signals import ECHO_S
from support.command import HANG_S, Command, rows, write_items
from support.flows import PROMPT
from support.hostile_values import MARKER, UNSENDABLE, VALUES
from support.remains import is_alive, pids_in, wait_until

EVERY_PLACE = r"""
nodes:
  - id: s
    type: shell
    params:
      command: |
        printf '%s\0' ${x} "${x}" "$(printf '%s.' "$1")" "$1" "$X"  # ${x}
        case ${x} in "${x}") printf 'same\0';; *) printf 'other\0';; esac
        cat
      args: ["${x}"]
      stdin: "${x}"
      env: {X: "${x}"}
inputs: {x: {required: true}}
"""
SLEEPER = """
nodes:
  - id: s
    type: shell
    params: {command: 'sh -c "echo \\$\\$ > c.tmp; mv c.tmp c.pid; sleep 600" & echo $$ > p.tmp; mv p.tmp p.pid; wait'}
"""


def test_every_hostile_value_arrives_in_every_place(flow):
    graph = flow.load(EVERY_PLACE)
    found = {
        result.job_id: result
        for result in gm.batch(graph, [{"id": name, "x": value} for name, value in VALUES.items()]).results()
    }
    for name, value in VALUES.items():
        assert found[name].error is None, (name, found[name].error)
        assert found[name].output["stdout"] == f"{value}\0" * 2 + f"{value}.\0" + f"{value}\0" * 2 + f"same\0{value}", (
            name
        )
    assert not list(flow.folder.rglob(MARKER))


@pytest.mark.parametrize("name", UNSENDABLE)
def test_what_can_not_be_sent_fails_once_and_says_how_it_could(flow, name):
    error = flow.failure(
        "inputs: {x: {}}\nnodes: [{id: s, type: shell, params: {command: 'echo ${x}'}}]", {"x": UNSENDABLE[name]}
    )
    assert error.kind == "permanent"
    assert ("stdin" in error.message) is ("surrogate" not in name and "byte" not in name)
    assert "template 1" in error.message
    assert len(error.message) < 300


def test_values_that_are_no_text_stand_as_templates_write_them(flow):
    text = "inputs: {x: {}}\nnodes: [{id: s, type: shell, params: {command: 'printf %s ${x}', stdin: '${x}'}}]"
    assert flow.output(text, {"x": {"a": [1, "é"]}})["stdout"] == '{"a":[1,"é"]}'


def test_output_is_read_by_later_nodes(flow):
    text = """
        nodes:
          - {id: list, type: shell, params: {command: "printf '[\\"a b\\", \\"c\\"]'"}}
          - {id: each, type: shell, params: {command: 'printf "<%s>" ${item}'}, batch: {items: "${list.stdout}", parallel: true}}
    """
    assert [entry["stdout"] for entry in flow.output(text)["results"]] == ["<a b>", "<c>"]


def test_a_failed_command_is_tried_again(flow):
    text = "nodes: [{id: s, type: shell, params: {command: 'echo x >> tries; [ $(wc -l < tries) -eq 3 ]'}}]"
    assert flow.output(text)["exit_code"] == 0
    assert (flow.folder / "tries").read_text() == "x\n" * 3


def test_a_command_that_is_not_found_is_not(flow):
    error = flow.failure(
        "nodes: [{id: s, type: shell, params: {command: 'echo x >> tries; graphmill-no-such-command'}}]"
    )
    assert (error.kind, (flow.folder / "tries").read_text()) == ("permanent", "x\n")


def test_a_secret_reaches_the_command_and_no_record(flow, monkeypatch):
    monkeypatch.setenv("GRAPHMILL_TEST_KEY", "hunter2-secret")
    text = """
        nodes:
          - id: s
            type: shell
            params:
              command: 'printf %s "$KEY" | wc -c > length; echo "key $KEY"; echo "why $KEY" >&2; exit ${code}'
              env: {KEY: {env: GRAPHMILL_TEST_KEY}}
        inputs: {code: {}}
    """
    journal = flow.folder / "runs.db"
    report = gm.batch(flow.load(text), [{"code": 0}, {"code": 1}], journal=journal, policy=PROMPT)
    good, bad = report.results()
    assert (flow.folder / "length").read_text().strip() == "14"
    assert (good.output["stdout"], good.output["stderr"]) == (
        "key {env: GRAPHMILL_TEST_KEY}\n",
        "why {env: GRAPHMILL_TEST_KEY}\n",
    )
    assert bad.error.message == "exit code 1: why {env: GRAPHMILL_TEST_KEY} (in node 's')"
    assert not [path for path in flow.folder.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]


def test_a_secret_that_a_child_is_given_is_concealed_there_too(flow, monkeypatch):
    monkeypatch.setenv("GRAPHMILL_TEST_KEY", "hunter2-secret")
    text = """
        nodes:
          - id: w
            type: workflow
            params:
              inputs: {key: {env: GRAPHMILL_TEST_KEY}}
              workflow:
                inputs: {key: {required: true}}
                nodes: [{id: s, type: shell, params: {command: 'printf %s "$KEY" ${key}', env: {KEY: "${key}"}}}]
    """
    assert flow.output(text)["stdout"] == "{env: GRAPHMILL_TEST_KEY}" * 2


def test_a_time_out_ends_the_command_and_its_children(flow):
    began = time.monotonic()
    error = flow.failure(
        SLEEPER.replace("params: {", "params: {timeout: 0.5, "), policy=gm.Policy(retry=gm.Retry(attempts=1))
    )
    assert (error.kind, "timed out after 0.5 s" in error.message) == ("timeout", True)
    assert time.monotonic() - began < HANG_S
    wait_until(lambda: not any(map(is_alive, pids_in(flow.folder, 2))))


def test_a_hundred_at_once(flow):
    graph = flow.load("inputs: {n: {}}\nnodes: [{id: s, type: shell, params: {command: 'echo ${n}; sleep 0.05'}}]")
    results = gm.batch(graph, [{"n": n} for n in range(300)], concurrency=100).results()
    assert sorted(int(result.output["stdout"]) for result in results) == list(range(300))


def test_what_a_command_started_ends_when_graphmill_is_killed(tmp_path):
    (tmp_path / "w.yaml").write_text(SLEEPER)
    with Command(tmp_path, "run", "w.yaml") as command:
        pids = pids_in(tmp_path, 2)
        command.process.kill()
        command.process.wait(HANG_S)
        wait_until(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize("last", ["repeat to exit", None])
def test_interrupted_the_command_line_leaves_no_command_behind(tmp_path, last):
    (tmp_path / "w.yaml").write_text(SLEEPER)
    with Command(tmp_path, "batch", "w.yaml", "--source", write_items(tmp_path, [{}])) as command:
        pids = pids_in(tmp_path, 2)
        for said in ("repeat to cancel", last):
            command.send(signal.SIGINT)
            if said is not None:
                command.until_said(said)
            time.sleep(ECHO_S)
        command.send(signal.SIGINT)
        assert command.wait() == 130
        wait_until(lambda: not any(map(is_alive, pids)))


def test_a_drain_lets_a_command_finish(tmp_path):
    (tmp_path / "w.yaml").write_text(
        "nodes: [{id: s, type: shell, params: {command: 'touch started; while ! [ -f go ]; do sleep 0.01; done; echo whole'}}]"
    )
    with Command(
        tmp_path, "batch", "w.yaml", "--source", write_items(tmp_path, [{}]), "--output", "out.jsonl"
    ) as command:
        wait_until((tmp_path / "started").exists)
        os.killpg(command.process.pid, signal.SIGINT)
        (tmp_path / "go").touch()
        assert command.process.wait(HANG_S) in (0, 130)
    (row,) = rows(next(tmp_path.glob("out*.jsonl")))
    assert row["output"]["stdout"] == "whole\n"
