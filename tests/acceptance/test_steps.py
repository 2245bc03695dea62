"""``gm.step`` and ``gm.idempotency_key``: calls inside a job that are done once."""

import asyncio
import dataclasses
import threading
from contextlib import closing

import pytest

import graphmill as gm
from graphmill.core.json import item_key
from support.recording import KILLED, PROMPT, Program
from support.remains import HANG_S, wait_until
from support.workflows import write_workflow


@pytest.fixture(params=["sqlite", "none"])
def recorded(request, tmp_path):
    """Ways to run a batch: steps hold within a process whether it is recorded or not."""
    if request.param == "none":
        yield {}
        return
    with closing(gm.open_journal(tmp_path / "runs.db")) as journal:
        yield {"journal": journal}


def only(report):
    (result,) = report.results()
    return result


def fails_once(calls, name):
    calls.append(name)
    if calls.count(name) == 1:
        raise gm.Transient(f"{name} fails once")


def test_a_finished_step_is_not_run_again_by_the_job_s_next_attempt(recorded):
    calls = []

    async def fetch(item):
        calls.append("fetch")
        return item + 1

    async def work(item):
        found = await gm.step(fetch, item)
        fails_once(calls, "work")
        return found

    result = only(gm.batch(work, [1], policy=PROMPT, **recorded))
    assert (result.output, result.attempts) == (2, 2)
    assert calls == ["fetch", "work", "work"]


def test_a_step_is_recorded_with_when_it_began_counted_from_its_job_s_beginning():
    async def slow(item):
        await asyncio.sleep(0.05)
        return item

    async def work(item):
        return [await gm.step(slow, item), await gm.step(slow, item)]

    with closing(gm.open_journal("memory:")) as journal:
        gm.batch(work, [{"id": "a"}], run_id="r", journal=journal)
        first, second = journal.archive.history(journal.archive.find("r"), item_key("a")).steps
    assert 0 <= first.began_s < first.began_s + first.duration_s <= second.began_s


def test_steps_and_jobs_may_each_be_async_or_plain(recorded):
    async def later(item):
        return [item]

    def now(item):
        assert threading.current_thread() is not threading.main_thread()
        return [item]

    async def async_job(item):
        return [await gm.step(later, item), await gm.step(now, item)]

    def plain_job(item):
        return [gm.step(later, item), gm.step(now, item)]

    for job in (async_job, plain_job):
        assert gm.batch(job, [1, 2], **recorded).collect() == [[[1], [1]], [[2], [2]]]


def test_a_step_gives_plain_data_the_first_time_too(recorded):
    @dataclasses.dataclass
    class Answer:
        text: str
        tags: set

    async def work(_):
        return [await gm.step(lambda: Answer("yes", {"b", "a"})), await gm.step(lambda: (1, 2))]

    assert only(gm.batch(work, [1], **recorded)).output == [{"text": "yes", "tags": ["a", "b"]}, [1, 2]]


def test_a_step_whose_value_is_not_json_fails_for_good_and_names_the_type(recorded):
    async def work(_):
        return await gm.step(object)

    result = only(gm.batch(work, [1], policy=PROMPT, **recorded))
    assert (result.error.kind, result.attempts) == ("permanent", 1)
    assert "object is not a JSON type" in result.error.message


def test_a_transient_step_is_retried_by_the_policy_and_its_job_is_not_retried_for_it(recorded):
    calls = []

    def flaky(_):
        calls.append("flaky")
        raise gm.Transient("never")

    async def work(item):
        calls.append("work")
        return await gm.step(flaky, item)

    result = only(gm.batch(work, [1], policy=PROMPT, **recorded))
    assert calls == ["work", "flaky", "flaky", "flaky"]
    assert (result.error.kind, result.attempts) == ("transient", 1)
    assert "step flaky#1, tried 3 times: never" in result.error.message


