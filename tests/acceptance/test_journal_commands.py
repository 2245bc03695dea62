"""The commands that read the journal, or ask something of a live run, as a person runs them."""

import csv
import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Thread

import msgspec
import pytest

from graphmill.core.result import Kind, Status
from graphmill.core.usage import Usage
from graphmill.journal.records import (
    HELD,
    INTERRUPTED,
    STOPPING,
    AttemptRow,
    OrphansRow,
    RunRequest,
    RunRow,
    RunState,
    RunStatus,
    SuspectRow,
    WantedRow,
)
from graphmill.journal.store import open_store
from support import warm
from support.command import COMMAND, HANG_S, Command, answered, environment, rows, run, write_items
from support.journal import MANIFEST, attempt, begin, end, failed, failure, record, step, succeeded
from support.odd_texts import ODD_TEXTS

NASTY = "\x1b[2J\x9b31m\u202e\x07\x7f"
TIMED_OUT = {"kind": Kind.TIMEOUT, "status": Status.TIMED_OUT, "attempts": 3}


def refused(project, *arguments, code=2):
    """Run a command that is refused; give what it says."""
    found, out, err = run(project, *arguments)
    assert (found, out) == (code, ""), err
    assert "Traceback" not in err
    return err


@pytest.fixture
def store(tmp_path):
    store = open_store(tmp_path / ".graphmill" / "runs.db")
    yield store
    store.close()


@pytest.fixture
def humaneval(store):
    """A run of 164 items of which two failed."""
    items = [succeeded(f"HumanEval/{number}", number) for number in range(162)]
    last = [
        failed("HumanEval/162", 162, "no answer in 60 s", **TIMED_OUT),
        failed("HumanEval/163", 163, "the model refused"),
    ]
    record(
        store,
        "k7f2",
        [*items, *last],
        more=[attempt("HumanEval/162", 1, "busy"), step("HumanEval/162", "solve", {"text": "x" * 500})],
    )
    return store


class Answering:
    """The owner of a run, which waits for one request and answers it with what it does to its ledger."""

    def __init__(self, ledger, answer):
        self._ledger = ledger
        self._answer = answer
        self._is_over = Event()
        self._thread = Thread(target=self._work)
        self.heard = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_over.set()
        self._thread.join()

    def _work(self):
        while not self.heard and not self._is_over.wait(0.02):
            self.heard += self._ledger.requests()
        if self.heard:
            self._answer(self._ledger)


def test_runs_are_listed_newest_last_with_counts_and_sizes(tmp_path, humaneval):
    record(humaneval, "later", [succeeded("a", 0)], state=RunState.PAUSED, reason="request", total=10)
    ledger = begin(humaneval, "now", [succeeded("a", 0), failed("b", 1)], total=5)
    head, first, second, third = answered(tmp_path, "runs").splitlines()
    ledger.release()
    assert head.split() == ["id", "state", "started", "graph", "items", "size"]
    assert first.split()[:2] == ["k7f2", "finished"]
    assert "  reviews  162/164 items succeeded, 2 failed  " in first
    assert second.split()[:2] == ["later", "paused"]
    assert "1/10 items succeeded, 9 pending" in second
    assert third.split()[:3] == ["*", "now", "running"]
    assert "1/5 items succeeded, 1 failed, 3 pending" in third
    assert all(line.split()[-1] in ("B", "kB", "MB") for line in (first, second, third))


def test_runs_are_told_apart_by_model_source_prompt_cost_and_tags(tmp_path, store):
    note = {
        "nodes": [{"id": "answer", "params": {"prompt": "Is this a question?\nAnswer in one word, please, at once."}}]
    }
    manifest = MANIFEST | {
        "graph": {"kind": "workflow", "name": "prompt", "written": note, "models": ["own/small"]},
        "source": {"path": "/data/reviews.csv"},
        "options": {"tags": {"night": "1"}},
    }
    row = msgspec.structs.replace(succeeded("a", 0), spent={"own/small": Usage(requests=1, cost_nano=310_000_000)})
    record(store, "asked", [row], manifest=manifest)
    record(store, "other", [succeeded("a", 0)])
    head, line, other = answered(tmp_path, "runs").splitlines()
    assert head.split() == ["id", "state", "started", "graph", "model", "source", "items", "cost", "tags", "size"]
    for part in ('"Is this a question? Answer in one wor…"', "own/small", "reviews.csv", "$0.31", "night=1"):
        assert f"  {part}  " in line
    assert "own/small" not in other
    shown = answered(tmp_path, "show", "asked")
    assert "  model own/small · source reviews.csv · tags night=1\n" in shown
    found, _ = json.loads(answered(tmp_path, "runs", "--json"))["runs"]
    assert (found["models"], found["source"], found["tags"]) == (["own/small"], "/data/reviews.csv", {"night": "1"})


