"""What an owner may rely on."""

import threading
from contextlib import closing

import pytest
from msgspec.structs import asdict

from graphmill.core.errors import OwnedError
from graphmill.core.json import canonical, digest, item_key
from graphmill.core.result import Failure, Kind, Result, Status
from graphmill.core.usage import Usage, add_by_model
from graphmill.engine.results.recorder import LastStep, StepOutcome
from graphmill.journal.bodies import failure_body, failure_from, more_body, usage_body, usage_from
from graphmill.journal.records import (
    EVERYTHING,
    FINISHED,
    HELD,
    AttemptRow,
    ItemNotes,
    OrphansRow,
    Query,
    RunRow,
    RunState,
    StepRow,
    SuspectRow,
    WantedRow,
)
from support.journal_rows import CONTENT, failed, result, results
from support.odd_texts import LONE_SURROGATES, ODD_TEXTS


def entries(store, ledger, query=EVERYTHING):
    return list(store.archive.entries(ledger.run, query))


def history(store, ledger, item_id="a"):
    return store.archive.history(ledger.run, item_key(item_id))


def looked_up(store, ledger, keys):
    with closing(store.archive.lookup(ledger.run)) as lookup:
        return lookup.outcomes(keys)


def test_a_result_comes_back_as_it_was_recorded(store, taken, clock):
    clock.now += 5
    taken.append([result("a", 7, attempts=3)])
    [entry] = entries(store, taken)
    assert (entry.key, entry.generation, entry.at, entry.is_orphaned) == (item_key("a"), 1, clock.now, False)
    row = entry.result
    assert (row.job_id, row.position, row.status, row.input, row.output) == (
        "a",
        7,
        Status.SUCCEEDED,
        {"id": 7},
        {"answer": 7},
    )
    assert (row.error, row.attempts, row.queued_s, row.duration_s, dict(row.metadata)) == (None, 3, 0.25, 1.5, {})


def test_results_that_are_degraded_are_counted_and_found(store, taken):
    taken.append([result("a", 0), result("b", 1, is_degraded=True), failed("c", 2), result("d", 3, is_degraded=True)])
    counts = {(count.status, count.is_degraded): count.number for count in store.archive.counts(taken.run)}
    assert counts == {(Status.SUCCEEDED, False): 1, (Status.SUCCEEDED, True): 2, (Status.FAILED, False): 1}
    assert [entry.result.job_id for entry in entries(store, taken, Query(is_degraded=True))] == ["b", "d"]
    assert [entry.result.job_id for entry in entries(store, taken, Query(statuses=frozenset({Status.SUCCEEDED})))] == [
        "a",
        "b",
        "d",
    ]


def test_a_failure_comes_back_as_it_was_recorded(store, taken):
    taken.append([failed("a", kind=Kind.TIMEOUT)])
    [entry] = entries(store, taken)
    assert entry.result.error.kind is Kind.TIMEOUT
    assert (entry.result.error.message, entry.result.error.type, entry.result.output) == ("no", "ValueError", None)


def test_what_has_no_body_comes_back_without_one(store, taken):
    taken.append([result("a", input=None, output=None)])
    [entry] = entries(store, taken)
    assert (entry.result.input, entry.result.output) == (None, None)


def test_each_generation_is_recorded_and_the_highest_counts(store, taken):
    taken.append([failed("a"), result("b", 1)])
    taken.append([result("a", generation=3), result("a", generation=2, output=b"2")])
    assert [(entry.generation, dict(entry.result.metadata)) for entry in entries(store, taken)] == [
        (3, {"generation": 3}),
        (1, {}),
    ]
    assert [entry.generation for entry in history(store, taken).entries] == [1, 2, 3]
    assert sorted(count[2:4] for count in store.archive.counts(taken.run)) == [(1, 1), (3, 1)]
    assert store.archive.find("r").rows == 4


