"""The real command, as a person runs it."""

import json
import os
import pty
import re
import shlex
import subprocess
from pathlib import Path

import pytest

import graphmill as gm
from support import warm
from support.command import COMMAND, environment, rows, run, write_items

ROOT = Path(__file__).parents[2]

FUNCTIONS = """
import graphmill as gm

async def double(value):
    if value == "bad":
        raise gm.Permanent("can not double \\x1b[31mbad")
    return value * 2

def plain(value):
    return value
"""

WORKFLOW = """
name: doubling
inputs: {value: {required: true}, note: {default: none}}
nodes:
  - {id: twice, type: python, params: {function: "functions:double", inputs: {value: "${value}"}}}
  - {id: row, type: value, params: {twice: "${twice.result}", note: "${note}"}}
outputs: {twice: "${row.twice}", note: "${row.note}"}
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    (tmp_path / "doubling.yaml").write_text(WORKFLOW)
    return tmp_path


def test_items_from_a_file_become_results_in_a_file(project):
    write_items(project, [{"id": f"item-{number}", "value": number} for number in range(500)])
    code, out, err = run(
        project, "batch", "doubling.yaml", "note=hello", "--source", "items.jsonl", "-c", 8, "-o", "out.jsonl"
    )
    assert code == 0, err
    assert out.startswith("500/500 items succeeded · ")
    assert re.match(r"doubling · run \w{5} · items from items.jsonl · concurrency 8\n", err)
    found = {row["id"]: row for row in rows(project / "out.jsonl")}
    assert len(found) == 500
    assert found["item-7"]["output"] == {"twice": 14, "note": "hello"}
    assert found["item-7"]["input"] == {"id": "item-7", "value": 7}
    assert sorted(path.name for path in project.glob(".*.tmp")) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("items.json", '[{"value": 1}, {"value": "é"}]'),
        ("items.yaml", "- value: 1\n- value: é\n"),
        ("items.csv", "value\r\n1\r\né\r\n"),
        ("items.jsonl", '{"value": 1}\n\n{"value": "é"}\n'),
    ],
)
def test_items_are_read_in_every_format(project, name, text):
    (project / name).write_text(text, newline="", encoding="utf-8")
    code, _, err = run(project, "batch", "doubling.yaml", "--source", name, "--output", "out.json")
    assert code == 0, err
    outputs = [row["output"]["twice"] for row in json.loads((project / "out.json").read_text())]
    assert outputs == ["11" if name.endswith("csv") else 2, "éé"]


def test_standard_input_and_standard_output_are_pipes(project):
    (project / "functions.py").write_text(FUNCTIONS.replace("return value * 2", "print('noise'); return value * 2"))
    code, out, err = run(
        project, "batch", "doubling.yaml", "-s", "-", "-o", "-", stdin=b'{"value": 3}\n{"value": "x\xe2\x80\xa8y"}\n'
    )
    assert code == 0, err
    assert sorted(str(json.loads(line)["output"]["twice"]) for line in out.split("\n") if line) == [
        "6",
        "x\u2028yx\u2028y",
    ]
    assert "2/2 items succeeded" in err
    assert err.count("noise") == 2


def test_csv_on_standard_input_that_is_not_named_so_is_told_with_the_remedy(project):
    code, _, err = run(project, "batch", "doubling.yaml", "-s", "-", stdin=b"id,value\n1,2\n")
    assert (code, "standard input: line 1" in err, "if it is CSV, use --source-format csv" in err) == (
        65,
        True,
        True,
    ), err


def test_failures_that_are_alike_are_one_line_and_the_exit_status_tells(project):
    write_items(project, [{"id": f"row-{number}", "value": "bad" if number < 8 else 1} for number in range(20)])
    code, out, err = run(project, "batch", "doubling.yaml", "--source", "items.jsonl")
    assert code == 3, err
    lines = out.splitlines()
    assert lines[0].startswith("12/20 items succeeded, 8 failed · ")
    assert len(lines) == 5
    assert lines[1] == "  8 ×   permanent   can not double  [31mbad (in node 'twice')"
    assert [line.split()[1] for line in lines[2:]] == ["errors", "retry", "export"]
    assert "\x1b" not in out


def test_the_summary_names_the_file_that_was_written_and_proposes_an_export_only_without_one(project):
    write_items(project, [{"id": "1", "value": 1}])
    asked = ("batch", "doubling.yaml", "--source", "items.jsonl")
    (project / "out").mkdir()
    out = run(project, *asked, "--output", "out/rows.jsonl")[1]
    assert ("results in out/rows.jsonl\n" in out, "graphmill export" in out) == (True, False), out
    out = run(project, *asked)[1]
    assert ("results in" in out, "graphmill export" in out) == (False, True), out


@pytest.mark.parametrize(("more", "words"), [((), ""), (("--offset", "3"), " within --offset and --limit")])
@pytest.mark.parametrize("name", ["items.jsonl", "items.json", "items.csv"])
def test_a_source_without_items_is_noted(project, name, more, words):
    (project / name).write_text({"items.jsonl": "\n", "items.json": "[]", "items.csv": "value\n"}[name])
    code, out, _ = run(project, "batch", "doubling.yaml", "--source", name, *more)
    assert (code, out.splitlines()[0]) == (0, f"note: {name} has no items{words}")


def test_tolerated_failures_are_exit_0_and_all_failed_never_is(project):
    write_items(project, [{"value": "bad" if number == 5 else 1} for number in range(20)])
    assert run(project, "batch", "doubling.yaml", "-s", "items.jsonl", "--max-failures", "1")[0] == 0
    assert run(project, "batch", "doubling.yaml", "-s", "items.jsonl", "--max-failures", "5%")[0] == 0
    assert run(project, "batch", "doubling.yaml", "-s", "items.jsonl", "--max-failures", "0")[0] == 3
    write_items(project, [{"value": "bad"}] * 3)
    assert run(project, "batch", "doubling.yaml", "-s", "items.jsonl", "--max-failures", "100%")[0] == 3


def test_too_many_failures_stop_the_batch_and_the_summary_says_so(project):
    write_items(project, [{"value": "bad"}] * 3000)
    code, out, err = run(project, "batch", "doubling.yaml", "-s", "items.jsonl", "--max-failures", "2", "-o", "out.csv")
    assert code == 3, err
    assert "stopped: max_failures" in out.splitlines()[0]
    assert "pending" in out
    assert (project / "out.partial.csv").read_text().startswith("id,status,input.value,")


def test_an_empty_source_is_done_at_once(project):
    write_items(project, [])
    code, out, _ = run(project, "batch", "doubling.yaml", "-s", "items.jsonl", "-o", "out.jsonl")
    assert (code, out.splitlines()[1].split(" · ")[0]) == (0, "0/0 items succeeded")
    assert (project / "out.jsonl").read_bytes() == b""


def test_limit_offset_and_id_choose_and_name_the_items(project):
    write_items(project, [{"key": f"k{number}", "value": number} for number in range(10)])
    code, out, err = run(
        project,
        "batch",
        "doubling.yaml",
        "-s",
        "items.jsonl",
        "--offset",
        4,
        "--limit",
        3,
        "--id",
        "key",
        "-o",
        "out.jsonl",
        "--json",
    )
    assert code == 0, err
    assert sorted(row["id"] for row in rows(project / "out.jsonl")) == ["k4", "k5", "k6"]
    assert json.loads(out)["statistics"]["total"] == 3


def test_the_summary_as_json_is_one_object(project):
    write_items(project, [{"value": "bad"}, {"value": 1}])
    code, out, _ = run(project, "batch", "doubling.yaml", "-s", "items.jsonl", "--json")
    told = json.loads(out)
    assert code == 3
    assert (told["summary"], told["stopped"], told["error"]) == ("1/2 items succeeded, 1 failed", None, None)
    assert told["statistics"]["errors"][0]["count"] == 1


def test_a_damaged_source_is_exit_65_with_its_place_and_what_was_done_is_kept(project):
    (project / "items.jsonl").write_text('{"value": 1}\n{"value": 2}\n{"value": \n{"value": 4}\n')
    code, out, err = run(project, "batch", "doubling.yaml", "-s", "items.jsonl", "-o", "out.jsonl")
    assert code == 65
    assert "items.jsonl: line 3, column 11: not JSON" in err
    assert "2/4 items succeeded, 2 pending" in out
    assert len(rows(project / "out.partial.jsonl")) == 2
    assert not (project / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["batch", "doubling.yaml"], "Missing option '--source'"),
        (["batch", "doubling.yaml", "-s", "items.jsonl", "-c", "abc"], "--concurrency must be an integer, got 'abc'"),
        (["batch", "doubling.yaml", "-s", "items.jsonl", "--limit", "-1"], "--limit must be a number >= 0, got '-1'"),
        (
            ["batch", "doubling.yaml", "-s", "items.jsonl", "--temperature", "999"],
            "--temperature must be a number from 0 to 100, got '999'",
        ),
        (
            ["batch", "doubling.yaml", "-s", "items.jsonl", "--on-change", "foo"],
            "--on-change must be one of 'refuse', 'invalidate', 'keep', got 'foo'",
        ),
        (["batch", "functions.py", "-s", "items.jsonl"], "functions.py is a Python file"),
        (["batch", "missing.yaml", "-s", "items.jsonl"], "no workflow file 'missing.yaml'"),
        (["batch", "doubling.yml", "-s", "items.jsonl"], "did you mean 'doubling.yaml'?"),
        (["batch", "doubling.yaml", "-s", "item.jsonl"], "did you mean 'items.jsonl'?"),
        (["batch", "doubling.yaml", "-s", "functions.py"], "cannot tell the format of"),
        (["batch", "doubling.yaml", "-s", "items.jsonl", "--source-format", "jsnl"], "did you mean 'json"),
        (["batch", "doubling.yaml", "nte=1", "-s", "items.jsonl"], "did you mean 'note'?"),
        (["batch", "doubling.yaml", "note", "-s", "items.jsonl"], "NAME=VALUE"),
        (
            ["batch", "doubling.yaml", "-s", "items.jsonl", "--timeout", "0"],
            "--timeout must be a number of seconds > 0",
        ),
        (
            ["batch", "doubling.yaml", "-s", "items.jsonl", "--max-failures", "few"],
            "--max-failures must be a number such as 10",
        ),
        (["batch", "doubling.yaml", "-s", "items.jsonl", "-o", "out.xlsx"], "cannot tell the format of 'out.xlsx'"),
        (["batch", "doubling.yaml", "-s", "items.jsonl", "-o", "no/such/out.csv"], "no folder"),
        (["batch", "doubling.yaml", "-s", "items.jsonl", "-o", "./items.jsonl"], "would overwrite the items"),
        (["batch", "doubling.yaml", "-s", "items.jsonl", "-o", "-", "--json"], "both write to standard output"),
        (
            ["batch", "doubling.yaml", "-s", "items.jsonl", "--samples", "0"],
            "--samples",
        ),
        (["runs", "--limit", "0"], "--limit"),
        (["btch"], "'btch' (did you mean 'batch'?)"),
        (["items", "x"], "'items' (did you mean 'results'?)"),
        (["prune"], "did you mean 'runs prune'?"),
        (["batch", "doubling.yaml", "-s", "items.jsonl", "--cuncurrency", "3"], "No such option"),
    ],
)
def test_a_wrong_argument_is_exit_2_and_says_what_would_be_right(project, arguments, message):
    write_items(project, [{"value": 1}])
    code, out, err = run(project, *arguments)
    assert code == 2, (out, err)
    assert message in err
    assert "Traceback" not in err
    assert not list(project.glob("*out*"))
    assert not list(project.glob(".*.tmp"))


def test_all_mistakes_of_a_workflow_are_shown_at_once(project):
    (project / "bad.yaml").write_text(
        "nodes:\n - {id: a, type: pyton}\n - {id: a, type: value, params: {x: '${later}'}}\n"
        " - {id: c, type: value, parms: {}}\noutputs: {z: '${'}\n"
    )
    code, _, err = run(project, "batch", "bad.yaml", "-s", write_items(project, []))
    assert code == 2
    for message in (
        "did you mean 'python'?",
        "the name 'a' is already used by a node",
        "${later}: no node or input 'later'",
        "'${': missing closing }",
        "unknown key 'parms' (did you mean 'params'?)",
    ):
        assert message in err


def test_the_rows_of_a_broken_run_do_not_replace_the_source_either(project):
    write_items(project, [{"value": 1}], "items.partial.jsonl")
    code, _, err = run(project, "batch", "doubling.yaml", "-s", "items.partial.jsonl", "-o", "items.jsonl")
    assert code == 2
    assert "would overwrite the items" in err


def test_a_file_that_no_run_of_the_journal_wrote_is_not_replaced(project):
    def batch(*more):
        code, _, err = run(project, "batch", "doubling.yaml", "-s", "items.jsonl", "-o", "out.jsonl", *more)
        return code, "no run of this journal wrote it" in err

    write_items(project, [{"value": 1}])
    (project / "out.jsonl").write_text("mine\n")
    assert (batch(), batch("--no-journal")) == ((2, True), (2, True))
    assert (project / "out.jsonl").read_text() == "mine\n"
    assert (batch("--run-id", "r", "--force"), batch()) == ((0, False), (0, False))
    (project / "other.jsonl").write_text("mine\n")
    assert run(project, "resume", "r", "-o", "other.jsonl")[0] == 2
    assert run(project, "resume", "r", "-o", "other.jsonl", "--force")[0] == 0
    assert run(project, "resume", "r", "-o", "other.jsonl")[0] == 0


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "2>/dev/full"])
def test_a_batch_runs_though_nobody_can_hear_it(project, closed):
    write_items(project, [{"value": 1}])
    command = f"{' '.join(COMMAND)} batch doubling.yaml -s items.jsonl -o out.jsonl {closed}"
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=project, capture_output=True, timeout=60, env=environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(rows(project / "out.jsonl")) == 1


RESULTS = [
    "batch doubling.yaml -s items.jsonl -o -",
    "batch doubling.yaml -s items.jsonl --json",
    "run doubling.yaml value=1",
    "export r -",
    "status r --json",
]


@pytest.mark.parametrize(("stdout", "reason"), [(">&-", "it is closed"), (">/dev/full", "No space left on device")])
@pytest.mark.parametrize("command", RESULTS)
def test_results_that_can_not_be_written_to_standard_output_are_an_error_that_names_it(
    project, command, stdout, reason
):
    write_items(project, [{"value": 1}])
    run(project, "batch", "doubling.yaml", "-s", "items.jsonl", "--run-id", "r")
    line = f"{' '.join(COMMAND)} {command} {stdout}"
    done = subprocess.run(
        ["/bin/sh", "-c", line], cwd=project, capture_output=True, timeout=60, env=environment(), check=False
    )
    assert done.returncode == 74, done.stderr
    assert f"error: cannot write standard output: {reason}" in done.stderr.decode()


def test_a_file_that_can_not_be_written_is_named(project):
    write_items(project, [{"value": 1}])
    for command in ("batch doubling.yaml -s items.jsonl --run-id r -o /dev/full", "export r /dev/full"):
        code, _, err = run(project, *command.split())
        assert code == 74
        assert "error: cannot write '/dev/full': No space left on device" in err


def test_a_journal_that_is_full_is_reported_once(project):
    write_items(project, [{"value": number, "text": "x" * 5000} for number in range(1000)])
    limited = ["sh", "-c", 'ulimit -f 1000; exec "$@"', "sh", *COMMAND, "batch", "doubling.yaml", "-s", "items.jsonl"]
    done = subprocess.run(limited, cwd=project, capture_output=True, timeout=60, env=environment(), check=False)
    assert done.returncode == 74
    assert done.stderr.decode().count("runs.db") == 1, done.stderr


def test_an_answer_that_can_not_be_written_says_where(project):
    done = subprocess.run(
        ["/bin/sh", "-c", f"{' '.join(COMMAND)} nodes >/dev/full"], cwd=project, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (74, b"error: cannot write standard output: No space left on device\n")


def test_the_version_and_the_help_name_what_there_is():
    assert run(ROOT, "--version")[1] == "graphmill 0.1.0\n"
    code, out, _ = run(ROOT, "--help")
    assert code == 0
    assert "batch" in out
    code, out, _ = run(ROOT, "batch", "--help")
    assert code == 0
    assert "Example: graphmill batch" in out


def test_the_example_in_the_help_of_run_runs():
    words = " ".join(run(ROOT, "run", "--help")[1].replace("│", " ").split())
    example = shlex.split(re.search(r"Example: graphmill (run .+?) Exit status", words)[1])
    code, out, err = run(ROOT, *example, "--no-journal")
    assert (code, "score" in out) == (0, True), err


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["validate", "doubling.yaml"], "graphmill.journal"),
        (["nodes", "value"], "graphmill.journal"),
    ],
)
def test_a_command_does_not_load_what_it_has_no_use_for(project, arguments, unneeded):
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=project,
        capture_output=True,
        env=environment(PYTHONPROFILEIMPORTTIME="1"),
        timeout=120,
        check=False,
    )
    loaded = {
        line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines() if line.startswith("import time:")
    }
    assert done.returncode == 0, done.stderr
    assert "typer" in loaded
    assert unneeded not in loaded


def test_an_id_field_that_the_first_item_lacks_is_refused_before_a_run_is_recorded(project):
    write_items(project, [{"value": 1}, {"value": 2}])
    code, out, err = run(project, "batch", "doubling.yaml", "-s", "items.jsonl", "--id", "qid")
    assert (code, out) == (2, "")
    assert (
        err
        == "error: the item at position 0 has no id: it has no field 'qid', only 'value'; add one, or name another field\n"
    )
    assert not (project / ".graphmill").exists()


def test_an_item_without_its_id_ends_the_run_and_once_it_has_one_resume_goes_on(project):
    items = [{"qid": 1, "value": 1}, {"value": 2}]
    write_items(project, items)
    code, out, err = run(project, "batch", "doubling.yaml", "-s", "items.jsonl", "--id", "qid", "--run-id", "r")
    assert code == 65
    assert "error: the source failed after 1 items: the item at position 1 has no id: " in err
    assert "graphmill resume r" in out
    write_items(project, [items[0], {"qid": 2, **items[1]}])
    assert run(project, "resume", "r")[1].startswith("2/2 items succeeded")


def test_on_a_terminal_progress_is_one_moving_line(project):
    write_items(project, [{"value": number} for number in range(50)])
    reader, writer = pty.openpty()
    process = warm.start(
        [*COMMAND, "batch", "doubling.yaml", "-s", "items.jsonl"],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=writer,
        env=environment(TERM="xterm-256color", COLUMNS="120"),
    )
    os.close(writer)
    out, _ = process.communicate(timeout=60)
    seen = b""
    while chunk := _read(reader):
        seen += chunk
    os.close(reader)
    assert "50/50 items succeeded" in out.decode()
    assert "━" in seen.decode()
    assert "50/50 · 0 running" in seen.decode()


def _read(descriptor):
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end is gone: the end of what a terminal shows
        return b""


WANDERING = """
import os