def test_named_runs_are_deleted_but_no_active_one(tmp_path, humaneval):
    record(humaneval, "second", [succeeded("a", 0)])
    ledger = begin(humaneval, "now", [succeeded("a", 0)], total=5)
    assert "cancel now" in refused(tmp_path, "runs", "delete", "second", "now")
    assert "1 run would be deleted" in answered(tmp_path, "runs", "delete", "second", "--dry-run")
    assert answered(tmp_path, "runs", "delete", "sec", "k7").startswith("2 runs deleted, freed ")
    assert [line.split()[:2] for line in answered(tmp_path, "runs").splitlines()[1:]] == [["*", "now"]]
    ledger.release()
    assert "holds no run 'second'" in refused(tmp_path, "runs", "delete", "second")


def test_a_run_that_is_being_scored_is_not_deleted(tmp_path, store):
    record(store, "done", [succeeded("a", 0)])
    ledger = begin(store, "done+exact", manifest=MANIFEST | {"of": "done"})
    assert "cancel done+exact" in refused(tmp_path, "runs", "delete", "done")
    assert answered(tmp_path, "runs", "prune", "--keep", "0").startswith("0 runs deleted, ")
    ledger.release()
    assert answered(tmp_path, "runs", "prune", "--keep", "0").startswith("2 runs deleted, ")


def test_runs_can_be_chosen_by_state_and_the_newest_are_shown(tmp_path, store):
    for number in range(4):
        record(store, f"done-{number}", [])
    record(store, "waiting", [], state=RunState.PAUSED, total=3)
    assert [line.split()[0] for line in answered(tmp_path, "runs", "--state", "paused").splitlines()] == [
        "id",
        "waiting",
    ]
    lines = answered(tmp_path, "runs", "--state", "finished", "--limit", 3).splitlines()
    assert lines[0] == "...and 1 older; --limit shows more"
    assert [line.split()[0] for line in lines[2:]] == ["done-1", "done-2", "done-3"]
    assert answered(tmp_path, "runs", "--state", "failed") == "no runs are failed\n"
    assert "running" in refused(tmp_path, "runs", "--state", "runing")


def test_runs_as_json_are_one_object(tmp_path, humaneval):
    (found,) = json.loads(answered(tmp_path, "runs", "--json"))["runs"]
    assert found["id"] == "k7f2"
    assert (found["state"], found["is_live"], found["graph"], found["damage"]) == ("finished", False, "reviews", None)
    assert found["counts"] == {
        "total": 164, "done": 164, "left": 0, "degraded": 0, "partial": 0, "outdated": 0, "succeeded": 162, "failed": 1, "timed_out": 1,
        "cancelled": 0, "waiting": 0,
    }  # fmt: skip
    assert found["kinds"] == {"timeout": 1, "permanent": 1}
    assert found["summary"] == "162/164 items succeeded, 2 failed"
    assert found["bytes"] > 0


@pytest.mark.parametrize("where", [[], ["--journal", "other/runs.db"], ["--journal", "sqlite:///other.db"]])
def test_where_no_run_was_made_that_is_said_and_no_store_is_made(tmp_path, where):
    assert re.fullmatch("no runs in .*/.*; use --journal for another place\n", answered(tmp_path, "runs", *where))
    assert json.loads(answered(tmp_path, "runs", "--json", *where)) == {"runs": [], "older": 0}
    for command in (["status"], ["show"], ["errors"], ["pause"], ["cancel"], ["limits", "-c", "2"]):
        assert "no runs here yet" in refused(tmp_path, *command, "k7f2", *where)
    assert "no runs here yet" in refused(tmp_path, "export", "k7f2", "out.jsonl", *where)
    assert "no runs here yet" in refused(tmp_path, "runs", "prune", "--keep", "1", *where)
    assert list(tmp_path.iterdir()) == []


def test_the_journal_is_the_option_s_else_the_environment_s(tmp_path):
    for name in ("one", "two"):
        store = open_store(tmp_path / f"{name}.db")
        record(store, name, [])
        store.close()
    assert " two " in run(tmp_path, "runs", GRAPHMILL_JOURNAL="two.db")[1]
    assert " one " in run(tmp_path, "runs", "--journal", "one.db", GRAPHMILL_JOURNAL="two.db")[1]
    assert " one " in answered(tmp_path, "runs", "--journal", f"sqlite:///{tmp_path}/one.db")
    assert "comes later" in refused(tmp_path, "runs", "--journal", "postgresql://host/db")
    assert "did you mean 'sqlite'?" in refused(tmp_path, "runs", "--journal", "sqllite:///one.db")
    assert "is a folder" in refused(tmp_path, "runs", "--journal", ".")


def test_an_unknown_run_is_exit_2_with_the_nearest_id(tmp_path, store):
    record(store, "users-1", [])
    assert "did you mean 'users-1'?" in refused(tmp_path, "status", "user-1")
    record(store, "users-2", [])
    assert "users-1, users-2" in refused(tmp_path, "status", "users")


