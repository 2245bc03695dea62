"""Results that the run's own row does not count yet: they are results like all others."""

import sqlite3
from contextlib import closing

import pytest

from graphmill.core.errors import DamagedError, OwnedError
from graphmill.core.json import item_key
from graphmill.journal.records import EVERYTHING, FINISHED, RunRow, RunState, RunStatus, StepRow
from graphmill.journal.sqlite.run_row import MOST_UNCOUNTED
from graphmill.journal.sqlite.store import SqliteStore
from support.journal_process import journal_process
from support.journal_rows import CONTENT, result


class Clock:
    """A wall clock that a test sets."""

    now = 1_800_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(path, clock, _tidy):
    store = SqliteStore(path, clock=clock)
    yield store
    store.close()


def append(ledger, *numbers):
    for number in numbers:
        ledger.append([result(f"item-{number}", number)])


def recorded(store, run_id="r"):
    return [entry.result.position for entry in store.archive.entries(store.archive.find(run_id), EVERYTHING)]


def counted(path):
    """How many results the run's own row speaks of."""
    with closing(sqlite3.connect(path)) as other:
        return other.execute("SELECT rows FROM runs WHERE id = 'r'").fetchone()[0]


def change(path, statement):
    with closing(sqlite3.connect(path)) as other:
        assert other.execute(statement).rowcount == 1
        other.commit()


def test_they_are_seen_at_once(store, ledger, path, clock):
    append(ledger, *range(10))
    assert counted(path) == 1
    [listed] = store.archive.runs()
    assert listed.rows == store.archive.find("r").rows == 10
    assert sum(count.number for count in store.archive.counts(ledger.run)) == 10
    assert store.archive.count_since(ledger.run, clock.now) == 10
    assert recorded(store) == list(range(10))
    assert len(store.archive.history(ledger.run, item_key("item-9")).entries) == 1
    assert store.size(ledger.run) > 10 * 150
    with closing(store.archive.lookup(ledger.run)) as lookup:
        assert len(lookup.outcomes([item_key(f"item-{number}") for number in range(12)])) == 10
        assert len(list(lookup.rows())) == 10


def test_never_more_of_them_than_a_reader_looks_for(store, ledger, path):
    for number in range(3 * MOST_UNCOUNTED):
        append(ledger, number)
        assert number + 1 - counted(path) <= MOST_UNCOUNTED
    assert store.archive.find("r").rows == 3 * MOST_UNCOUNTED
    assert counted(path) > MOST_UNCOUNTED


@pytest.mark.parametrize("by_s", [0.5, 86_400, -0.25, -86_400])
def test_they_are_counted_with_the_next_append_after_half_a_second_or_when_the_clock_was_set_back(
    ledger, path, clock, by_s
):
    append(ledger, 0, 1)
    clock.now += by_s
    append(ledger, 2)
    assert counted(path) == 3
    append(ledger, 3)
    assert counted(path) == 3


@pytest.mark.parametrize("row", [RunRow(status=FINISHED), StepRow(b"k" * 16, 1, "a", CONTENT, 1, 0.5, b"1", None)])
def test_they_are_counted_when_something_else_is_recorded(store, ledger, path, row):
    append(ledger, 0, 1, 2)
    ledger.append([row])
    assert counted(path) == 3
    assert recorded(store) == [0, 1, 2]


def test_of_a_run_that_has_ended_every_result_is_counted(store, ledger, path):
    append(ledger, 0)
    ledger.append([RunRow(status=RunStatus(RunState.PAUSED, "request"))])
    append(ledger, 1, 2)
    assert counted(path) == store.archive.find("r").rows == 3


def test_a_missing_one_is_damage_of_its_run_alone(store, ledger, path):
    other = store.take(store.create("other", {}).id)
    append(other, 0)
    append(ledger, *range(10))
    ledger.release()
    change(path, "DELETE FROM results WHERE row = 6")
    with pytest.raises(DamagedError, match=r"9, where 10 were written"):
        store.take("r")
    with pytest.raises(DamagedError, match=r"9, where 10 were written"):
        recorded(store)
    assert [run.rows for run in store.archive.runs()] == [10, 1]
    assert recorded(store, "other") == [0]
    other.release()


def test_the_last_one_may_be_lost_and_is_then_as_if_it_had_never_been(store, ledger, path):
    append(ledger, *range(10))
    ledger.release()
    change(path, "DELETE FROM results WHERE row = 10")
    later = store.take("r")
    assert later.run.rows == counted(path) == 9
    append(later, 9, 10)
    assert recorded(store) == list(range(11))
    later.release()


@pytest.mark.parametrize(
    "damage", ["position = 77", "output = CAST('7' AS BLOB)", "at = 7.0", "key = CAST('k' AS BLOB)"]
)
def test_a_changed_one_is_damage_that_names_its_row(store, ledger, path, damage):
    append(ledger, *range(10))
    change(path, f"UPDATE results SET {damage} WHERE row = 7")
    with pytest.raises(DamagedError, match="row 7 of results"):
        recorded(store)


def test_runs_that_record_in_turns_lose_none_of_theirs(store, ledger):
    other = store.take(store.create("other", {}).id)
    for number in range(20):
        append(ledger, 2 * number, 2 * number + 1)
        append(other, number)
    assert recorded(store) == list(range(40))
    assert recorded(store, "other") == list(range(20))
    other.release()
    later = store.take("other")
    assert later.run.rows == 20
    later.release()


def test_an_owner_whose_lock_was_lost_adds_none(store, ledger, path):
    append(ledger, 0, 1, 2)
    store._database.owners.release(ledger.run.number)
    later = store.take("r")
    assert later.run.rows == counted(path) == 3
    for _ in range(2):
        with pytest.raises(OwnedError):
            append(ledger, 3)
    append(later, 4)
    assert recorded(store) == [0, 1, 2, 4]
    later.release()


def test_an_owner_whose_run_was_pruned_adds_none(store, ledger, path):
    append(ledger, 0, 1, 2)
    store._database.owners.release(ledger.run.number)
    store.prune([ledger.run])
    with pytest.raises(OwnedError):
        append(ledger, 3)
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT count(*) FROM results").fetchone() == (0,)


def test_those_of_a_process_that_was_killed_are_there_and_counted_by_the_next_owner(store, path):
    script = """
ledger = SqliteStore(path, clock=lambda: 1.0).take("r")
for number in range(500):
    ledger.append([result(f"item-{number}", number)])
say("done")
wait()
"""
    store.create("r", {})
    with journal_process(path, script) as other:
        assert other.heard() == "done"
        other.kill()
    assert counted(path) < 500
    assert recorded(store) == list(range(500))
    ledger = store.take("r")
    assert ledger.run.rows == counted(path) == 500
    ledger.release()