def test_nothing_of_an_append_that_fails_is_recorded(store, taken):
    taken.append([result("a")])
    with pytest.raises(TypeError):
        taken.append([result("b", 1), WantedRow(item_key("a"), 2), RunRow(total=9), object()])
    assert len(entries(store, taken)) == 1
    assert history(store, taken).wanted == 0
    assert (store.archive.find("r").rows, store.archive.find("r").total) == (1, None)
    taken.append([result("b", 1)])
    assert len(entries(store, taken)) == 2


def test_an_append_of_nothing_is_allowed(store, taken):
    taken.append([])
    assert entries(store, taken) == []


@pytest.mark.parametrize("text", [*ODD_TEXTS.values(), *LONE_SURROGATES.values(), "", "x" * 100_000])
def test_any_text_may_be_an_id_a_path_and_in_a_body(store, taken, text):
    taken.append([result(text, input=canonical({text: text}), output=canonical([text]))])
    taken.append([StepRow(item_key(text), 1, text, CONTENT, 1, 0.5, canonical(text), None), RunRow(reason=text)])
    taken.append([AttemptRow(item_key(text), 1, text, 1, Kind.TRANSIENT, canonical(text))])
    [entry] = entries(store, taken)
    assert (entry.result.job_id, entry.result.input, entry.result.output) == (text, {text: text}, [text])
    found = history(store, taken, text)
    assert [step.path for step in found.steps] == [attempt.path for attempt in found.attempts] == [text]
    assert store.archive.find("r").reason == text


def test_a_huge_body_comes_back_whole(store, taken):
    text = "".join(map(str, range(1_000_000)))
    taken.append([result("a", output=canonical(text), input=canonical("x" * 5_000_000))])
    [entry] = entries(store, taken)
    assert entry.result.output == text
    assert entry.result.input == "x" * 5_000_000


def test_many_rows_at_once(store, taken):
    rows = results(3000)
    taken.append(rows)
    assert [entry.result.position for entry in entries(store, taken)] == list(range(3000))
    found = looked_up(store, taken, [row.key for row in rows] + [item_key("none")])
    assert len(found) == 3000


def test_steps_come_back_in_their_order_and_none_is_taken_for_another(store, taken):
    step = StepRow(item_key("a"), 1, "solve", CONTENT, 1, 0.5, b'"first"', None)
    other = step._replace(content=digest(b"other"), output=b'"other"')
    judged = step._replace(path="judge", output=None, error=b"{}")
    taken.append([step, step._replace(key=item_key("b"))])
    taken.append([other, judged, step._replace(generation=2)])
    assert history(store, taken).steps == [step, other, judged, step._replace(generation=2)]
    with closing(store.archive.lookup(taken.run)) as lookup:
        assert lookup.notes(item_key("a")).steps == [step, other, judged, step._replace(generation=2)]
        assert lookup.notes(item_key("b")).steps == [step._replace(key=item_key("b"))]
        assert lookup.notes(item_key("c")) == ItemNotes(attempts=[], steps=[])


@pytest.mark.parametrize(
    "error", [None, Failure(kind=Kind.TIMEOUT, message="late \u2028", type="")], ids=["well", "handled"]
)
def test_a_step_in_the_row_of_its_result_comes_back_as_if_it_had_its_own(store, taken, error):
    before = StepRow(item_key("a"), 1, "draft", CONTENT, 1, 0.5, b'"first"', None)
    body, said = (b'[{"a":"\xc3\xa9"},"default",[]]', None) if error is None else (None, failure_body(error))
    outcome = StepOutcome(body, error, 2, 0.25, Usage(requests=3, input_tokens=7), 1.5)
    held = more_body(
        Result(job_id="a", position=0, status=Status.SUCCEEDED, input=None),
        LastStep("judge[0]/é", digest(b"x"), outcome),
    )
    last = StepRow(item_key("a"), 1, "judge[0]/é", digest(b"x"), 2, 0.25, body, said, usage_body(outcome.usage), 1.5)
    taken.append([before, result("a", more=held), failed("b", 1)])
    taken.append([before._replace(generation=2), result("a", generation=2, more=held)])
    again = [before._replace(generation=2), last._replace(generation=2)]
    assert history(store, taken).steps == [before, last, *again]
    with closing(store.archive.lookup(taken.run)) as lookup:
        assert lookup.last_steps(item_key("a")) == [last, again[1]]
        assert [lookup.last_steps(item_key(name)) for name in ("b", "c")] == [[], []]