def test_the_status_of_a_run_is_counted_from_its_results(tmp_path, humaneval):
    lines = answered(tmp_path, "status", "k7").splitlines()
    assert lines[:2] == ["run k7f2 · reviews · finished", "162/164 items succeeded, 2 failed · 3 min 58 s"]
    assert lines[3] == "  failures: timeout 1 · permanent 1"
    assert [line.split("   ")[0] for line in lines[4:]] == [
        "graphmill errors k7f2",
        "graphmill retry k7f2",
        "graphmill export k7f2 FILE",
    ]
    assert json.loads(answered(tmp_path, "status", "k7", "--json"))["counts"]["succeeded"] == 162


def test_the_status_of_a_live_run_names_its_process(tmp_path, store):
    ledger = begin(store, "now", [succeeded("a", 0)], total=3)
    assert f"in process {os.getpid()} on " in answered(tmp_path, "status", "now")
    ledger.append([succeeded("b", 1)])
    assert re.search(
        r"^2/3 items succeeded, 1 pending · [0-9.]+/(s|min) · eta 0:\d\d · [0-9.]+ s$",
        answered(tmp_path, "status", "now"),
        re.MULTILINE,
    )
    ledger.release()
    assert answered(tmp_path, "status", "now").startswith("run now · reviews · paused (interrupted)")


def test_a_watched_run_is_told_every_second_until_it_ends(tmp_path, store):
    ledger = begin(store, "now", [succeeded("a", 0)], total=2)
    with Command(tmp_path, "status", "now", "--watch") as command:
        command.until(lambda: "run now · running · 1/2 items succeeded, 1 pending · " in command.out)
        ledger.append([succeeded("b", 1)])
        end(ledger)
        assert command.wait() == 0
        assert "run now · reviews · finished\n2/2 items succeeded · " in command.out


def test_a_watched_run_as_json_is_a_line_each(tmp_path, store):
    ledger = begin(store, "now", total=2)
    with Command(tmp_path, "status", "now", "--watch", "--json") as command:
        command.until(lambda: "\n" in command.out)
        end(ledger, RunState.FAILED)
        assert command.wait() == 0
        states = [json.loads(line)["state"] for line in command.out.splitlines()]
    assert (states[0], states[-1]) == ("running", "failed")


def test_on_a_terminal_a_run_is_watched_in_place_and_ctrl_c_gives_the_cursor_back(tmp_path, store):
    ledger = begin(store, "now", total=2)
    reader, writer = pty.openpty()
    process = warm.start(
        [*COMMAND, "status", "now", "--watch"],
        cwd=tmp_path,
        stdout=writer,
        env=environment(TERM="xterm-256color", COLUMNS="100"),
    )
    os.close(writer)
    seen = os.read(reader, 65536)
    while b"0/2 items succeeded" not in seen:
        seen += os.read(reader, 65536)
    process.send_signal(signal.SIGINT)
    seen += _rest(reader)
    assert process.wait(timeout=HANG_S) == 130
    ledger.release()
    assert seen.count(b"\x1b[?25l") == seen.count(b"\x1b[?25h") == 1


def _rest(descriptor):
    seen = b""
    try:
        while chunk := os.read(descriptor, 65536):
            seen += chunk
    except OSError:  # the other end is gone: the end of what a terminal shows
        pass
    os.close(descriptor)
    return seen


def test_a_run_is_shown_with_its_results_its_failures_and_the_commands_that_go_on(tmp_path, humaneval):
    out = answered(tmp_path, "show", "k7f2")
    assert "162/164 items succeeded, 2 failed · 3 min 58 s\n" in out
    assert (
        "  HumanEval/162   timeout     no answer in 60 s (3 attempts)\n  HumanEval/163   permanent   the model refused (1 attempt)\n"
        in out
    )
    assert out.index("1  HumanEval/0  succeeded") < out.index("\nfailures:\n") < out.index("graphmill retry")
    assert "\n...and more: graphmill results k7f2\none of them with its steps: graphmill show k7f2 1\n" in out
    assert "policy.concurrency" not in out
    assert "  policy.concurrency   10\n" in answered(tmp_path, "show", "k7f2", "--manifest")
    assert "graphmill retry k7f2         runs the 2 failed items again\n" in out
    assert "graphmill export k7f2 FILE   writes 164 rows, as .jsonl, .json, .csv or .parquet\n" in out
    assert "resume" not in out
    found = json.loads(answered(tmp_path, "show", "k7f2", "--json"))
    assert found["manifest"] == MANIFEST
    assert [one["id"] for one in found["failures"]] == ["HumanEval/162", "HumanEval/163"]


