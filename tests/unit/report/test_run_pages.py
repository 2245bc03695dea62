from dataclasses import replace

from graphmill.core.errors import DamagedError
from graphmill.journal.records import RUNNING, RunRow, RunState
from graphmill.journal.sqlite.store import TemporaryStore
from graphmill.report.next_commands import next_lines
from graphmill.report.run_pages import runs_lines, runs_record, runs_view
from graphmill.report.run_view import view_of
from support.journal import begin, failed, record, succeeded


def view(store, run_id):
    return view_of(store.archive, store.archive.find(run_id))


def test_a_damaged_run_is_listed_as_such_and_hinders_no_other(monkeypatch):
    store = TemporaryStore()
    record(store, "bad", [succeeded("a", 0)])
    record(store, "good", [succeeded("a", 0)])
    counts = store.archive.counts

    def damaged(run):
        if run.id == "bad":
            raise DamagedError("row 7 of run bad is \x1b[31mnot what was written")
        return counts(run)

    monkeypatch.setattr(store.archive, "counts", damaged)
    found = runs_view(store, store.archive.runs(), limit=9)
    _, bad, good = runs_lines(found)
    assert bad.split()[:2] == ["bad", "damaged"]
    assert "row 7 of run bad is  [31mnot what was written" in bad
    assert "1/1 items succeeded" in good
    records = runs_record(found)["runs"]
    assert (records[0]["counts"], records[0]["summary"], records[0]["bytes"]) == (None, None, None)
    assert records[0]["damage"].startswith("row 7")
    assert records[1]["counts"]["succeeded"] == 1


def test_of_a_source_that_was_not_read_to_its_end_the_count_is_so_far():
    store = TemporaryStore()
    store.create("a", {})
    ledger = store.take("a")
    ledger.append([succeeded("a", 0), failed("b", 1)])
    assert view(store, "a").summary() == "1/2 items succeeded, 1 failed so far"
    assert view(store, "a").left is None
    ledger.append([RunRow(is_read=True)])
    assert view(store, "a").summary() == "1/2 items succeeded, 1 failed"


def test_items_without_a_result_are_pending_in_every_state():
    store = TemporaryStore()
    for state in (RunState.PAUSED, RunState.FAILED, RunState.CANCELLED, RunState.FINISHED):
        record(store, str(state), [succeeded("a", 0)], state=state, total=3)
        assert view(store, str(state)).summary() == "1/3 items succeeded, 2 pending"


def test_the_commands_that_go_on_are_those_that_make_sense():
    def commands(run_id):
        return [line.split()[1] for line in next_lines(view(store, run_id))]

    store = TemporaryStore()
    begin(store, "live", [failed("a", 0)], total=3)
    record(store, "paused", [failed("a", 0)], state=RunState.PAUSED, total=3, manifest={"graph": {"function": "m:f"}})
    record(store, "good", [succeeded("a", 0)])
    record(store, "empty")
    assert commands("live") == ["status", "cancel", "errors", "export"]
    assert commands("paused") == ["items,", "errors", "retry", "export"]
    assert commands("good") == ["export"]
    record(store, "nearly", [succeeded("a", 0)], state=RunState.PAUSED)
    assert next_lines(view(store, "nearly"))[0].endswith("in the program that has the function and the items")
    record(store, "good+own", state=RunState.PAUSED, total=1, manifest={"of": "good", "source": {"run": "good"}})
    assert next_lines(view(store, "good+own"))[0].startswith("gm.score('good', scorer) ")
    assert commands("empty") == []


def test_what_only_a_program_can_go_on_with_is_named_as_that_program_writes_it():
    store = TemporaryStore()
    record(store, "jobs", [failed("a", 0)], state=RunState.PAUSED, total=3, manifest={})
    record(store, "lambda", [failed("a", 0)], manifest={"graph": {"kind": "function"}})
    lines = next_lines(view(store, "jobs"))
    assert lines[0].startswith("BatchExecutor(journal=…).start(jobs, run_id='jobs')   continues")
    assert not any("retry" in line for line in lines)
    assert any(
        line.startswith("gm.retry('lambda', graph=function)   runs") for line in next_lines(view(store, "lambda"))
    )


def test_a_long_command_does_not_push_away_what_the_others_do():
    store = TemporaryStore()
    record(
        store, "a-long-name", [failed("a", 0)], state=RunState.PAUSED, total=3, manifest={"graph": {"function": "m:f"}}
    )
    first, *others = next_lines(view(store, "a-long-name"))
    assert first.startswith("gm.batch(function, items, run_id='a-long-name')   continues")
    assert len({line.rindex("   ") for line in others}) == 1
    assert others[0].rindex("   ") < first.rindex("   ")


def test_while_a_model_is_unavailable_nobody_knows_how_long_it_will_take():
    store = TemporaryStore()
    record(store, "a", [succeeded("a", 0)])
    seen = replace(view(store, "a"), rate=2.0)
    going = replace(seen, run=replace(seen.run, status=RUNNING, total=9))
    assert going.eta_s == 4.0
    assert (
        replace(going, run=replace(going.run, reason="own/m: waits for its limit of 60 requests a minute")).eta_s == 4.0
    )
    assert replace(going, run=replace(going.run, reason="unavailable: own/m answered 402: no credit")).eta_s is None