def test_a_step_that_failed_as_its_job_did_is_not_written_twice(store, taken):
    failure = Failure(kind=Kind.PERMANENT, message="no", type="ValueError")
    ended = Result(job_id="a", position=0, status=Status.FAILED, input=None, error=failure)
    held = more_body(ended, LastStep("solve", CONTENT, StepOutcome(None, failure)))
    taken.append([failed("a", more=held)])
    [step] = history(store, taken).steps
    assert (failure_from(step.error), b"ValueError" in held) == (failure, False)


def test_what_a_step_has_used_comes_back_however_much_it_is(store, taken):
    usage = Usage(requests=1, input_tokens=2**70, cost_nano=500_000_000)
    ended = Result(
        job_id="a",
        position=0,
        status=Status.SUCCEEDED,
        input=None,
        usage=usage.counts,
        cost_nano=usage.cost_nano,
        metadata={"n": 2**70},
    )
    taken.append(
        [result("a", more=more_body(ended, LastStep("solve", CONTENT, StepOutcome(b"1", None, 1, 0.5, usage))))]
    )
    [step] = history(store, taken).steps
    assert usage_from(step.usage) == usage


def test_a_question_and_its_answer_come_back_and_a_step_of_the_same_name_is_no_answer(store, taken):
    asked = {"path": "ask#1", "question": {"ok?": None}, "content": CONTENT.hex()}
    paused = failed("a", 0, Kind.PAUSED, status=Status.WAITING, more=canonical({"metadata": {"questions": [asked]}}))
    taken.append([paused, failed("b", 1)])
    answer = StepRow(
        item_key("a"), 1, "ask#1", CONTENT, 0, 0.0, canonical({"question": {"ok?": None}, "answer": [1]}), None
    )
    taken.append(
        [
            answer,
            answer._replace(path="x/ask#2", attempts=1),
            answer._replace(path="x/asked#1"),
            answer._replace(path="ask#1/x"),
        ]
    )
    [entry] = entries(store, taken, Query(statuses=frozenset({Status.WAITING})))
    assert (entry.result.job_id, entry.result.questions) == ("a", {"ask#1": {"ok?": None}})
    found = history(store, taken).steps
    assert (found[0], [row.is_answer for row in found]) == (answer, [True, False, False, False])


def test_the_second_of_two_equal_attempts_replaces_the_first(store, taken):
    started = AttemptRow(item_key("a"), 1, "", 1, None, None)
    ended = started._replace(kind=Kind.AMBIGUOUS, error=b"{}")
    taken.append([started])
    assert history(store, taken).attempts == [started]
    taken.append([ended, started._replace(attempt=2)])
    assert history(store, taken).attempts == [ended, started._replace(attempt=2)]
    taken.append([started._replace(attempt=3), ended._replace(attempt=3)])
    assert history(store, taken).attempts[2] == ended._replace(attempt=3)


def test_what_an_attempt_used_is_kept(store, taken):
    failed = AttemptRow(item_key("a"), 1, "fetch", 1, Kind.TRANSIENT, b"{}", b'{"requests":1}')
    taken.append([failed, failed._replace(attempt=2, kind=None, usage=None)])
    taken.append([failed._replace(attempt=2)])
    assert history(store, taken).attempts == [failed, failed._replace(attempt=2)]
    with closing(store.archive.lookup(taken.run)) as lookup:
        assert lookup.notes(item_key("a")).attempts == [failed, failed._replace(attempt=2)]


def outcomes(store, taken):
    """What is known of a, b and c, without the rows, which are the store's own."""
    found = looked_up(store, taken, [item_key(name) for name in "abc"])
    assert len({outcome.row for outcome in found.values()}) == len(found)
    return {key: outcome[1:5] for key, outcome in found.items()}