def test_of_a_long_manifest_source_graph_and_models_come_first_and_no_part_hides_another(tmp_path, store):
    manifest = {
        "fingerprints": {f"node 'n{number}'": "f" * 16 for number in range(60)},
        "graph": {"name": "wide", "path": "w.yaml", "function": None, "written": "w" * 5000},
        "policy": {"concurrency": 10, "job_timeout_s": None},
        "source": {"path": "items.jsonl"},
        "versions": {"graphmill": "0.1.0"},
    }
    row = msgspec.structs.replace(succeeded("a", 0), spent={"own/m": Usage(requests=1)})
    record(store, "wide", [row], manifest=manifest)
    shown = answered(tmp_path, "show", "wide", "--manifest").split("in the journal:\n")[1].split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in shown[:7]] == [
        "source.path",
        "graph.name",
        "graph.path",
        "graph.written",
        "models",
        "policy.concurrency",
        "versions.graphmill",
    ]
    assert shown[4].split() == ["models", "own/m"]
    assert max(map(len, shown)) < 150
    assert [line.split() for line in shown[-2:]] == [
        ["fingerprints", "...and", "45", "more"],
        ["--json", "shows", "all", "of", "it"],
    ]
    assert json.loads(answered(tmp_path, "show", "wide", "--json"))["manifest"] == manifest


def test_of_many_failures_five_are_shown(tmp_path, store):
    record(
        store,
        "bad",
        [failed(f"row-{number}", number) for number in range(8)],
        state=RunState.PAUSED,
        reason="outage",
        total=20,
    )
    out = answered(tmp_path, "show", "bad")
    assert out.count("(1 attempt)") == 5
    assert "  ...and 3 more\n" in out
    assert "in the program that has the function and the items\n" in out


def test_an_item_is_shown_with_its_attempts_and_steps(tmp_path, humaneval):
    out = answered(tmp_path, "show", "k7f2", "HumanEval/162")
    assert out.startswith(
        "item HumanEval/162 of run k7f2 · row 163 · timed_out after 3 attempts · 6.1 s, 0.2 s queued · 20"
    )
    assert 'input:  {"id":"HumanEval/162","n":162}\n' in out
    assert 'error:  timeout: no answer in 60 s\n    File "a.py", line 1, in f\n' in out
    assert "attempts that failed:\n  generation 1   attempt 1      transient   busy\n" in out
    assert 'steps:\n  solve   +0.0 s   2.5 s   {"text":"xxx' in out
    assert "x" * 100 not in out
    found = json.loads(answered(tmp_path, "show", "k7f2", "HumanEval/162", "--json"))
    assert found["status"] == "timed_out"
    assert [(one["generation"], one["status"], one["attempts"], one["position"]) for one in found["results"]] == [
        (1, "timed_out", 3, 162)
    ]
    assert [(one["attempt"], one["kind"], one["error"]) for one in found["attempts"]] == [
        (1, "transient", failure("busy", Kind.TRANSIENT))
    ]
    assert found["steps"][0]["output"] == {"text": "x" * 500}


def test_an_unsafe_step_that_has_ended_is_not_shown_as_one_of_which_nothing_is_known(tmp_path, store):
    begun = [AttemptRow(step("a", path, {}).key, 1, path, 1, None, None) for path in ("send", "mail")]
    end(begin(store, "sent", [*begun, step("a", "send", {"id": 2})], total=1), RunState.PAUSED)
    out = answered(tmp_path, "show", "sent", "a")
    assert (
        "attempts that failed:\n  generation 1   attempt 1   mail      began; its end is not recorded\nsteps:\n" in out
    )
    assert "send   +0.0 s" in out


def test_an_item_that_was_done_again_shows_its_generations_and_the_last_counts(tmp_path, store):
    ledger = begin(store, "again", [failed("a", 0, "broken")])
    ledger.append([RunRow(generation=2), WantedRow(failed("a", 0).key, 2)])
    assert "will run again, in generation 2\n" in answered(tmp_path, "show", "again", "a")
    ledger.append(
        [
            succeeded("a", 0, {"x": 1}, generation=2),
            SuspectRow(failed("a", 0).key, 2, 1),
            OrphansRow([failed("a", 0).key]),
        ]
    )
    end(ledger)
    out = answered(tmp_path, "show", "again", "a")
    assert "· succeeded after 1 attempt ·" in out
    assert "to be done again" not in out
    assert (
        "orphaned: no longer in the source\n  was running 2 times when the process died, 1 of them as the only item\n"
        in out
    )
    assert [line.split()[:3] for line in out.splitlines()[-2:]] == [
        ["generation", "1", "failed"],
        ["generation", "2", "succeeded"],
    ]
    assert json.loads(answered(tmp_path, "show", "again", "a", "--json"))["status"] == "succeeded"
    assert "1/1 items succeeded\n" in answered(tmp_path, "errors", "again")


def test_an_item_under_way_has_no_result_yet(tmp_path, store):
    ledger = begin(store, "now", [attempt("a", 1, "busy")], total=1)
    out = answered(tmp_path, "show", "now", "a")
    ledger.release()
    assert out.startswith("item a of run now · no result yet\n")
    assert "busy" in out


def test_an_unknown_item_is_exit_2_with_the_nearest_id(tmp_path, humaneval):
    assert "did you mean 'HumanEval/162'?" in refused(tmp_path, "show", "k7f2", "HumanEvl/162")


