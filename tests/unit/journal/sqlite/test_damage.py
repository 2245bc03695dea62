"""One changed byte anywhere gives the truth, an error, or (in the log) the truth of an earlier moment; never a wrong value."""

import itertools
import os
import random
import shutil
from contextlib import closing

import pytest

from graphmill.core.errors import JournalError, UnknownRunError
from graphmill.core.json import canonical, digest, item_key
from graphmill.core.result import Kind
from graphmill.journal.records import (
    EVERYTHING,
    AttemptRow,
    OrphansRow,
    RunRequest,
    RunRow,
    StepRow,
    SuspectRow,
    WantedRow,
)
from graphmill.journal.sqlite import database
from graphmill.journal.sqlite.store import SqliteStore
from support.journal_rows import CONTENT, failed, result

PLACES = 200
SEEDS = int(os.environ.get("GRAPHMILL_DAMAGE_SEEDS", "1"))  # more, to look longer
ITEMS = 60
KEYS = [item_key(f"item-{number}") for number in range(ITEMS)]
CONTENTS = [CONTENT] * ITEMS


def appends():
    """What is written, append by append: all tables, two generations, bodies short, long and over several pages."""
    for number in range(0, ITEMS, 4):
        rows = [
            result(f"item-{each}", each, output=canonical("y" * each**2), content=digest(bytes([each])))
            for each in range(number, number + 3)
        ]
        key = KEYS[number]
        yield [
            *rows,
            failed(f"item-{number + 3}", number + 3, Kind.TIMEOUT),
            StepRow(key, 1, "solve", CONTENT, 1, 0.5, canonical(number), None),
            AttemptRow(key, 1, "", 1, Kind.TRANSIENT, b"{}", b'{"requests":1}'),
            RunRow(more_s=1.0, total=number),
        ]
    yield [
        result("item-3", 3, generation=2),
        WantedRow(KEYS[5], 2),
        SuspectRow(KEYS[6], 2, 1),
        OrphansRow([KEYS[7], KEYS[8]]),
    ]
    yield [
        result("item-7", 7, generation=3, output=canonical(random.Random(7).randbytes(9000).hex())),
        RunRow(reason="end"),
    ]


def seen(store, *, is_owner):
    """Everything that can be read of the run."""
    archive = store.archive
    [listed, other] = archive.runs()
    run = archive.find("the-run")
    found = {
        "run": (
            run.rows,
            run.total,
            run.reason,
            run.elapsed_s,
            run.manifest,
            run.generation,
            listed.id,
            other.id,
            other.rows,
        ),
        "counts": sorted(map(str, archive.counts(run))),
        "entries": list(archive.entries(run, EVERYTHING)),
    }
    if is_owner:
        ledger = store.take("the-run")
        try:
            assert list(ledger.requests()) == []
        finally:
            ledger.release()
    found["settled"] = looked_up(store, run, lambda lookup: lookup.settled(KEYS, CONTENTS))
    with closing(archive.lookup(run)) as lookup:
        found["outcomes"] = lookup.outcomes(KEYS)
        found["rows"] = list(lookup.rows())
        found["notes"] = [lookup.notes(key) for key in KEYS[:12]]
    found["histories"] = [archive.history(run, key) for key in KEYS[:12]]
    return found


def looked_up(store, run, ask):
    with closing(store.archive.lookup(run)) as lookup:
        return ask(lookup)


def in_parts(store):
    """The same one question at a time: a part that can not be answered is left out, and must not make another part wrong."""
    found = {}
    questions = {
        "run": lambda run: (run.rows, run.total, run.reason, run.elapsed_s, run.manifest),
        "counts": lambda run: sorted(map(str, store.archive.counts(run))),
        "entries": lambda run: list(store.archive.entries(run, EVERYTHING)),
        "rows": lambda run: looked_up(store, run, lambda lookup: list(lookup.rows())),
        "settled": lambda run: looked_up(store, run, lambda lookup: lookup.settled(KEYS, CONTENTS)),
        "outcomes": lambda run: looked_up(store, run, lambda lookup: lookup.outcomes(KEYS)),
        "notes": lambda run: looked_up(store, run, lambda lookup: [lookup.notes(key) for key in KEYS[:12]]),
        "histories": lambda run: [store.archive.history(run, key) for key in KEYS[:12]],
    }
    for name, ask in questions.items():
        try:
            found[name] = ask(store.archive.find("the-run"))
        except JournalError:
            found[name] = None
    return found