def test_of_what_is_wanted_the_highest_generation_is_kept(store, taken):
    taken.append([result("a"), WantedRow(item_key("a"), 3), WantedRow(item_key("a"), 2)])
    taken.append([WantedRow(item_key("a"), 1), WantedRow(item_key("b"), 2)])
    assert history(store, taken).wanted == 3
    assert outcomes(store, taken) == {item_key("a"): (1, Status.SUCCEEDED, CONTENT, 3)}


def test_outcomes_are_of_the_highest_generation(store, taken):
    taken.append([failed("a"), result("a", generation=2, content=digest(b"2")), failed("b", 1)])
    assert outcomes(store, taken) == {
        item_key("a"): (2, Status.SUCCEEDED, digest(b"2"), 0),
        item_key("b"): (1, Status.FAILED, CONTENT, 0),
    }
    assert looked_up(store, taken, []) == {}


def test_what_is_settled_is_a_success_of_the_same_content_that_nobody_wants_again(store, taken):
    names = ["good", "edited", "bad", "new"]
    taken.append([result("good"), result("edited", 1, content=digest(b"2")), failed("bad", 2)])
    keys = [item_key(name) for name in names]
    with closing(store.archive.lookup(taken.run)) as lookup:
        rows = lookup.settled(keys, [CONTENT] * 4)
        assert rows[1:] == [None] * 3
        assert rows[0] in (None, looked_up(store, taken, keys)[keys[0]].row)
        assert set(lookup.outcomes(keys[1:])) == set(keys[1:3])


def test_suspects_are_replaced_one_by_one(store, taken):
    taken.append([SuspectRow(item_key("a"), 1, 0), SuspectRow(item_key("b"), 1, 0)])
    taken.append([SuspectRow(item_key("a"), 2, 1)])
    assert [store.archive.history(taken.run, item_key(name)).suspect[1:] for name in "ab"] == [(2, 1), (1, 0)]
    assert history(store, taken).suspect == SuspectRow(item_key("a"), 2, 1)
    assert history(store, taken, "c").suspect is None


def test_orphans_are_replaced_all_at_once_and_marked(store, taken):
    taken.append([result("a"), result("b", 1), OrphansRow([item_key("a")])])
    assert [entry.is_orphaned for entry in entries(store, taken)] == [True, False]
    taken.append([OrphansRow([item_key("b"), item_key("b")])])
    assert [dict(entry.result.metadata) for entry in entries(store, taken)] == [{}, {"orphaned": True}]
    assert history(store, taken, "b").entries[0].is_orphaned
    taken.append([OrphansRow([])])
    assert [entry.is_orphaned for entry in entries(store, taken)] == [False, False]


def test_what_changes_in_a_run_is_kept_and_none_leaves_it(store, taken, clock):
    clock.now += 10
    taken.append(
        [
            RunRow(
                status=HELD,
                reason="why",
                total=5,
                is_read=True,
                more_s=1.5,
                generation=2,
                manifest={"b": [1, None]},
            )
        ]
    )
    taken.append([RunRow(more_s=0.25), result("a")])
    run = store.archive.find("r")
    assert (run.status, run.reason, run.total, run.is_read, run.elapsed_s, run.generation) == (
        HELD,
        "why",
        5,
        True,
        1.75,
        2,
    )
    assert (run.manifest, run.rows, run.changed_at) == ({"b": [1, None]}, 1, clock.now)
    taken.append([RunRow(status=FINISHED, reason="")])
    taken.release()
    assert (store.archive.find("r").state, store.archive.find("r").reason) == (RunState.FINISHED, "")


def test_a_clock_that_is_set_back_changes_no_order(store, taken, clock):
    taken.append([result("b", 0)])
    clock.now -= 86_400
    taken.append([result("a", 1), failed("b", 0, generation=2)])
    assert [(entry.result.job_id, entry.generation) for entry in entries(store, taken)] == [("b", 2), ("a", 1)]
    assert store.create(None, {}).id < store.create(None, {}).id


