"""What commands print on a terminal fits its width; elsewhere it is left as it is."""

import os
import pty

import pytest

from graphmill.journal.records import RunState
from graphmill.journal.store import open_store
from support import warm
from support.command import COMMAND, answered, environment, run
from support.journal import MANIFEST, attempt, failed, record, step, succeeded

LONG = "the server at the other end of the line said that it can not answer this just now, and to ask later"


@pytest.fixture
def project(tmp_path):
    store = open_store(tmp_path / ".graphmill" / "runs.db")
    manifest = MANIFEST | {"graph": {"name": "a-rather-long-name-of-a-workflow"}}
    rows = [*(succeeded(f"item-{at}", at) for at in range(1200)), failed("HumanEval/1200", 1200, LONG, attempts=3)]
    more = [attempt("HumanEval/1200", 1, LONG), step("HumanEval/1200", "solve", {"text": f"{LONG} {LONG}"})]
    record(store, "k7f2", rows, more=more, state=RunState.PAUSED, reason="request", total=5000, manifest=manifest)
    store.close()
    return tmp_path


def printed(project, *arguments, columns, code=0):
    """Run a command on a terminal of this width; give the lines it prints there."""
    reader, writer = pty.openpty()
    env = environment(TERM="xterm", COLUMNS=str(columns))
    process = warm.start([*COMMAND, *arguments], cwd=project, stdout=writer, stderr=writer, env=env)
    os.close(writer)
    seen = b""
    while chunk := _read(reader):
        seen += chunk
    os.close(reader)
    assert process.wait(timeout=60) == code
    return seen.decode().replace("\r\n", "\n").splitlines()


def _read(descriptor):
    try:
        return os.read(descriptor, 65536)
    except OSError:  # a terminal is at its end when nobody writes to it
        return b""


@pytest.mark.parametrize("columns", [60, 100])
@pytest.mark.parametrize(
    "arguments",
    [
        ("runs",),
        ("status", "k7f2"),
        ("show", "k7f2"),
        ("show", "k7f2", "HumanEval/1200"),
        ("errors", "k7f2"),
        ("nodes",),
        ("nodes", "python"),
    ],
)
def test_no_line_is_wider_than_the_terminal(project, arguments, columns):
    lines = printed(project, *arguments, columns=columns)
    assert max(map(len, lines)) <= columns


def test_what_goes_elsewhere_than_to_a_terminal_is_left_as_it_is(project):
    assert f"  HumanEval/1200   permanent   {LONG} (3 attempts)\n" in answered(project, "errors", "k7f2", COLUMNS="80")


def test_a_text_that_is_wrapped_stays_in_its_column_and_the_id_whole(project):
    lines = printed(project, "errors", "k7f2", columns=80)
    at = next(
        number for number, line in enumerate(lines) if line.startswith("  HumanEval/1200   permanent   the server")
    )
    assert lines[at + 1].startswith(" " * len("  HumanEval/1200   permanent   ") + "it can not")


def test_the_list_of_runs_leaves_out_what_matters_least_where_there_is_no_room(project):
    head, line = printed(project, "runs", columns=80)
    assert head.split() == ["id", "state", "started", "graph", "items"]
    assert line.split()[0] == "k7f2"
    assert line.endswith("  1,200/5,000, 1 failed, 3,799 pending")


def test_an_error_is_wrapped_as_well(project):
    lines = printed(project, "models", "a-model-of-a-name-that-nobody-has", columns=60, code=2)
    assert lines[0].startswith("error: no model 'a-model-of-a-name-that-nobody-has'; write")
    assert max(map(len, lines)) <= 60


def test_rows_that_come_on_the_terminal_itself_have_lines_of_their_own(project):
    (project / "items.jsonl").write_text('{"id": "a", "text": "tea"}\n')
    lines = printed(
        project, "batch", "--prompt", "${text}", "-m", "scripted/x", "-s", "items.jsonl", "-o", "-", columns=80
    )
    assert any(line.startswith('{"id":"a"') for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_what_is_said_of_the_output_of_a_run_that_ended_early_is_wrapped_too(project):
    (project / "items.jsonl").write_text('{"word": "a"}\n{"word": \n')
    output = ("--output", "what-the-model-has-said-of-each-word.jsonl")
    lines = printed(
        project,
        "batch",
        "--prompt",
        "${word}",
        "-m",
        "scripted/echo",
        "-s",
        "items.jsonl",
        *output,
        columns=60,
        code=65,
    )
    (at,) = [number for number, line in enumerate(lines) if line.startswith("the run did not finish")]
    assert lines[at : at + 2] == [
        "the run did not finish; its results are in",
        "  what-the-model-has-said-of-each-word.partial.jsonl",
    ]


def test_the_failures_name_the_command_that_shows_what_the_model_said(project):
    (project / "graphmill.yaml").write_text("providers: {scripted: {address: rules.yaml}}")
    (project / "rules.yaml").write_text("rules: [{answer: four stars}]")
    (project / "stars.json").write_text('{"type": "object"}')
    (project / "items.jsonl").write_text('{"id": "a b", "word": "x"}\n')
    batch = (
        "batch",
        "--prompt",
        "${word}",
        "--schema",
        "stars.json",
        "-m",
        "scripted/echo",
        "-s",
        "items.jsonl",
        "--run-id",
        "r",
    )
    assert run(project, *batch)[0] == 3
    assert "\ngraphmill show r 'a b'   shows what the model said\n" in answered(project, "errors", "r")
    assert "answer: four stars" in answered(project, "show", "r", "a b")


def test_of_an_item_that_a_run_has_not_come_to_no_other_is_suggested(project):
    code, _, err = run(project, "show", "k7f2", "item-4000")
    assert code == 2
    assert "no record of an item 'item-4000'; it is still pending, or does not exist" in err


def test_a_resume_with_another_file_is_refused_where_no_item_has_what_is_asked(project):
    (project / "items.jsonl").write_text('{"id": "a", "word": "x"}\n')
    (project / "other.jsonl").write_text('{"id": "b", "wrd": "x"}\n')
    batch = ("batch", "--prompt", "${word}", "-m", "scripted/echo", "-s", "items.jsonl")
    assert run(project, *batch, "--run-id", "r", "-o", "out.jsonl")[0] == 0
    before = (project / "out.jsonl").read_bytes()
    code, _, err = run(project, "resume", "r", "--source", "other.jsonl")
    assert (code, "no item of other.jsonl has a field 'word' (did you mean 'wrd'?)" in err) == (2, True), err
    assert (project / "out.jsonl").read_bytes() == before
    assert "1/1 items succeeded" in answered(project, "status", "r")