def wander(value):
    os.chdir("/")
    if value == "bad":
        raise RuntimeError("lost")
    return value
"""


@pytest.mark.parametrize("journal", [[], ["--journal", "mine.db"], ["--journal", "sqlite:///mine.db"]])
def test_a_function_that_changes_the_working_directory_changes_neither_journal_nor_files(project, journal):
    (project / "functions.py").write_text(WANDERING)
    (project / "wander.yaml").write_text(WORKFLOW.replace("double", "wander"))
    write_items(project, [{"value": "a"}, {"value": "bad"}])
    options = ["--run-id", "r", "-c", 1, *journal]
    code, out, err = run(
        project, "batch", "wander.yaml", "-s", "items.jsonl", "-o", "out.jsonl", "--retries", 0, *options
    )
    assert (code, "graphmill retry r" in out) == (3, True), err
    assert [row["status"] for row in rows(project / "out.jsonl")] == ["succeeded", "failed"]
    assert run(project, "retry", "r", *journal)[0] == 3
    assert run(project, "resume", "r", *journal)[0] == 3
    assert run(project, "run", "wander.yaml", "value=a", *journal)[:2] == (0, "twice: a\nnote: none\n")


def test_a_source_is_read_from_where_it_was_named(project, monkeypatch):
    monkeypatch.chdir(project)
    write_items(project, [1, 2])
    items = gm.source("items.jsonl")
    monkeypatch.chdir("/")
    assert (list(items), items.count(), items.name) == ([1, 2], 2, "items.jsonl")