def test_what_an_owner_left_is_there_for_the_next(store, taken):
    taken.append([result("a"), WantedRow(item_key("a"), 2), SuspectRow(item_key("a"), 1, 1), RunRow(more_s=2.0)])
    taken.release()
    ledger = store.take("r")
    assert ledger.run.epoch == taken.run.epoch + 1
    ledger.append([result("a", generation=2, output=b'"again"'), RunRow(more_s=1.0)])
    assert [entry.result.output for entry in history(store, ledger).entries] == [{"answer": 0}, "again"]
    assert (store.archive.find("r").rows, store.archive.find("r").elapsed_s) == (2, 3.0)
    ledger.release()


def test_two_runs_do_not_mix(store, taken):
    other = store.take(store.create("other", {}).id)
    for position in range(5):
        taken.append([result("a", position, generation=position + 1)])
        other.append([failed("a", position, generation=position + 1), WantedRow(item_key("a"), 9)])
    assert [entry.result.status for entry in entries(store, taken)] == [Status.SUCCEEDED]
    assert [entry.result.status for entry in entries(store, other)] == [Status.FAILED]
    assert looked_up(store, taken, [item_key("a")])[item_key("a")].wanted == 0
    other.release()


def test_an_owner_that_has_released_a_run_can_write_no_more(store, taken):
    taken.release()
    with pytest.raises(OwnedError):
        taken.append([result("a")])
    ledger = store.take("r")
    with pytest.raises(OwnedError):
        taken.append([result("a")])
    with pytest.raises(OwnedError):
        taken.requests()
    taken.release()
    ledger.append([result("b")])
    assert [entry.result.job_id for entry in entries(store, ledger)] == ["b"]
    ledger.release()


def test_readers_in_many_threads_see_whole_appends_while_one_writes(store, taken):
    seen, ended = [], threading.Event()

    def read():
        while not ended.is_set():
            seen.append(len(entries(store, taken)))
            seen.append(sum(count.number for count in store.archive.counts(taken.run)))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(40):
        taken.append(results(10, first=number * 10))
    ended.set()
    for thread in threads:
        thread.join()
    assert all(count % 10 == 0 for count in seen)
    assert len(entries(store, taken)) == 400


def test_what_rows_have_spent_adds_up_whichever_they_are_and_however_often_the_run_is_looked_at(store, taken, clock):
    one, other = (
        Usage(requests=1, input_tokens=5),
        Usage(requests=2, reused=1, output_tokens=3, reasoning_tokens=2),
    )
    rows = [
        result("a", 0, spent={"own/a": one}),
        result("b", 1),
        result("c", 2, spent={"own/a": one, "own/b": other}),
        StepRow(item_key("d"), 1, "ask", CONTENT, 1, 0.5, b"{}", None, spent={"own/b": other}),
        AttemptRow(item_key("d"), 1, "ask", 1, Kind.TRANSIENT, b"{}", spent={"own/a": one}),
        result("d", 3, spent={"\ud800": one}),
        *results(200, first=4, spent={"own/a": one}),
    ]
    found = {}
    for row in rows:
        taken.append([row])
        found = add_by_model(found, row.spent or {})
        assert store.archive.find("r").usage == taken.usage == found
    assert found["own/a"] == Usage(requests=203, input_tokens=5 * 203)
    taken.append(results(100, first=300, spent={"own/b": other}))
    found = add_by_model(found, {"own/b": Usage(**{name: 100 * count for name, count in asdict(other).items()})})
    taken.append([results(1, first=500)[0]])
    taken.release()
    again = store.take("r")
    assert again.run.usage == again.usage == store.archive.find("r").usage == found
    assert history(store, again, "d").steps[0].spent == {"own/b": other}
    again.release()


def test_a_run_that_asked_no_model_has_spent_nothing(store, taken):
    taken.append([result("a", 0)])
    assert (store.archive.find("r").usage, taken.usage) == ({}, {})