def test_failures_are_grouped_by_kind_and_message_then_listed(tmp_path, store):
    broken = [failed(f"b-{number}", number, f"line {number} is broken") for number in range(30)]
    record(store, "bad", [*broken, failed("t", 30, "no answer in 60 s", **TIMED_OUT), succeeded("good", 31)])
    lines = answered(tmp_path, "errors", "bad", "--limit", 3).splitlines()
    assert lines == [
        "run bad · finished · 1/32 items succeeded, 31 failed",
        "  30 ×   permanent   such as: line 0 is broken (30 different messages)",
        "   1 ×   timeout     no answer in 60 s",
        "",
        "  b-0   permanent   line 0 is broken (1 attempt)",
        "  b-1   permanent   line 1 is broken (1 attempt)",
        "  b-2   permanent   line 2 is broken (1 attempt)",
        "  ...and 28 more",
        "graphmill retry bad   runs the 31 failed items again",
    ]
    assert answered(tmp_path, "errors", "bad", "--kind", "timeout").splitlines()[1:] == [
        "  1 ×   timeout   no answer in 60 s",
        "",
        "  t   timeout   no answer in 60 s (3 attempts)",
        "graphmill retry bad --kind timeout   runs the failed item again",
    ]
    assert "no item failed with kind crash\n" in answered(tmp_path, "errors", "bad", "--kind", "crash")
    found = json.loads(answered(tmp_path, "errors", "bad", "--json", "--limit", 1))
    assert (found["run"], found["failed"], len(found["items"])) == ("bad", 31, 1)
    assert found["groups"][0] == {
        "kind": "permanent",
        "type": "graphmill.Permanent",
        "message": "line 0 is broken",
        "count": 30,
        "distinct": 30,
    }
    assert "timeout" in refused(tmp_path, "errors", "bad", "--kind", "tiemout")


def test_nothing_in_the_store_can_write_on_the_terminal_what_it_likes(tmp_path, store):
    manifest = {"graph": {"name": NASTY}, NASTY: {NASTY: [NASTY]}}
    item = NASTY.replace("\x1b", "\x1b[31m")
    more = [attempt(item, 1, NASTY), step(item, NASTY, NASTY)]
    record(store, "bad", [failed(item, 0, NASTY), succeeded("a", 1, NASTY)], more=more, reason=NASTY, manifest=manifest)
    for arguments in (["runs"], ["status", "bad"], ["show", "bad"], ["show", "bad", item], ["errors", "bad"]):
        out = answered(tmp_path, *arguments)
        assert all(line.isprintable() for line in out.split("\n")), arguments
        as_json = answered(tmp_path, *arguments, "--json")
        assert as_json.removesuffix("\n").isprintable(), arguments
        assert json.loads(as_json)
    assert json.loads(answered(tmp_path, "show", "bad", "--json"))["failures"][0]["id"] == item
    for arguments in (["show", "bad", NASTY], ["cancel", "bad", "--item", NASTY], ["status", NASTY]):
        assert all(line.isprintable() for line in refused(tmp_path, *arguments).split("\n"))


