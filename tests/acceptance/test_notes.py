"""What a program decides itself and notes: it decides the same after a restart."""

import asyncio
from contextlib import closing

import pytest

import graphmill as gm
from graphmill.core.json import item_key
from graphmill.engine.jobs.program import Decision, Failed, Finished
from graphmill.journal.records import WantedRow
from graphmill.report.item.trace import trace_of
from support.driving import jobs_of, virtual
from support.programs import Graph, Several, step
from support.recording import KILLED, Program


class Played:
    """A program that is run several times over one journal: each time ``turn`` is one more, and ``leave`` ends a time early."""

    def __init__(self, journal):
        self.journal = journal
        self.turn = 0
        self.calls = []

    async def act(self, value):
        self.calls.append(value)
        return value

    async def leave(self, value):
        if self.turn == 1:
            self.run.drain(0)
            await asyncio.Event().wait()
        return await self.act(value)

    def play(self, make):
        """Run it once; give its result, and what was done."""
        self.turn += 1
        self.calls.clear()

        async def played():
            self.run = gm.BatchExecutor(gm.Policy(concurrency=4), journal=self.journal).start(
                jobs_of(Graph(make), [None]), run_id="r"
            )
            async with self.run:
                return [result async for result in self.run.results()]

        (result,) = asyncio.run(played())
        return result, list(self.calls)

    def rows(self):
        """What is recorded of the job's steps and notes."""
        return self.journal.archive.history(self.journal.archive.find("r"), item_key("0")).steps


@pytest.fixture
def played(tmp_path):
    with closing(gm.open_journal(tmp_path / "runs.db")) as journal:
        yield Played(journal)


def in_turn():
    """Two acts of which the second ends after the first."""
    is_done = asyncio.Event()

    async def quick(_):
        is_done.set()

    async def slow(_):
        await is_done.wait()

    return quick, slow


def only(program):
    (result,), _ = virtual(jobs_of(Graph(program), [None]))
    return result


def test_a_note_gives_its_value_as_json_does_and_takes_no_attempt():
    def program(_):
        value = yield Decision("n", {"pair": (1, 2)})
        return Finished(value, {})

    result = only(program)
    assert (result.status, result.output, result.attempts, result.duration_s) == ("succeeded", {"pair": [1, 2]}, 0, 0)


def test_what_is_noted_first_stands_and_can_be_asked_for():
    def program(_):
        found = [
            (yield Decision("n")),
            (yield Decision("n", None)),
            (yield Decision("n", 2)),
            (yield Decision("m", 3)),
            (yield Decision("m")),
            (yield Decision("n")),
        ]
        return Finished(found, {})

    assert only(program).output == [None, None, None, 3, 3, None]


def test_what_json_can_not_hold_fails_the_job_where_it_is_noted():
    def program(_):
        yield Decision("choice", object())

    error = only(program).error
    assert (error.kind, error.message) == (
        "permanent",
        "the value recorded as choice is not JSON: object is not a JSON type",
    )


def test_a_recorded_note_is_given_back_in_place_of_a_new_one(played):
    def program(_):
        first = yield Decision("first", played.turn)
        yield step("a", played.act, "a")
        asked = yield Decision("first")
        second = yield Decision("second", {"turn": played.turn})
        yield step("b", played.leave, "b")
        third = yield Decision("third", played.turn)
        return Finished([first, asked, second, third], {})

    assert played.play(program)[0].status == "pending"
    result, calls = played.play(program)
    assert (result.output, calls) == ([1, 1, {"turn": 1}, 2], ["b"])


def test_a_note_is_recorded_once_and_is_no_step_in_the_trace(played):
    def program(_):
        yield Decision("n", 1)
        yield step("a", played.leave, "a")
        yield Decision("n", 2)
        return Finished(None, {})

    played.play(program)
    assert [(row.path, row.is_note, row.noted) for row in played.rows()] == [("n", True, b"1")]
    played.play(program)
    rows = played.rows()
    assert [(row.path, row.is_note) for row in rows] == [("n", True), ("a", False)]
    assert [branch.path for branch in trace_of(rows).walk()] == ["a"]


