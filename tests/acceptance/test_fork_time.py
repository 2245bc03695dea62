"""The time of a fork goes on after a restart where it was: what is recorded in it counts, and counts once."""

import asyncio
from contextlib import closing

import pytest

import graphmill as gm
from graphmill.core.json import canonical, digest, item_key
from graphmill.engine.jobs.program import Finished
from graphmill.journal.records import RunRow, StepRow, WantedRow
from support.driving import jobs_of
from support.journal_rows import failed
from support.programs import Graph, Several, step

KEY = item_key("0")


def known(path, began_s, ended_s, generation=1):
    return StepRow(KEY, generation, path, repr((path, None)).encode(), 1, ended_s - began_s, b"1", None, None, began_s)


def after(rows, *programs, timeout_s):
    """Go on with a job that has these rows, in a fork of programs; give its result."""

    def program(_):
        fork = Several([make() for make in programs], timeout_s=timeout_s)
        yield fork
        return Finished(fork.values, {})

    async def played(journal):
        async with gm.BatchExecutor(journal=journal).start(jobs_of(Graph(program), [None]), run_id="r") as run:
            return [result async for result in run.results()]

    with closing(gm.open_journal("memory:")) as journal:
        journal.store.create("r", {})
        ledger = journal.store.take("r")
        ledger.append([RunRow(total=1), *rows])
        ledger.release()
        (result,) = asyncio.run(played(journal))
        history = journal.archive.history(journal.archive.find("r"), KEY)
    return result, {row.path: row for row in history.steps}


async def forever(_):
    await asyncio.Event().wait()


async def at_once(_):
    return None


def line(*paths, act):
    """A program that does steps one after the other."""

    def program():
        for path in paths:
            yield step(path, act)

    return program


@pytest.mark.parametrize(
    "rows",
    [[known("a", 0, 1000)], [known("a", 0, 400), known("b", 400, 1000)], [known("a", 0, 600), known("b", 600, 1100)]],
    ids=["one", "two in a row", "more than it had"],
)
def test_a_fork_whose_time_is_used_up_begins_nothing_more(rows):
    result, _ = after(rows, line("a", "b", "c", act=forever), timeout_s=1000)
    assert (result.output, result.attempts) == (["expired"], 1)


def test_a_fork_has_the_rest_of_its_time():
    result, _ = after([known("a", 0, 999.9)], line("a", "b", act=forever), timeout_s=1000)
    assert result.output == ["expired"]


@pytest.mark.parametrize(
    ("rows", "timeout_s"),
    [
        ([known("a", 0, 300), known("b", 0, 400)], 401),
        ([known("a", 0, 300), known("b", 700, 800)], 401),
        ([known("a", 0, 100), known("b", 200, 300), known("c", 50, 350)], 351),
    ],
    ids=["side by side", "with a pause", "one over two"],
)
def test_time_counts_once_and_only_while_something_was_under_way(rows, timeout_s):
    result, _ = after(
        rows, line("a", "d", act=at_once), line("b", act=at_once), line("c", act=at_once), timeout_s=timeout_s
    )
    assert sorted(map(str, result.output)) == ["None"] * 3


def test_the_time_of_an_earlier_generation_does_not_count():
    rows = [known("a", 0, 1000), failed("0", content=digest(canonical(None))), WantedRow(KEY, 2)]
    result, _ = after(rows, line("a", "b", act=at_once), timeout_s=1000)
    assert result.output == [None]


def test_a_step_begins_in_the_time_of_its_job_where_its_earlier_process_ended():
    _, steps = after([known("a", 0, 5), known("b", 1, 300)], line("a", "b", "c", act=at_once), timeout_s=1000)
    assert 300 <= steps["c"].began_s < 400
