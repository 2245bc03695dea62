"""G8: going on with a run, when all is as it was and when the graph is not."""

import asyncio
from contextlib import closing

import pytest

import graphmill as gm
from support.recording import KILLED, PROMPT, Calls, Program, statuses
from support.remains import wait_until
from support.workflows import write_workflow


@pytest.fixture
def journal(tmp_path):
    with closing(gm.open_journal(tmp_path / "runs.db")) as found:
        yield found


async def same(item):
    return item


@pytest.mark.parametrize("items", [[], ["only"], list(range(7))])
def test_a_run_that_is_done_is_reported_again_and_nothing_is_run(journal, items):
    first = gm.batch(same, items, run_id="r", journal=journal)
    calls = []
    again = gm.batch(same, items, run_id="r", journal=journal, on_result=lambda job, _: calls.append(job.id))
    assert (again.summary(), again.collect(), again.done_now, calls) == (first.summary(), items, 0, [])
    assert journal.archive.find("r").state == "finished"


def test_a_generator_or_a_lambda_can_not_be_opened_again_and_the_remedy_is_named(journal):
    gm.batch(same, iter([1]), run_id="r", journal=journal)
    with pytest.raises(gm.UsageError, match=r"gm.batch\(function, items, run_id='r'\)"):
        gm.resume("r", graph=same, journal=journal)
    gm.batch(lambda item: item, [1], run_id="lambda", journal=journal)
    with pytest.raises(gm.UsageError, match="cannot be found by its name"):
        gm.resume("lambda", items=[1], journal=journal)
    work = lambda item: item  # noqa: E731
    assert gm.batch(work, [1], run_id="other", journal=journal).done_now == 1
    assert gm.batch(work, iter([1, 2]), run_id="other", journal=journal).done_now == 1


def test_the_time_of_a_process_that_has_left_no_result_counts_too(journal):
    is_up = []

    def work(item):
        if not is_up:
            raise gm.Unavailable("down")
        return item

    policy = gm.Policy(park_after_s=0.5)
    parked = gm.batch(work, [1, 2], run_id="r", journal=journal, policy=policy)
    assert parked.stopped == "outage"
    is_up.append(True)
    done = gm.batch(work, [1, 2], run_id="r", journal=journal, policy=policy)
    assert done.done_now == 2
    assert done.statistics.elapsed_s == pytest.approx(journal.archive.find("r").elapsed_s)
    assert done.statistics.elapsed_s > parked.statistics.elapsed_s
    assert done.statistics.throughput == pytest.approx(2 / done.statistics.elapsed_s)


def test_a_run_that_is_not_there_is_named(journal):
    gm.batch(same, [1], run_id="night", journal=journal)
    with pytest.raises(gm.UnknownRunError, match="nigth"):
        gm.resume("nigth", journal=journal)


def test_a_function_and_a_file_are_opened_again_by_their_names_in_another_process(tmp_path):
    program = Program(
        tmp_path,
        """
        def work(item):
            note(item["id"])
            if item["id"] == "c" and noted().count("c") == 1:
                die()
            return item["id"]
        """,
    )
    (tmp_path / "items.jsonl").write_text("".join(f'{{"id": "{name}"}}\n' for name in "abcde"))
    program.run('gm.batch(work, gm.source("items.jsonl"), run_id="night", concurrency=1)', code=KILLED)
    assert (
        program.run('report = gm.resume("ni"); print(report.collect(), report.policy.concurrency)')
        == "['a', 'b', 'c', 'd', 'e'] 1"
    )
    assert program.notes.count("c") == 2
    assert {program.notes.count(name) for name in "ade"} == {1}


def test_failed_attempts_are_counted_across_processes(tmp_path):
    program = Program(
        tmp_path,
        """
        async def work(item):
            note("try")
            tries = noted().count("try")
            if tries == 1:
                raise gm.Throttled("uses up none", retry_after_s=0)
            if tries == 4:
                note("third")
                await asyncio.Event().wait()
            raise gm.Transient(f"try {tries}")
        """,
    )
    script = """
        (result,) = gm.batch(work, [7], run_id="r", policy=PROMPT).results()
        print(result.attempts, result.error)
    """
    with program.killed_when(script, "third"):
        wait_until(lambda: len(program.history("r", 7).attempts) == 2)
    assert program.run(script) == "4 transient: try 5"
    assert program.notes.count("try") == 5