TICKS = itertools.count(1.0)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A store after each append: (folder with its closed file, what it says), and one with everything still in the log."""
    return _written(tmp_path_factory.mktemp("written"), appends(), clock=lambda: next(TICKS))


@pytest.fixture(scope="module")
def uncounted(tmp_path_factory):
    """The same of a run that was killed before its last results were counted."""
    rows = [[result(f"item-{number}", number, output=canonical("y" * number**2))] for number in range(ITEMS)]
    return _written(tmp_path_factory.mktemp("uncounted"), rows, clock=lambda: 1.0)


def _written(folder, appends, *, clock):
    store = SqliteStore(folder / "live" / "runs.db", clock=clock)
    store.create("the-run", {"workflow": "w", "more": "z" * 3000})
    other = store.take(store.create("other-run", {}).id)
    truths = [seen(store, is_owner=False)]
    other.append([result(f"item-{number}", number, output=b'"other"') for number in range(10)])
    other.release()
    ledger = store.take("the-run")
    truths.append(seen(store, is_owner=False))
    for rows in appends:
        ledger.append(rows)
        truths.append(seen(store, is_owner=False))
    shutil.copytree(folder / "live", folder / "logged", ignore=shutil.ignore_patterns("*-shm", "*-owners"))
    ledger.release()
    store.close()
    shutil.copytree(folder / "live", folder / "closed")
    return folder, truths


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Without waiting for the disk, which nobody cuts off here."""
    monkeypatch.setattr(database, "_SETTINGS", (*database._SETTINGS, "PRAGMA synchronous = OFF"))


def changed(folder, target, name, place, value):
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    data = bytearray((target / name).read_bytes())
    data[place] = value if data[place] != value else value ^ 0xFF
    (target / name).write_bytes(data)


def places(size, seed):
    chance = random.Random(seed)
    return [(chance.randrange(size), chance.randrange(256)) for _ in range(PLACES)]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_byte_changed_in_the_database_gives_the_truth_or_an_error(written, tmp_path, seed):
    folder, truths = written
    noticed = 0
    for place, value in places((folder / "closed" / "runs.db").stat().st_size, seed):
        changed(folder / "closed", tmp_path / "copy", "runs.db", place, value)
        noticed += not _is_true_or_refused(tmp_path / "copy" / "runs.db", truths[-1:], place, value)
    assert noticed > PLACES // 10


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_byte_changed_among_results_that_are_not_counted_yet_gives_the_truth_of_some_moment_or_an_error(
    uncounted, tmp_path, seed
):
    folder, truths = uncounted
    noticed = 0
    for place, value in places((folder / "closed" / "runs.db").stat().st_size, seed):
        changed(folder / "closed", tmp_path / "copy", "runs.db", place, value)
        noticed += not _is_true_or_refused(tmp_path / "copy" / "runs.db", truths, place, value)
    assert noticed > PLACES // 10


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_byte_changed_in_the_log_gives_the_truth_of_some_moment_or_an_error(written, tmp_path, seed):
    folder, truths = written
    for place, value in places((folder / "logged" / "runs.db-wal").stat().st_size, seed):
        changed(folder / "logged", tmp_path / "copy", "runs.db-wal", place, value)
        _is_true_or_refused(tmp_path / "copy" / "runs.db", truths, place, value)


def test_every_byte_of_the_header_may_change(written, tmp_path):
    folder, truths = written
    for place in range(100):
        value = random.Random(place).randrange(256)
        changed(folder / "closed", tmp_path / "copy", "runs.db", place, value)
        _is_true_or_refused(tmp_path / "copy" / "runs.db", truths[-1:], place, value)


def _is_true_or_refused(path, truths, place, value):
    """Tell whether all of it could be read; a wrong value fails the test."""
    try:
        store = SqliteStore(path)
    except JournalError:
        return False
    try:
        try:
            parts = in_parts(store)
        except UnknownRunError:  # a log lost from its first frame on
            assert path.with_name("runs.db-wal").exists(), (place, value)
            return False
        for name, part in parts.items():
            assert part is None or any(_same(name, part, truth[name]) for truth in truths), (place, value, name)
        try:
            whole = seen(store, is_owner=True)
        except JournalError:
            return False
        except (UnknownRunError, ValueError):
            assert len(truths) > 1, (place, value)
            return False
        assert any(whole == truth for truth in truths), (place, value)
        return True
    finally:
        store.close()


def _same(name, part, truth):
    return part == (truth[:5] if name == "run" else truth)


def test_what_was_asked_is_heard_as_it_was_asked_or_not_at_all(written, tmp_path):
    folder, _ = written
    shutil.copytree(folder / "closed", tmp_path / "copy")
    store = SqliteStore(tmp_path / "copy" / "runs.db")
    ledger = store.take("the-run")
    store.archive.ask(ledger.run, RunRequest("cancel_item", "item-1"))
    with store._database.writing() as writer:
        writer.execute("UPDATE requests SET argument = CAST('item-2' AS BLOB)")
    with pytest.raises(JournalError, match="row 1 of requests"):
        ledger.requests()
    ledger.release()
    store.close()


def test_a_run_that_is_named_in_full_is_found_beside_one_that_is_damaged(written, tmp_path):
    folder, _ = written
    shutil.copytree(folder / "closed", tmp_path / "copy")
    with closing(SqliteStore(tmp_path / "copy" / "runs.db")) as store:
        with store._database.writing() as writer:
            writer.execute("UPDATE runs SET rows = rows + 1 WHERE id = 'other-run'")
        assert store.archive.find("the-run").id == "the-run"
        for name in ("the-", "other-run"):
            with pytest.raises(JournalError, match="row 2 of runs"):
                store.archive.find(name)
