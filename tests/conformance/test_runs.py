"""How runs are named, found, owned, asked, and forgotten."""

import os
import socket
from contextlib import closing

import pytest

from graphmill.core.errors import OwnedError, UnknownRunError, UsageError
from graphmill.core.json import item_key
from graphmill.core.result import Kind, Status
from graphmill.journal.records import (
    EVERYTHING,
    FINISHED,
    HELD,
    RUNNING,
    Query,
    ResultCount,
    RunRequest,
    RunRow,
    RunState,
    RunStatus,
)
from support.journal_rows import failed, result, results
from support.odd_texts import LONE_SURROGATES, ODD_TEXTS


def test_a_new_run_is_running_and_without_an_owner(store, clock):
    run = store.create("r.1_a-B", {"items": 3, "text": "\u2028"})
    assert (run.id, run.state, run.owner, run.epoch, run.generation, run.rows) == (
        "r.1_a-B",
        RunState.RUNNING,
        None,
        0,
        1,
        0,
    )
    assert (run.created_at, run.changed_at, run.elapsed_s, run.total, run.is_read) == (
        clock.now,
        clock.now,
        0.0,
        None,
        False,
    )
    assert run.manifest == {"items": 3, "text": "\u2028"}
    assert store.archive.find("r.1_a-B").manifest == run.manifest


def test_how_long_it_was_under_way_counts_a_process_that_died_until_the_last_that_it_recorded(store, clock):
    began = clock.now
    first = store.take(store.create("r", {}).id)
    clock.now += 10
    first.append(results(1))
    clock.now += 5
    assert store.archive.find("r").elapsed_at(clock.now) == 15
    first.release()
    assert store.archive.find("r").elapsed_at(clock.now) == 10
    clock.now += 1000
    second = store.take("r")
    clock.now += 2
    assert store.archive.find("r").elapsed_at(clock.now) == 12
    second.append([RunRow(status=FINISHED, more_s=3.0)])
    second.release()
    assert store.archive.find("r").elapsed_at(clock.now) == store.archive.find("r").elapsed_s == 13
    clock.now = began - 1000
    third = store.take("r")
    third.release()
    assert store.archive.find("r").elapsed_at(clock.now) == 13


def test_results_are_counted_since_a_time(store, clock):
    ledger = store.take(store.create("r", {}).id)
    began = clock.now
    for _ in range(3):
        clock.now += 10
        ledger.append([result(f"at {clock.now}")])
    run = store.archive.find("r")
    assert [store.archive.count_since(run, began + after) for after in (0, 10, 11, 31)] == [3, 3, 2, 0]
    ledger.release()


@pytest.mark.parametrize("bad", ["", "-a", ".a", "a b", "a/b", "é", "a\n", "a" * 65, "a+exact"])
def test_an_id_that_would_need_quoting_or_is_that_of_a_scoring_pass_is_refused(store, bad):
    with pytest.raises(UsageError, match="a run id must have"):
        store.create(bad, {})


def test_an_id_is_given_once(store):
    store.create("a", {})
    with pytest.raises(UsageError, match="already"):
        store.create("a", {})
    assert len(store.archive.runs()) == 1


def test_a_run_without_an_id_is_given_one_higher_than_all_before(store, clock):
    ids = [store.create(None, {}).id for _ in range(50)]
    clock.now -= 1e6
    ids += [store.create(None, {}).id for _ in range(5)]
    assert ids == sorted(set(ids))
    assert all(len(run_id) == 5 for run_id in ids)


def test_a_given_id_that_would_come_next_is_passed_over(store):
    first = store.create(None, {}).id
    following = first[:-1] + "0123456789abcdefghjkmnpqrstvwxyz"["0123456789abcdefghjkmnpqrstvwxyz".index(first[-1]) + 1]
    store.create(following, {})
    assert store.create(None, {}).id not in (first, following)


def test_runs_are_listed_oldest_first(store, clock):
    store.create("b", {})
    clock.now -= 1000
    store.create("a", {})
    assert [run.id for run in store.archive.runs()] == ["b", "a"]


def test_a_run_is_found_by_the_beginning_of_its_id(store):
    for run_id in ("alpha", "alphabet", "beta"):
        store.create(run_id, {})
    assert store.archive.find("b").id == "beta"
    assert store.archive.find("alpha").id == "alpha"
    assert store.archive.find("alphab").id == "alphabet"


