"""Results are found by their keys in whatever order they were recorded and are asked for."""

import random
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from graphmill.core.errors import DamagedError
from graphmill.core.json import digest, item_key
from graphmill.journal.records import WantedRow
from graphmill.journal.sqlite import lookup as module
from support.journal_rows import CONTENT, failed, result

KEYS = [item_key(str(number)) for number in range(200)]


@pytest.fixture(autouse=True, scope="module")
def small_pages():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PAGE", 7)
        patch.setattr(module, "_MAX_HELD", 20)
        yield


recorded = st.dictionaries(st.integers(0, 60), st.integers(1, 3), max_size=60)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # each example has its own run
@given(
    recorded=recorded, asked=st.lists(st.integers(0, 70), max_size=90), seed=st.integers(0, 999), in_order=st.booleans()
)
def test_what_is_found_is_what_was_recorded(store, recorded, asked, seed, in_order):
    rows = [result(str(number), number, generation=n) for number, last in recorded.items() for n in range(1, last + 1)]
    rows.sort(key=lambda row: row.position) if in_order else random.Random(seed).shuffle(rows)
    ledger = store.take(store.create(None, {}).id)
    ledger.append(rows)
    asked = sorted(asked) if in_order else asked
    with closing(store.archive.lookup(ledger.run)) as lookup:
        for start in range(0, len(asked), 9):
            some = asked[start : start + 9]
            found = lookup.outcomes([KEYS[number] for number in some])
            assert {key: outcome.generation for key, outcome in found.items()} == {
                KEYS[number]: recorded[number] for number in some if number in recorded
            }
        current = dict(lookup.rows())
        assert sorted(current.values()) == sorted(KEYS[number] for number in recorded)
        assert all(row in current for row in (outcome.row for outcome in lookup.outcomes(KEYS[:70]).values()))
    ledger.release()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    recorded=st.lists(st.sampled_from(["good", "edited", "bad", "new"]), max_size=60),
    seed=st.integers(0, 999),
    shuffled=st.integers(0, 3),
)
@example(recorded=["edited"] * 5 + ["new"] + ["good"] * 17, seed=0, shuffled=0)
def test_what_is_settled_has_succeeded_as_it_is_and_the_rest_can_be_asked_for(store, recorded, seed, shuffled):
    rows = [_row(kind, number) for number, kind in enumerate(recorded) if kind != "new"]
    places = list(range(len(recorded)))
    for shuffle, series in zip((shuffled & 1, shuffled & 2), (rows, places), strict=True):
        if shuffle:
            random.Random(seed).shuffle(series)
    ledger = store.take(store.create(None, {}).id)
    ledger.append(rows)
    with closing(store.archive.lookup(ledger.run)) as lookup:
        row_of = {key: row for row, key in lookup.rows()}
        for start in range(0, len(places), 9):
            some = places[start : start + 9]
            settled = lookup.settled([KEYS[place] for place in some], [CONTENT] * len(some))
            assert all(
                row is None or (recorded[place], row_of[KEYS[place]]) == ("good", row)
                for place, row in zip(some, settled, strict=True)
            )
            in_order = (
                not shuffled and "new" not in recorded
            )  # for what is new all is read, and may be too much to be kept
            assert not in_order or all(
                row is not None for place, row in zip(some, settled, strict=True) if recorded[place] == "good"
            )
            asked = [place for place, row in zip(some, settled, strict=True) if row is None]
            found = lookup.outcomes([KEYS[place] for place in asked])
            assert {key: outcome.row for key, outcome in found.items()} == {
                KEYS[place]: row_of[KEYS[place]] for place in asked if recorded[place] != "new"
            }
    ledger.release()


def _row(kind, number):
    if kind == "bad":
        return failed(str(number), number)
    return result(str(number), number, content=CONTENT if kind == "good" else digest(b"another"))


def test_a_settled_item_is_found_when_it_is_asked_for_again(store):
    ledger = store.take(store.create(None, {}).id)
    ledger.append([result(str(number), number) for number in range(30)])
    with closing(store.archive.lookup(ledger.run)) as lookup:
        settled = lookup.settled(KEYS[:30], [CONTENT] * 30)
        assert lookup.settled(KEYS[:3], [CONTENT] * 3) == [None] * 3
        for _ in range(2):  # looked for in all rows, then in sorted ones
            found = lookup.outcomes(KEYS[:3])
            assert [found[key].row for key in KEYS[:3]] == settled[:3]
    ledger.release()


def test_nothing_is_settled_that_is_wanted_again_or_is_of_another_generation(store):
    ledger = store.take(store.create(None, {}).id)
    ledger.append([result("0"), result("1", 1)])
    with closing(store.archive.lookup(replace(ledger.run, generation=2))) as lookup:
        assert lookup.settled(KEYS[:2], [CONTENT] * 2) == [None] * 2
    ledger.append([WantedRow(KEYS[0], 2)])
    with closing(store.archive.lookup(ledger.run)) as lookup:
        assert lookup.settled(KEYS[:1], [CONTENT]) == [None]
    ledger.append([result("0", generation=2)])
    with closing(store.archive.lookup(ledger.run)) as lookup:
        assert lookup.settled(KEYS[:1], [CONTENT]) == [None]
    ledger.release()


def test_an_item_that_is_asked_for_again_is_found_again_under_the_same_row(store):
    ledger = store.take(store.create(None, {}).id)
    ledger.append([result(str(number), number) for number in range(30)])
    with closing(store.archive.lookup(ledger.run)) as lookup:
        assert lookup.outcomes(KEYS[:3]) == lookup.outcomes(KEYS[:3])
    ledger.release()


def test_what_is_recorded_after_the_first_question_is_not_seen(store):
    ledger = store.take(store.create(None, {}).id)
    ledger.append([result("0")])
    with closing(store.archive.lookup(ledger.run)) as lookup:
        assert list(lookup.outcomes(KEYS[:2])) == KEYS[:1]
        ledger.append([result("1", 1)])
        assert list(lookup.outcomes(KEYS[:2])) == KEYS[:1]
        assert [key for _, key in lookup.rows()] == KEYS[:1]
    ledger.release()


@pytest.mark.parametrize("asked", [KEYS[:5], [KEYS[150]]])
@pytest.mark.parametrize("generation", [1, 2])
def test_a_result_whose_key_has_changed_is_damage_and_not_an_item_that_is_new(store, ledger, asked, generation):
    ledger.append([result(str(number), number, generation=generation) for number in range(30)])
    with store._database.writing() as connection:
        connection.execute("UPDATE results SET key = ? WHERE row = 4", (KEYS[99],))
    with closing(store.archive.lookup(ledger.run)) as lookup, pytest.raises(DamagedError, match="row 4 of results"):
        lookup.outcomes(asked) if generation > 1 else lookup.settled(asked, [CONTENT] * len(asked))