def test_a_job_may_go_on_after_a_step_has_failed_and_it_fails_again_without_being_run(recorded):
    calls = []

    def broken(_):
        calls.append("broken")
        raise gm.Permanent("no")

    async def work(item):
        with pytest.raises(gm.StepError) as caught:
            await gm.step(broken, item)
        fails_once(calls, "work")
        return [caught.value.path, caught.value.failure.kind]

    assert only(gm.batch(work, [1], policy=PROMPT, **recorded)).output == ["broken#1", "permanent"]
    assert calls == ["broken", "work", "work"]


@pytest.mark.parametrize("error", [gm.Throttled("slow down"), gm.Unavailable("down")])
def test_what_the_other_side_is_to_blame_for_is_the_job_s_to_wait_for(recorded, error):
    calls = []

    def ask(_):
        calls.append("ask")
        if len(calls) == 1:
            raise error
        return "answer"

    async def work(item):
        return await gm.step(ask, item, effect="unsafe")

    policy = gm.Policy(retry=gm.Retry(attempts=1, wait_s=0, cap_s=0))
    result = only(gm.batch(work, [1], policy=policy, **recorded))
    assert (result.output, result.attempts) == ("answer", 2)


def test_a_step_is_known_by_its_name_how_often_it_was_called_and_its_arguments(recorded):
    calls = []

    async def echo(*words):
        calls.append(words)
        return words

    async def work(_):
        calls.append("work")
        attempt = calls.count("work")
        same = await gm.step(echo, "same")
        again = await gm.step(echo, "same")
        other = await gm.step(echo, attempt)
        if attempt == 1:
            raise gm.Transient("once more")
        return [same, again, other]

    assert only(gm.batch(work, [1], policy=PROMPT, **recorded)).output == [["same"], ["same"], [2]]
    assert calls == ["work", ("same",), ("same",), (1,), "work", (2,)]


@pytest.mark.parametrize("is_plain", [False, True])
def test_steps_inside_a_step_are_found_again_by_its_next_attempt(recorded, is_plain):
    calls = []

    def inner(item):
        calls.append("inner")
        return item

    async def outer(item):
        found = await gm.step(inner, item)
        fails_once(calls, "outer")
        return found

    def plain_outer(item):
        found = gm.step(inner, item)
        fails_once(calls, "outer")
        return found

    async def work(item):
        return await gm.step(plain_outer if is_plain else outer, item)

    result = only(gm.batch(work, [1], policy=PROMPT, **recorded))
    assert (result.output, result.attempts) == (1, 1)
    assert calls == ["inner", "outer", "outer"]


def test_the_steps_of_one_job_run_one_at_a_time(recorded):
    inside = []

    async def slow(number):
        inside.append(number)
        await asyncio.sleep(0)
        assert inside == [number]
        inside.remove(number)
        return number

    async def work(_):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(gm.step(slow, number)) for number in range(5)]
        return [task.result() for task in tasks]

    assert only(gm.batch(work, [1], **recorded)).output == [0, 1, 2, 3, 4]


def test_a_step_that_has_failed_for_good_in_a_group_of_tasks_fails_its_job_for_good(recorded):
    calls = []

    def fail(_):
        calls.append(1)
        raise gm.Permanent("never")

    async def work(_):
        async with asyncio.TaskGroup() as group:
            group.create_task(gm.step(fail, 1))

    result = only(gm.batch(work, [1], policy=PROMPT, **recorded))
    assert (result.attempts, result.error.kind, len(calls)) == (1, "permanent", 1)
    assert result.error.message == "step fail#1: never"


def test_outside_of_a_batch_a_step_is_simply_called():
    async def later(item):
        return item

    assert gm.step(lambda item: item, 1) == 1
    assert asyncio.run(gm.step(later, 2)) == 2
    with pytest.raises(gm.UsageError, match="belongs to a job"):
        gm.idempotency_key()