def test_a_name_that_is_not_found_or_ambiguous_says_what_there_is(store):
    for run_id in ("alpha", "alphabet", "beta"):
        store.create(run_id, {})
    with pytest.raises(UnknownRunError, match="alpha, alphabet"):
        store.archive.find("al")
    with pytest.raises(UnknownRunError, match="did you mean 'beta'"):
        store.archive.find("betta")
    with pytest.raises(UnknownRunError):
        store.archive.find("zzz")
    with pytest.raises(UnknownRunError):
        store.take("al")


def test_the_owner_is_named_and_a_second_is_refused(store, clock):
    store.create("r", {})
    ledger = store.take("r")
    run = store.archive.find("r")
    assert run.state is RunState.RUNNING
    assert (run.owner.host, run.owner.pid, run.owner.since, run.epoch) == (
        socket.gethostname(),
        os.getpid(),
        clock.now,
        1,
    )
    with pytest.raises(OwnedError, match="run r is running"):
        store.take("r")
    ledger.append([result("a")])
    ledger.release()
    again = store.take("r")
    assert again.run.owner.pid == os.getpid()
    assert store.archive.find("r").epoch == 2
    again.release()


def test_a_run_that_was_let_go_while_running_is_interrupted(store):
    store.create("r", {})
    assert store.archive.find("r").is_interrupted
    for status in (RUNNING, HELD):
        ledger = store.take("r")
        ledger.append([RunRow(status=status)])
        assert store.archive.find("r").status == status
        ledger.release()
        assert store.archive.find("r").is_interrupted
        assert store.archive.runs()[0].is_interrupted
    ledger = store.take("r")
    assert ledger.run.is_interrupted
    ledger.append([RunRow(status=RunStatus(RunState.PAUSED, "request"))])
    ledger.release()
    assert store.archive.find("r").state is RunState.PAUSED


def test_a_run_taken_again_is_running_again(store):
    store.create("r", {})
    ledger = store.take("r")
    ledger.append([RunRow(status=FINISHED)])
    ledger.release()
    ledger = store.take("r")
    assert (ledger.run.state, store.archive.find("r").state) == (RunState.FINISHED, RunState.RUNNING)
    ledger.release()


def test_a_run_can_be_released_twice(store):
    store.create("r", {})
    ledger = store.take("r")
    ledger.release()
    ledger.release()
    store.take("r").release()


@pytest.mark.parametrize("text", ["", *ODD_TEXTS.values(), *LONE_SURROGATES.values()])
def test_an_owner_hears_each_request_once_and_in_order(store, text):
    run = store.create("r", {})
    ledger = store.take("r")
    assert list(ledger.requests()) == []
    store.archive.ask(run, RunRequest("pause"))
    store.archive.ask(run, RunRequest("cancel_item", text))
    assert list(ledger.requests()) == [RunRequest("pause"), RunRequest("cancel_item", text)]
    store.archive.ask(run, RunRequest("unpause"))
    assert list(ledger.requests()) == [RunRequest("unpause")]
    assert list(ledger.requests()) == []
    ledger.release()


def test_what_was_asked_of_an_earlier_owner_does_not_reach_the_next(store):
    run = store.create("r", {})
    other = store.create("other", {})
    ledger = store.take("r")
    elsewhere = store.take("other")
    store.archive.ask(run, RunRequest("cancel"))
    store.archive.ask(other, RunRequest("pause"))
    ledger.release()
    ledger = store.take("r")
    assert list(ledger.requests()) == []
    assert list(elsewhere.requests()) == [RunRequest("pause")]
    store.archive.ask(run, RunRequest("limit", "5"))
    assert list(ledger.requests()) == [RunRequest("limit", "5")]
    ledger.release()
    elsewhere.release()