@pytest.mark.parametrize("form", ["jsonl", "json", "csv"])
def test_an_export_to_a_terminal_shows_no_control_characters(tmp_path, store, form):
    record(store, "bad", [succeeded(NASTY, 0, {"text": NASTY, "more": "é"})])
    reader, writer = pty.openpty()
    process = warm.start(
        [*COMMAND, "export", "bad", "-", "--format", form],
        cwd=tmp_path,
        stdout=writer,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    os.close(writer)
    seen = _rest(reader).decode()
    assert process.wait(timeout=HANG_S) == 0
    assert all(line.isprintable() for line in seen.replace("\r\n", "\n").split("\n"))
    assert "é" in seen


def test_a_live_run_is_cancelled_by_asking_it(tmp_path, store):
    ledger = begin(store, "now", [succeeded("a", 0)], total=5)
    with Answering(ledger, lambda ledger: end(ledger, RunState.CANCELLED, "asked to")) as owner:
        assert answered(tmp_path, "cancel", "now") == "run now is cancelled (asked to)\n"
    assert owner.heard == [RunRequest("cancel")]


def test_one_item_of_a_live_run_is_cancelled_by_asking_it(tmp_path, store):
    ledger = begin(store, "now", [succeeded("a", 0)], total=5)
    answer = failed("b", 1, "cancelled", kind=Kind.CANCELLED, status=Status.CANCELLED)
    with Answering(ledger, lambda ledger: ledger.append([answer])) as owner:
        assert answered(tmp_path, "cancel", "now", "--item", "b") == "item b is cancelled\n"
        assert answered(tmp_path, "cancel", "now", "--item", "a") == "item a has already ended: succeeded\n"
    ledger.release()
    assert owner.heard == [RunRequest("cancel_item", "b")]
    assert "an item can be cancelled only while its run is active" in refused(tmp_path, "cancel", "now", "--item", "b")


def test_an_item_that_does_not_end_when_asked_may_not_be_there(tmp_path, store):
    ledger = begin(store, "now", total=5)
    said = answered(tmp_path, "cancel", "now", "--item", "b")
    ledger.release()
    assert said.startswith("item b of run now has not ended within 5 s")


def test_of_a_run_of_one_job_no_other_item_can_be_cancelled_and_that_is_said_at_once(tmp_path, store):
    ledger = begin(store, "now", total=1, manifest={**MANIFEST, "source": {"item": {"n": 1}}})
    assert "run now has no item b" in refused(tmp_path, "cancel", "now", "--item", "b")
    assert ledger.requests() == []
    ledger.release()


def test_a_live_run_is_paused_by_asking_it(tmp_path, store):
    ledger = begin(store, "now", total=5)
    with Answering(ledger, lambda ledger: ledger.append([RunRow(status=HELD, reason="paused by a person")])) as owner:
        assert answered(tmp_path, "pause", "now") == "run now is paused (paused by a person)\n"
    ledger.release()
    assert owner.heard == [RunRequest("pause")]


def test_the_status_of_a_paused_live_run_names_its_process_and_how_to_continue_it(tmp_path, store):
    ledger = begin(store, "now", [succeeded("a", 0)], total=5)
    ledger.append([RunRow(status=HELD, reason="paused by a user")])
    shown = answered(tmp_path, "status", "now")
    assert "paused: paused by a user" in shown
    assert f"in process {os.getpid()} on " in shown
    assert "graphmill resume now " in shown
    assert "running on" not in shown
    ledger.release()


@pytest.mark.parametrize(("before", "command"), [(STOPPING, "pause"), (HELD, "resume")])
def test_of_a_run_that_is_drained_it_is_said_at_once_that_it_neither_holds_nor_goes_on(
    tmp_path, store, before, command
):
    ledger = begin(store, "now", total=5)
    ledger.append([RunRow(status=before, reason="3 running")])
    with Answering(ledger, lambda ledger: ledger.append([RunRow(status=STOPPING, reason="3 running")])):
        assert answered(tmp_path, command, "now") == "run now is running (stopping) (3 running)\n"
    ledger.release()


@pytest.mark.parametrize(
    "option", [["--model", "own/n"], ["--concurrency", 2], ["--on-change", "keep"], ["--output", "x.jsonl"]]
)
def test_a_held_run_does_not_go_on_as_if_nothing_else_had_been_asked_for(tmp_path, store, option):
    source = {"path": str(tmp_path / write_items(tmp_path, [{"id": "a"}])), "format": "jsonl"}
    written = {"nodes": [{"id": "ask", "type": "llm", "params": {"model": "scripted/m", "prompt": "x"}}]}
    ledger = begin(
        store,
        "now",
        total=5,
        manifest={**MANIFEST, "graph": {"kind": "workflow", "written": written}, "source": source},
    )
    (tmp_path / "graphmill.yaml").write_text("providers: {own: {protocol: scripted}}")
    ledger.append([RunRow(status=HELD)])
    assert "run now is running in process" in refused(tmp_path, "resume", "now", *option, code=75)
    assert ledger.requests() == []
    ledger.release()


def test_the_concurrency_of_a_live_run_is_changed_by_asking_it(tmp_path, store):
    ledger = begin(store, "now", total=5)
    with Answering(
        ledger, lambda ledger: ledger.append([RunRow(manifest={**MANIFEST, "policy": {"concurrency": 40}})])
    ) as owner:
        assert answered(tmp_path, "limits", "now", "--concurrency", 40) == "run now is running, with concurrency 40\n"
    now = {**MANIFEST, "policy": {"concurrency": 40, "adaptive": False}}
    with Answering(ledger, lambda ledger: ledger.append([RunRow(manifest=now)])) as later:
        fixed = answered(tmp_path, "limits", "now", "--no-adaptive")
        assert fixed == "run now is running, with concurrency 40 (fixed)\n"
    ledger.release()
    assert (owner.heard, later.heard) == ([RunRequest("limit", "40")], [RunRequest("limit", " fixed")])
    assert "--concurrency" in refused(tmp_path, "limits", "now", "--concurrency", 0)
    assert "--adaptive" in refused(tmp_path, "limits", "now")


def test_a_run_that_does_not_answer_is_not_waited_for(tmp_path, store):
    ledger = begin(store, "now", total=5)
    begun = time.monotonic()
    assert answered(tmp_path, "pause", "now") == "no reply from run now after 5 s; the request is still queued\n"
    assert time.monotonic() - begun < 25  # five times the promise
    assert ledger.requests() == [RunRequest("pause")]
    ledger.release()


@pytest.mark.parametrize("status", [RunStatus(RunState.PAUSED, "request"), INTERRUPTED])
def test_a_run_that_nobody_is_at_work_on_is_cancelled_at_once(tmp_path, store, status):
    ledger = begin(store, "left", [succeeded("a", 0)], total=5)
    if status != INTERRUPTED:
        ledger.append([RunRow(status=status)])
    ledger.release()
    assert answered(tmp_path, "cancel", "left") == f"run left was {status} and is now cancelled\n"
    assert store.archive.find("left").state is RunState.CANCELLED
    assert store.archive.find("left").reason == "cancelled by a user"
    assert answered(tmp_path, "cancel", "left") == "run left is cancelled (cancelled by a user)\n"
    assert "1/5 items succeeded, 4 pending" in answered(tmp_path, "status", "left")


def test_of_a_run_that_is_over_nothing_can_be_asked(tmp_path, humaneval):
    for command in (["cancel"], ["pause"], ["limits", "-c", 3]):
        assert refused(tmp_path, *command, "k7f2").startswith("error: run k7f2 is finished; ")


@pytest.mark.parametrize("name", ["out.jsonl", "out.json", "out.csv"])
def test_results_are_exported_in_input_order(tmp_path, store, name):
    record(store, "mixed", [succeeded("c", 2), failed("a", 0), succeeded("b", 1)])
    code, out, err = run(tmp_path, "export", "mixed", name)
    assert (code, out, err) == (0, "", f"run mixed is finished: 3 rows in {name}\n")
    assert [row["id"] for row in _read(tmp_path / name)] == ["a", "b", "c"]
    assert (
        answered(tmp_path, "export", "mixed", "-", "--format", name.rpartition(".")[2])
        == (tmp_path / name).read_bytes().decode()
    )
    assert (
        run(tmp_path, "export", "mixed", name, "--status", "failed")[2]
        == f"run mixed is finished: 1 row failed in {name}\n"
    )
    assert [row["id"] for row in _read(tmp_path / name)] == ["a"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".graphmill", name]


def _read(path):
    if path.suffix == ".csv":
        with path.open(newline="") as stream:
            return list(csv.DictReader(stream))
    return json.loads(path.read_text()) if path.suffix == ".json" else rows(path)


def test_a_format_can_be_named_where_the_file_s_name_does_not_say(tmp_path, humaneval):
    assert "cannot tell the format" in refused(tmp_path, "export", "k7f2", "results")
    assert "'xml'" in refused(tmp_path, "export", "k7f2", "results", "--format", "xml")
    assert answered(tmp_path, "export", "k7f2", "results", "--format", "csv") == ""
    assert (tmp_path / "results").read_text().startswith("id,status,")


def test_a_run_under_way_is_exported_as_far_as_it_is(tmp_path, store):
    ledger = begin(store, "now", [succeeded("a", 0)], total=5)
    code, _, err = run(tmp_path, "export", "now", "out.jsonl")
    ledger.release()
    assert (code, err) == (0, "run now is running: 1 row in out.jsonl, so far 1 of 5 items\n")
    assert [row["id"] for row in rows(tmp_path / "out.jsonl")] == ["a"]


def test_an_empty_run_is_exported_as_an_empty_file_and_that_is_said(tmp_path, store):
    record(store, "none", [])
    code, _, err = run(tmp_path, "export", "none", "out.jsonl")
    assert (code, err) == (0, "run none is finished: no rows in out.jsonl\n")
    assert (tmp_path / "out.jsonl").read_bytes() == b""


def test_an_export_does_not_replace_the_journal(tmp_path, humaneval):
    assert "overwrite the journal" in refused(tmp_path, "export", "k7f2", ".graphmill/runs.db", "--format", "jsonl")
    assert answered(tmp_path, "status", "k7f2")


@pytest.mark.parametrize("form", ["jsonl", "json", "csv"])
def test_an_export_that_can_not_be_written_leaves_nothing(tmp_path, humaneval, form):
    assert "no folder" in refused(tmp_path, "export", "k7f2", "nowhere/out.jsonl")
    reader, writer = os.pipe()
    os.close(reader)
    done = warm.run(
        [*COMMAND, "export", "k7f2", "-", "--format", form],
        cwd=tmp_path,
        stdout=writer,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (74, b"")  # as for head, which has what it wants


def test_any_text_comes_through_store_and_export(tmp_path, store):
    record(store, "odd", [succeeded(text, number, {"text": text}) for number, text in enumerate(ODD_TEXTS.values())])
    run(tmp_path, "export", "odd", "out.jsonl")
    assert [(row["id"], row["output"]["text"]) for row in rows(tmp_path / "out.jsonl")] == [
        (text, text) for text in ODD_TEXTS.values()
    ]


def test_runs_that_are_old_and_not_among_the_newest_are_forgotten(tmp_path, store):
    for name in ("one", "two", "three"):
        record(store, name, [succeeded("a", 0)])
    plan = answered(tmp_path, "runs", "prune", "--keep", "1", "--dry-run").splitlines()
    assert [line.split()[0] for line in plan[:-1]] == ["one", "two"]
    assert plan[-1].startswith("2 runs would be deleted, freeing about ")
    assert answered(tmp_path, "runs", "prune", "--older", "1h", "--keep", "1").startswith("0 runs deleted, ")
    assert answered(tmp_path, "runs", "prune", "--older", "0s", "--keep", "2").startswith("1 run deleted, ")
    assert [found.id for found in store.archive.runs()] == ["two", "three"]
    assert answered(tmp_path, "runs", "--journal", ".graphmill/runs.db", "prune", "--keep", "0").startswith(
        "2 runs deleted, "
    )
    assert answered(tmp_path, "runs").startswith("no runs in /")


def test_a_prune_that_can_not_give_space_back_says_that_the_runs_are_gone(tmp_path, store):
    record(store, "large", [succeeded(str(number), number, {"text": "x" * 500}) for number in range(3000)])
    record(store, "small", [succeeded("a", 0)])
    store.close()
    most = 60_000
    limited = ["sh", "-c", 'ulimit -f "$0"; exec "$@"', str(most // 512), *COMMAND]  # as on a disk that is full
    done = subprocess.run(
        [*limited, "runs", "prune", "--keep", "0"], cwd=tmp_path, capture_output=True, timeout=HANG_S, check=False
    )
    assert (done.returncode, done.stdout) == (74, b"")
    assert b"pruned 2 of 2 runs, but not freed their space; prune again to free it: " in done.stderr
    assert answered(tmp_path, "runs").startswith("no runs in ")
    assert re.fullmatch(r"0 runs deleted, freed [\d.]+ MB\n", answered(tmp_path, "runs", "prune", "--keep", "0"))


@pytest.mark.parametrize("command", [["runs"], ["status", "k7f2"], ["runs", "prune", "--keep", "0"]])
def test_a_journal_that_was_cut_to_nothing_beside_its_log_is_damaged(tmp_path, humaneval, command):
    del humaneval  # open, so that the log is there
    whole, log = tmp_path / ".graphmill" / "runs.db", tmp_path / ".graphmill" / "runs.db-wal"
    cut = tmp_path / "cut"
    cut.mkdir()
    (cut / whole.name).touch()
    (cut / log.name).write_bytes(log.read_bytes())
    assert "runs.db is damaged: it is empty, and" in refused(tmp_path, *command, "--journal", cut / whole.name, code=65)
    assert (cut / log.name).read_bytes() == log.read_bytes()


def test_a_run_under_way_is_never_forgotten(tmp_path, store):
    ledger = begin(store, "now", total=5)
    assert answered(tmp_path, "runs", "prune", "--keep", "0").startswith("0 runs deleted, ")
    ledger.release()
    assert [found.id for found in store.archive.runs()] == ["now"]


def test_pruning_wants_to_know_what(tmp_path, humaneval):
    assert "--older 30d, --keep 20, or both" in refused(tmp_path, "runs", "prune")
    assert "such as 90m, 12h" in refused(tmp_path, "runs", "prune", "--older", "30 days")


@pytest.mark.parametrize(
    "command", ["runs", "status", "show", "errors", "pause", "cancel", "limits", "export", "runs prune"]
)
def test_every_command_has_an_example(tmp_path, command):
    assert f"Example: graphmill {command} " in answered(tmp_path, *command.split(), "--help")


def test_the_shell_completes_commands_and_values(tmp_path):
    assert _completed(tmp_path, "graphmill sta") == ["status"]
    assert _completed(tmp_path, "graphmill runs pr") == ["prune"]
    assert _completed(tmp_path, "graphmill errors k7f2 --kind time") == ["timeout"]


def _completed(project, words):
    variables = {"_GRAPHMILL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    script = Path(sys.executable).with_name("graphmill")
    done = subprocess.run(
        [script], cwd=project, capture_output=True, timeout=HANG_S, env=environment(**variables), check=False
    )
    return done.stdout.decode().split()


def test_a_damaged_result_is_exit_65_and_leaves_no_export(tmp_path, humaneval):
    record(humaneval, "whole", [succeeded("a", 0)])
    humaneval.close()
    database = sqlite3.connect(tmp_path / ".graphmill" / "runs.db")
    with database:
        database.execute("UPDATE results SET output = X'7B7D' WHERE position = 7")
    database.close()
    assert "HumanEval/7" in refused(tmp_path, "export", "k7f2", "out.jsonl", code=65)
    assert not list(tmp_path.glob("*out*"))
    assert answered(tmp_path, "export", "whole", "-").count("\n") == 1


def test_a_run_whose_results_are_damaged_is_listed_beside_the_others(tmp_path, humaneval):
    record(humaneval, "whole", [succeeded("a", 0)])
    humaneval.close()
    database = sqlite3.connect(tmp_path / ".graphmill" / "runs.db")
    with database:
        database.execute("UPDATE results SET status = status + 1 WHERE position = 7")
    database.close()
    _, bad, good = answered(tmp_path, "runs").splitlines()
    assert bad.split()[:2] == ["k7f2", "damaged"]
    assert "1/1 items succeeded" in good
    assert "damaged" in refused(tmp_path, "status", "k7f2", code=65)


def test_what_is_no_journal_is_damaged_data(tmp_path):
    (tmp_path / "notes.txt").write_text("no journal at all")
    assert "notes.txt is damaged" in refused(tmp_path, "runs", "--journal", "notes.txt", code=65)
    assert (tmp_path / "notes.txt").read_text() == "no journal at all"