def test_a_key_is_the_same_in_every_attempt_and_differs_between_items_and_steps(recorded):
    keys = {}

    def plain_step(item):
        keys.setdefault((item, "plain"), []).append(gm.idempotency_key())
        if len(keys[item, "plain"]) == 1:
            raise gm.Transient("once more")

    async def work(item):
        keys.setdefault((item, "job"), []).append(gm.idempotency_key())
        await gm.step(plain_step, item)
        if len(keys[item, "job"]) == 1:
            raise gm.Transient("once more")

    assert gm.batch(work, ["a", "b"], policy=PROMPT, **recorded).statistics.succeeded == 2
    assert [len(found) for found in keys.values()] == [2, 2, 2, 2]
    assert all(len(set(found)) == 1 for found in keys.values())
    assert len({found[0] for found in keys.values()}) == 4


def test_an_unsafe_step_whose_attempt_timed_out_is_ambiguous_and_not_begun_again(recorded):
    calls = []

    async def pay(item):
        calls.append(item)
        await asyncio.Event().wait()

    async def work(item):
        return await gm.step(pay, item, effect="unsafe")

    result = only(gm.batch(work, [1], policy=gm.Policy(retry=PROMPT.retry, timeout_s=0.05), **recorded))
    assert calls == [1]
    assert (result.status, result.error.kind) == ("failed", "ambiguous")


def test_an_unsafe_step_that_was_refused_is_tried_again(recorded):
    calls = []

    def pay(_):
        calls.append("pay")
        if len(calls) == 1:
            raise ConnectionRefusedError("closed")
        return "paid"

    async def work(item):
        return await gm.step(pay, item, effect="unsafe")

    assert only(gm.batch(work, [1], policy=PROMPT, **recorded)).output == "paid"


def test_a_step_that_outlives_its_attempt_is_fenced_off_and_begins_no_other(tmp_path):
    journal = gm.open_journal(tmp_path / "runs.db")
    is_late, calls, ended = threading.Event(), [], threading.Event()

    def slow(attempt):
        calls.append(f"slow {attempt}")
        if attempt == 1:
            assert is_late.wait(HANG_S)
        return attempt

    def after(attempt):
        calls.append(f"after {attempt}")
        return attempt

    def work(_):
        attempt = len(calls) + 1
        try:
            found = gm.step(slow, attempt)
            return [found, gm.step(after, attempt)]
        finally:
            if attempt == 1:
                ended.set()
            else:
                is_late.set()
                assert ended.wait(HANG_S)

    report = gm.batch(work, ["a"], journal=journal, policy=gm.Policy(retry=PROMPT.retry, timeout_s=0.3))
    assert only(report).output == [2, 2]
    assert calls == ["slow 1", "slow 2", "after 2"]
    history = journal.archive.history(journal.archive.find(report.run_id), item_key(only(report).job_id))
    assert [step.output for step in history.steps] == [b"2", b"2"]
    journal.close()


def test_a_step_in_a_worker_process_is_refused_at_once_with_the_remedy(tmp_path):
    program = Program(tmp_path, "def work(item): return gm.step(str, item)")
    said = program.run("""
        (result,) = gm.batch(work, [1], run_id="a", policy=PROMPT, isolation="process").results()
        print(result.attempts, result.error)
    """)
    assert said.startswith("1 permanent: gm.step")
    assert "leave out isolation" in said


def test_finished_steps_are_not_run_again_after_a_crash_and_keys_stay(tmp_path):
    program = Program(
        tmp_path,
        """
        def first(item):
            note(f"first:{gm.idempotency_key()}")
            return {"first": item}

        async def second(item):
            note(f"second:{gm.idempotency_key()}")
            if len(noted()) == 2:
                die()
            return {**item, "second": True}

        async def work(item):
            return await gm.step(second, await gm.step(first, item))
        """,
    )
    program.run('gm.batch(work, [7], run_id="a")', code=KILLED)
    assert program.run('print(gm.batch(work, [7], run_id="a").collect())') == "[{'first': 7, 'second': True}]"
    names = [note.partition(":")[0] for note in program.notes]
    assert names == ["first", "second", "second"]
    assert program.notes[1] == program.notes[2]
    assert program.notes[0].partition(":")[2] != program.notes[1].partition(":")[2]