def test_a_query_chooses_by_status_kind_and_number(store):
    ledger = store.take(store.create("r", {}).id)
    ledger.append(
        [
            result("a", 3),
            failed("b", 2),
            failed("c", 1, Kind.TIMEOUT, status=Status.TIMED_OUT),
            failed("d", 0, Kind.TRANSIENT),
        ]
    )

    def ids(**query):
        return [entry.result.job_id for entry in store.archive.entries(ledger.run, Query(**query))]

    assert ids() == ["d", "c", "b", "a"]
    assert ids(statuses=frozenset({Status.FAILED})) == ["d", "b"]
    assert ids(kinds=frozenset({Kind.TIMEOUT, Kind.TRANSIENT})) == ["d", "c"]
    assert ids(statuses=frozenset({Status.FAILED}), kinds=frozenset({Kind.PERMANENT})) == ["b"]
    assert ids(statuses=frozenset()) == []
    assert ids(limit=2) == ["d", "c"]
    assert ids(statuses=frozenset({Status.FAILED}), limit=1) == ["d"]
    assert ids(limit=0) == []
    assert ids(from_position=2) == ["b", "a"]
    ledger.append([result("d", 0, generation=2)])
    assert ids(statuses=frozenset({Status.FAILED})) == ["b"]
    assert ids(from_generation=2) == ["d"]
    assert ids(from_generation=2, from_position=1) == []
    assert set(store.archive.counts(ledger.run)) == {
        ResultCount(Status.SUCCEEDED, None, 1, 1),
        ResultCount(Status.SUCCEEDED, None, 2, 1),
        ResultCount(Status.FAILED, Kind.PERMANENT, 1, 1),
        ResultCount(Status.TIMED_OUT, Kind.TIMEOUT, 1, 1),
    }
    ledger.release()


def test_entries_are_in_the_order_of_the_input_whenever_they_were_recorded(store):
    ledger = store.take(store.create("r", {}).id)
    for row in reversed(results(120)):
        ledger.append([row])
    assert [entry.result.position for entry in store.archive.entries(ledger.run, EVERYTHING)] == list(range(120))
    ledger.release()


def test_a_run_with_nothing_recorded_reads_as_nothing(store):
    run = store.create("r", {})
    archive = store.archive
    assert (list(archive.counts(run)), list(archive.entries(run, EVERYTHING))) == ([], [])
    with closing(archive.lookup(run)) as lookup:
        assert (lookup.outcomes([item_key("a")]), list(lookup.rows())) == ({}, [])
    found = archive.history(run, item_key("a"))
    assert (list(found.entries), list(found.attempts), list(found.steps), found.wanted, found.suspect) == (
        [],
        [],
        [],
        0,
        None,
    )


def test_a_pruned_run_is_gone_and_the_others_stay(store):
    ledgers = {run_id: store.take(store.create(run_id, {}).id) for run_id in ("a", "b", "c")}
    for ledger in ledgers.values():
        ledger.append([*results(2500), failed("again", 9000), result("again", 9000, generation=2)])
    for run_id in ("a", "b"):
        ledgers[run_id].append([RunRow(status=FINISHED)])
        ledgers[run_id].release()
    size = store.size(ledgers["a"].run)
    assert size > 2500 * 50
    assert store.prune(store.archive.runs()[:1]) > size // 2
    assert [run.id for run in store.archive.runs()] == ["b", "c"]
    assert len(list(store.archive.entries(ledgers["b"].run, EVERYTHING))) == 2501
    with pytest.raises(UnknownRunError, match="a"):
        store.archive.find("a")
    with pytest.raises(UnknownRunError):
        store.archive.counts(ledgers["a"].run)
    assert store.prune([ledgers["a"].run]) == 0
    ledgers["c"].release()


def test_a_run_under_way_is_not_pruned(store):
    ledger = store.take(store.create("r", {}).id)
    ledger.append(results(10))
    assert store.prune([ledger.run]) == 0
    ledger.append(results(10, first=10))
    assert len(list(store.archive.entries(ledger.run, EVERYTHING))) == 20
    ledger.release()
    assert store.prune([ledger.run]) > 0 or store.archive.runs() == []
    assert store.archive.runs() == []


def test_the_id_of_a_pruned_run_may_be_given_again_but_its_number_is_not(store):
    run = store.create("r", {"old": 1})
    store.prune([run])
    again = store.create("r", {"new": 1})
    assert again.number != run.number
    assert store.archive.find("r").manifest == {"new": 1}
    with pytest.raises(UnknownRunError):
        store.archive.counts(run)