def test_notes_inside_a_fork_are_told_in_the_order_in_which_they_were_recorded(played):
    """Which of two strands ended first must be the same again, though only a note was its last word."""

    def child(name, act):
        yield step(name, act)
        yield Decision(f"{name} done", played.turn)
        return name

    def program(_):
        quick, slow = in_turn()
        fork = Several([child("slow", slow), child("quick", quick)])
        yield fork
        yield step("after", played.leave)
        return Finished(fork.values, {})

    played.play(program)
    assert [row.path for row in played.rows() if row.is_note] == ["quick done", "slow done"]
    assert played.play(program)[0].output == ["quick", "slow"]


def test_a_strand_that_only_has_a_note_waits_for_its_turn(played):
    def noting(act):
        if played.turn == 1:  # the next time nothing holds it back but the order
            yield step("b", act)
        return (yield Decision("n", "noted"))

    def stepping(act):
        yield step("a", act)
        return "stepped"

    def program(_):
        quick, slow = in_turn()
        fork = Several([noting(slow), stepping(quick)])
        yield fork
        yield step("after", played.leave)
        return Finished(fork.values, {})

    played.play(program)
    assert [row.path for row in played.rows()] == ["a", "b", "n"]
    assert played.play(program)[0].output == ["stepped", "noted"]


def test_a_note_of_other_content_is_another_note(played):
    def program(_):
        found = yield Decision("n", played.turn, content=lambda: b"same")
        other = yield Decision("n", played.turn, content=lambda: f"turn {played.turn}".encode())
        yield step("a", played.leave)
        return Finished([found, other], {})

    played.play(program)
    assert played.play(program)[0].output == [1, 2]


def test_a_retry_keeps_what_is_noted_but_for_what_is_temporary(played):
    async def fail(_):
        raise gm.Permanent("never")

    def program(_):
        found = [(yield Decision("lasting", played.turn)), (yield Decision("passing", played.turn, is_temporary=True))]
        end = yield step("a", fail if played.turn == 1 else played.leave, retry=gm.Retry(attempts=1))
        if end.failure is not None:
            raise Failed(end.failure)
        return Finished(found, {})

    assert played.play(program)[0].status == "failed"
    ledger = played.journal.store.take("r")
    ledger.append([WantedRow(item_key("0"), 2)])
    ledger.release()
    assert played.play(program)[0].output == [1, 2]


@pytest.mark.parametrize(("side", "first"), [("before", "again"), ("after", "kept")])
def test_a_note_stands_after_a_kill_if_it_was_committed(tmp_path, side, first):
    program = Program(
        tmp_path,
        """
        from graphmill.engine.jobs.program import Finished, Decision, Programmed, Step, StepRules
        from graphmill.journal.sqlite.ledger import SqliteLedger

        class Acting(Step):
            def content(self):
                return b"a"

            async def act(self):
                if is_deadly:
                    await asyncio.Event().wait()

        class Choosing(Programmed):
            def __call__(self, value):
                raise AssertionError

            def program(self, value, policy):
                chosen = yield Decision("choice", os.getpid())
                note(chosen)
                yield Acting("a", StepRules(retry=policy.retry))
                return Finished(chosen, {})

        is_deadly = []

        def deadly(side):
            append = SqliteLedger.append
            is_deadly.append(side)

            def deadly_append(self, rows):
                is_note = any(getattr(row, "is_note", False) for row in rows)
                while is_note and not noted():
                    pass
                if is_note and side == "before":
                    die()
                append(self, rows)
                if is_note:
                    die()

            SqliteLedger.append = deadly_append

        async def main():
            journal = gm.open_journal("journal.db")
            jobs = [gm.Job(id="0", graph=Choosing(), input=None)]
            async with gm.BatchExecutor(journal=journal).start(jobs, run_id="r") as run:
                print([result.output async for result in run.results()])
        """,
    )
    program.run(f"deadly({side!r}); asyncio.run(main())", code=KILLED)
    said = program.run("asyncio.run(main())")
    before, after = program.notes
    assert said == f"[{after}]"
    assert (before == after) == (first == "kept")
