"""G3, G15: what must not happen twice, and what kills the whole process, with processes that really die."""

import asyncio

import pytest

import graphmill as gm
from graphmill.journal.records import StepRow
from support.recording import KILLED, PROMPT, Program, statuses, watched

UNSAFE = """
def send(item):
    note(item["id"])
    if item["id"] == "b" and noted().count("b") == 1:
        die()
    return "sent"
"""
SEND = """
report = gm.batch(send, [{"id": "a"}, {"id": "b"}, {"id": "c"}], run_id="r", effect="unsafe", concurrency=1)
print([str(result.error and result.error.kind) for result in report.results()])
"""


def test_an_unsafe_item_under_way_in_a_crash_is_failed_as_ambiguous_and_only_retry_runs_it(tmp_path):
    program = Program(tmp_path, UNSAFE)
    program.run(SEND, code=KILLED)
    assert program.run(SEND) == "['None', 'ambiguous', 'None']"
    assert program.notes == ["a", "b", "c"]
    assert program.run('print(gm.retry("r", kinds=["ambiguous"]).summary())') == "3/3 items succeeded"
    assert program.notes == ["a", "b", "c", "b"]


def test_a_repeatable_item_under_way_in_a_crash_is_simply_run_again(tmp_path):
    program = Program(tmp_path, UNSAFE)
    script = SEND.replace('effect="unsafe", ', "")
    program.run(script, code=KILLED)
    assert program.run(script) == "['None', 'None', 'None']"
    assert (program.notes.count("b"), program.notes.count("c")) == (2, 1)
    assert program.notes.count("a") <= 2  # its result may not have been committed yet


def only_with(error, **policy):
    calls = []

    async def send(_):
        calls.append("send")
        if len(calls) == 1:
            raise error
        return "sent"

    report = gm.batch(send, [1], journal="memory:", effect="unsafe", policy=gm.Policy(retry=PROMPT.retry, **policy))
    (result,) = report.results()
    return result, len(calls)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError("closed"),
        gm.Throttled("slow down"),
        gm.Unavailable("down"),
        gm.Transient("no line", is_unsent=True),
    ],
)
def test_an_unsafe_item_that_was_surely_not_sent_is_tried_again(error):
    result, calls = only_with(error)
    assert (result.output, calls) == ("sent", 2)


@pytest.mark.parametrize("error", [ConnectionResetError("gone"), gm.Transient("who knows"), gm.Ambiguous("who knows")])
def test_an_unsafe_item_of_which_nobody_knows_is_ambiguous(error):
    result, calls = only_with(error)
    assert (result.status, result.error.kind, calls) == ("failed", "ambiguous", 1)


def test_an_unsafe_item_that_has_surely_failed_is_no_ambiguity():
    result, calls = only_with(gm.Permanent("refused"))
    assert (result.error.kind, calls) == ("permanent", 1)


def test_an_unsafe_item_that_timed_out_is_ambiguous():
    calls = []

    async def send(item):
        calls.append(item)
        await asyncio.Event().wait()

    report = gm.batch(
        send, [1], journal="memory:", effect="unsafe", policy=gm.Policy(retry=PROMPT.retry, timeout_s=0.05)
    )
    (result,) = report.results()
    assert (result.status, result.error.kind, calls) == ("failed", "ambiguous", [1])


def test_an_unsafe_item_that_a_cancelled_run_interrupts_is_ambiguous_when_it_is_resumed(tmp_path):
    calls = []

    async def send(item):
        calls.append(item)
        if len(calls) == 1:
            run.cancel()
        await asyncio.sleep(0)
        return "sent"

    def keep(live):
        nonlocal run
        run = live

    run = None
    options = {"run_id": "r", "journal": tmp_path / "runs.db", "effect": "unsafe", "concurrency": 1}
    assert gm.batch(send, ["a", "b"], on_start=keep, **options).stopped == "cancelled"
    found = gm.batch(send, ["a", "b"], **options)
    assert [result.error and str(result.error.kind) for result in found.results()] == ["ambiguous", None]
    assert calls == ["a", "b"]


POISON = """
def work(item):
    if item == "poison":
        note("death")
        os._exit(9)
    return item
"""


@pytest.mark.parametrize(("concurrency", "most_deaths"), [(1, 3), (4, 5)])
def test_an_item_that_kills_the_process_ends_as_a_crash_and_bystanders_succeed(tmp_path, concurrency, most_deaths):
    program = Program(tmp_path, POISON)
    script = f"""
        report = gm.batch(work, ["a", "b", "poison", "c", "d", "e"], run_id="r", concurrency={concurrency})
        print([str(result.error.kind) if result.error else result.output for result in report.results()])
    """
    deaths = 0
    while (done := program.run(script, code={0, 9})) == "":
        deaths += 1
    assert done == "['a', 'b', 'crash', 'c', 'd', 'e']"
    assert 3 <= deaths <= most_deaths
    assert program.notes == ["death"] * deaths

    program.put("def work(item): return item")
    assert program.run('print(gm.retry("r", on_change="keep").summary())') == "6/6 items succeeded"


def test_a_journal_that_fails_is_no_death_and_makes_nothing_poison(tmp_path):
    def full(rows):
        if any(isinstance(row, StepRow) for row in rows):  # while the item is under way
            raise gm.JournalError("no space")

    async def work(item):
        return await gm.step(str, item)

    broken = watched(tmp_path / "runs.db", full)
    for _ in range(4):
        with pytest.raises(gm.JournalError):
            gm.batch(work, ["a"], run_id="r", journal=broken)
    broken.close()
    assert list(statuses(gm.batch(work, ["a"], run_id="r", journal=tmp_path / "runs.db")).values()) == ["succeeded"]


def test_a_run_that_has_the_name_of_another_has_other_idempotency_keys(tmp_path):
    async def key(item):
        return gm.idempotency_key()

    def keys(name):
        return [
            result.output for result in gm.batch(key, [{"id": "x"}], run_id="r", journal=str(tmp_path / name)).results()
        ]

    assert keys("one.db") == keys("one.db") != keys("two.db")