def test_attempts_that_used_up_none_do_not_hide_others_after_two_crashes(tmp_path):
    program = Program(
        tmp_path,
        """
        async def work(item):
            note("try")
            tries = noted().count("try")
            if tries == 1:
                raise gm.Throttled("uses up none", retry_after_s=0)
            if tries in (3, 5):
                note(f"hangs-{tries}")
                await asyncio.Event().wait()
            raise gm.Transient(f"try {tries}")
        """,
    )
    script = """
        (result,) = gm.batch(work, [7], run_id="r", policy=PROMPT).results()
        print(result.attempts, result.error)
    """
    for count, word in enumerate(["hangs-3", "hangs-5"], start=1):
        with program.killed_when(script, word):
            wait_until(lambda count=count: len(program.history("r", 7).attempts) == count)
    assert program.run(script) == "4 transient: try 6"


def test_a_job_cancelled_by_id_is_recorded_and_what_a_cancelled_run_leaves_is_not(journal):
    async def work(item):
        if item["id"] == "first":
            await asyncio.to_thread(wait_until, lambda: run.status("third") is not None)  # until all are admitted
            assert run.cancel("second")
            run.cancel()
        await asyncio.sleep(0)
        return item["id"]

    def keep(live):
        nonlocal run
        run = live

    run = None
    items = [{"id": name} for name in ("before", "first", "second", "third")]
    report = gm.batch(work, items, run_id="r", journal=journal, concurrency=1, on_start=keep)
    assert report.stopped == "cancelled"
    assert statuses(report) == {"before": "succeeded", "second": "cancelled"}
    resumed = gm.batch(work_now := Calls(), items, run_id="r", journal=journal, on_change="keep")
    assert work_now.told == [{"id": "first"}, {"id": "third"}]
    assert resumed.summary() == "3/4 items succeeded, 1 cancelled"


@pytest.mark.parametrize("how", ["drain", "fail_fast", "deadline"])
def test_what_a_run_that_was_ended_leaves_undone_is_run_by_resume(journal, how):
    is_ending = True

    async def work(item):
        if is_ending and item["id"] == 1:
            if how == "fail_fast":
                raise gm.Permanent("no")
            if how == "drain":
                run.drain(0)
            await asyncio.Event().wait()
        return item["id"]

    def keep(live):
        nonlocal run
        run = live

    run, items = None, [{"id": number} for number in range(6)]
    policy = gm.Policy(
        concurrency=1,
        on_failure="fail_fast" if how == "fail_fast" else "continue",
        batch_timeout_s=0.5 if how == "deadline" else None,
    )
    ended = gm.batch(work, items, run_id="r", journal=journal, policy=policy, on_start=keep)
    assert ended.stopped == {"drain": "request"}.get(how, how)
    is_ending = False
    expected = {"0": "succeeded", "1": "failed"} if how == "fail_fast" else {"0": "succeeded"}
    assert statuses(ended) == expected
    resumed = gm.batch(work, items, run_id="r", journal=journal)
    assert (resumed.statistics.total, resumed.done_now) == (6, 6 - len(expected))


def test_progress_shows_what_was_done_before(journal):
    gm.batch(same, range(5), run_id="r", journal=journal)
    seen = []
    gm.batch(same, range(8), run_id="r", journal=journal, on_progress=seen.append)
    assert (seen[-1].done, seen[-1].total, seen[-1].succeeded) == (8, 8, 8)


def test_the_policy_is_restored_unless_another_is_given(tmp_path):
    program = Program(tmp_path, "async def work(item): return item")
    (tmp_path / "items.jsonl").write_text("1\n2\n")
    program.run("""
        policy = gm.Policy(concurrency=3, timeout_s=77, max_failures=0.5, retry=gm.Retry(attempts=9), guards=gm.Guards(memory=0.7))
        gm.batch(work, gm.source("items.jsonl"), run_id="r", policy=policy)
        assert gm.resume("r").policy == policy
        assert gm.resume("r", concurrency=5).policy.concurrency == 5
        assert gm.resume("r", policy=gm.Policy(timeout_s=1)).policy.timeout_s == 1
    """)


VERSIONS = {
    "before": "def work(item): return item",
    "commented": 'def work(item):\n    """Say what it does."""\n    return item  # and why',
    "changed": "def work(item): return -item",
}


def test_a_changed_function_is_refused_with_its_part_and_the_number_of_results(tmp_path):
    program = Program(tmp_path, VERSIONS["before"])
    script = """
        try:
            report = gm.batch(work, [1, 2, 3], run_id="r", on_change="{}")
            print(report.collect(), report.done_now)
        except gm.ChangedError as error:
            print(error)
    """
    assert program.run(script.format("refuse")) == "[1, 2, 3] 3"
    program.put(VERSIONS["commented"])
    assert program.run(script.format("refuse")) == "[1, 2, 3] 0"
    program.put(VERSIONS["changed"])
    said = program.run(script.format("refuse"))
    assert "run r has 3 results" in said
    assert "function" in said
    assert "invalidate" in said
    assert program.run(script.format("keep")) == "[1, 2, 3] 0"
    assert program.run(script.format("refuse")) == "[1, 2, 3] 0", "what was kept is as it is now"
    program.put(VERSIONS["before"])
    assert program.run(script.format("invalidate")) == "[1, 2, 3] 3"