def test_a_step_that_failed_raises_the_same_after_a_crash_without_being_run(tmp_path):
    program = Program(
        tmp_path,
        """
        def broken(item):
            note("broken")
            raise gm.Permanent("no such user")

        async def work(item):
            try:
                await gm.step(broken, item)
            except gm.StepError as error:
                note("caught")
                if noted().count("caught") == 1:
                    die()
                return [error.path, str(error.failure)]
        """,
    )
    program.run('gm.batch(work, [7], run_id="a")', code=KILLED)
    assert (
        program.run('print(gm.batch(work, [7], run_id="a").collect())') == "[['broken#1', 'permanent: no such user']]"
    )
    assert program.notes == ["broken", "caught", "caught"]


_FLAKY = """
def flaky(item):
    note("flaky")
    raise gm.Transient("never")

async def work(item):
    return await gm.step(flaky, item)
"""


def test_failed_attempts_of_a_step_before_a_crash_count_after_it(tmp_path):
    program = Program(tmp_path, _FLAKY)
    patient = 'gm.batch(work, [7], run_id="a", policy=gm.Policy(retry=gm.Retry(attempts=3, wait_s=1000, cap_s=1000)))'
    with program.killed_when(patient, "flaky"):
        wait_until(lambda: len(program.history("a", 7).attempts) == 1)
    assert program.run('print(gm.batch(work, [7], run_id="a", policy=PROMPT).statistics.failed)') == "1"
    assert program.notes == ["flaky"] * 3
    assert program.history("a", 7).steps[0].attempts == 3


def test_failed_attempts_of_a_step_count_in_the_job_s_next_attempt(recorded):
    calls = []

    def flaky(_):
        calls.append("flaky")
        raise gm.Throttled(retry_after_s=0) if len(calls) == 2 else gm.Transient("never")

    async def work(item):
        return await gm.step(flaky, item)

    result = only(gm.batch(work, [1], policy=PROMPT, **recorded))
    assert (result.error.kind, result.attempts, len(calls)) == ("transient", 2, 4)


_PAYS = """
def pay(item):
    note("pay")
    if noted().count("pay") == 1:
        {fate}
    return "paid"

async def work(item):
    return await gm.step(pay, item, effect="unsafe")
"""
_RESUME = """
(result,) = gm.batch(work, [7], run_id="a", policy=PROMPT).results()
print(result.output if result.error is None else result.error.kind)
"""


def test_an_unsafe_step_under_way_in_a_crash_is_ambiguous_and_retry_runs_it(tmp_path):
    program = Program(tmp_path, _PAYS.format(fate="die()"))
    program.run(_RESUME, code=KILLED)
    assert program.run(_RESUME) == "ambiguous"
    assert program.notes == ["pay"]
    assert program.run('print(gm.retry("a", kinds=["ambiguous"]).collect())') == "['paid']"


def test_an_unsafe_step_that_was_throttled_before_a_crash_has_surely_not_happened(tmp_path):
    program = Program(tmp_path, _PAYS.format(fate="raise gm.Throttled(retry_after_s=1000)"))
    with program.killed_when(_RESUME, "pay"):
        wait_until(lambda: [attempt.kind for attempt in program.history("a", 7).attempts] == ["throttled"])
    assert program.run(_RESUME) == "paid"


def test_a_plain_function_of_a_workflow_s_node_may_have_steps(tmp_path):
    program = Program(
        tmp_path,
        """
        def fetch(name):
            note("fetch")
            return name.upper()

        def greet(name):
            found = gm.step(fetch, name)
            if noted() == ["fetch"]:
                note("death")
                die()
            return found
        """,
    )
    text = """
        name: greet
        inputs: {name: {required: true}}
        nodes:
          - {id: greeting, type: python, params: {function: "program:greet", inputs: {name: "${name}"}}}
        outputs: {text: "${greeting.result}"}
    """
    write_workflow(tmp_path, text)
    script = 'print(gm.batch("workflow.yaml", [{"name": "ada"}], run_id="r").collect())'
    program.run(script, code=KILLED)
    assert program.run(script) == "[{'text': 'ADA'}]"
    assert program.notes == ["fetch", "death"]