def test_another_version_counts_as_another_function(journal):
    calls = Calls()
    gm.batch(calls, [1, 2], run_id="r", journal=journal, version="1")
    with pytest.raises(gm.ChangedError, match="2 results"):
        gm.batch(calls, [1, 2], run_id="r", journal=journal, version="2")
    gm.batch(calls, [1, 2], run_id="r", journal=journal, version="2", on_change="invalidate")
    assert sorted(calls.told) == [1, 1, 2, 2]


def test_a_changed_function_without_results_is_no_matter(journal):
    gm.batch(same, [], run_id="r", journal=journal, version="1")
    assert gm.batch(same, [1], run_id="r", journal=journal, version="2").done_now == 1


def test_what_was_kept_after_a_change_can_still_be_invalidated_and_once(journal):
    async def work(item):
        calls.append(item)
        return item

    def done(items, version, on_change):
        calls.clear()
        gm.batch(work, items, run_id="r", journal=journal, version=version, on_change=on_change)
        return sorted(calls)

    calls = []
    assert done([1, 2], "1", "refuse") == [1, 2]
    assert done([1, 2, 3], "2", "keep") == [3]
    assert done([1, 2, 3], "2", "refuse") == []
    assert done([1, 2, 3], "2", "invalidate") == [1, 2, 3]
    assert done([1, 2, 3], "2", "invalidate") == []


def test_an_invalidated_run_that_is_interrupted_goes_on_where_it_was(journal):
    calls = Calls()
    gm.batch(calls, range(5), run_id="r", journal=journal, version="1")

    def broken():
        yield from range(3)
        raise OSError("gone")

    with pytest.raises(gm.SourceError):
        gm.batch(calls, broken(), run_id="r", journal=journal, version="2", on_change="invalidate")
    gm.batch(calls, range(5), run_id="r", journal=journal, version="2")
    assert sorted(calls.told) == sorted([*range(5)] * 2)


WORKFLOW = """
    name: greet
    inputs:
      name: {required: true}
    nodes:
      - id: greeting
        type: value
        params: {value: "%s ${name}"}
    outputs:
      text: ${greeting}
"""


def test_a_changed_workflow_is_refused_and_the_node_is_named(journal, tmp_path):
    path = write_workflow(tmp_path, WORKFLOW % "hello")
    assert gm.batch(path, [{"id": 1, "name": "Ada"}], run_id="r", journal=journal).done_now == 1
    write_workflow(tmp_path, WORKFLOW % "good day")
    with pytest.raises(gm.ChangedError, match=r"1 results.*greeting"):
        gm.resume("r", items=[{"id": 1, "name": "Ada"}], journal=journal)
    again = gm.resume("r", items=[{"id": 1, "name": "Ada"}], journal=journal, on_change="invalidate")
    assert "good day Ada" in str(again.collect())


def test_senseless_choices_are_refused(journal):
    with pytest.raises(gm.UsageError, match="on_change must be"):
        gm.batch(same, [1], journal=journal, on_change="maybe")
    with pytest.raises(gm.UsageError, match="run id"):
        gm.batch(same, [1], journal=journal, run_id="a b/c")


def test_a_run_of_jobs_is_recorded_and_gone_on_with_by_the_executor(journal):
    async def main(count):
        calls = Calls()
        jobs = [gm.Job(id=f"job-{number}", graph=calls, input=number) for number in range(count)]
        async with gm.BatchExecutor(PROMPT, journal=journal).start(jobs, run_id="r") as run:
            results = [result.job_id async for result in run.results(ordered=True)]
        return results, calls.told

    assert asyncio.run(main(2)) == (["job-0", "job-1"], [0, 1])
    assert asyncio.run(main(4)) == (["job-2", "job-3"], [2, 3])
    with pytest.raises(gm.UsageError, match="there is none"):
        gm.BatchExecutor().start([], run_id="r")


def test_a_result_tells_where_its_item_stands_in_the_source_also_after_a_resume_and_in_input_order(journal):
    async def slower_first(item):
        await asyncio.sleep(0.001 * (10 - item))
        return item

    async def positions(items):
        jobs = [gm.Job(id=f"n{item}", graph=slower_first, input=item) for item in items]
        async with gm.BatchExecutor(gm.Policy(concurrency=4), journal=journal).start(jobs, run_id="r") as run:
            return [(result.job_id, result.position) async for result in run.results(ordered=True)]

    assert asyncio.run(positions([1, 3])) == [("n1", 0), ("n3", 1)]
    assert asyncio.run(positions(range(6))) == [("n0", 0), ("n2", 2), ("n4", 4), ("n5", 5)]
