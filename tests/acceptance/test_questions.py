"""``gm.ask``: a job asks a person, is paused, and goes on when it is answered."""

import asyncio
import threading
from contextlib import closing

import pytest

import graphmill as gm
from graphmill.journal.records import StepRow
from support.recording import KILLED, PROMPT, Program, statuses, watched
from support.remains import HANG_S

ITEMS = [{"id": "a"}, {"id": "b"}, {"id": "c"}]


@pytest.fixture
def journal(tmp_path):
    """Every store keeps questions and answers."""
    with closing(gm.open_journal(tmp_path / "runs.db")) as found:
        yield found


def batch(function, journal, answers=None, *, items=ITEMS, **options):
    options.setdefault("policy", PROMPT)
    return gm.batch(function, items, run_id="r", journal=journal, answers=answers, **options)


def only(report):
    (result,) = report.results()
    return result


def outputs(report):
    return {result.job_id: result.output for result in report.results()}


def refused(function, journal, answers, **options):
    """Give why answers are refused, and see that nothing has changed by them."""
    before = (journal.archive.find("r").state, journal.archive.find("r").reason, journal.archive.find("r").steps)
    with pytest.raises(gm.UsageError) as caught:
        batch(function, journal, answers, **options)
    run = journal.archive.find("r")
    assert (run.state, run.reason, run.steps) == before
    return str(caught.value)


class Asker:
    """Asks whether to publish each item; ``calls`` are those of its step and of itself."""

    def __init__(self):
        self.calls = []

    def draft(self, name):
        self.calls.append(f"draft {name}")
        return f"draft of {name}"

    async def awaited(self, item):
        self.calls.append(item["id"])
        draft = await gm.step(self.draft, item["id"])
        return [draft, await gm.ask({"publish": draft})]

    def plain(self, item):
        self.calls.append(item["id"])
        draft = gm.step(self.draft, item["id"])
        return [draft, gm.ask({"publish": draft})]


@pytest.fixture(params=["awaited", "plain"])
def asker(request):
    found = Asker()
    found.work = getattr(found, request.param)
    return found


def test_a_job_that_asks_is_paused_with_its_question(asker, journal):
    report = batch(asker.work, journal)
    first = next(report.results(status="waiting"))
    assert statuses(report) == dict.fromkeys("abc", "waiting")
    assert first.questions == {"ask#1": {"publish": "draft of a"}}
    assert (first.error.kind, first.error.message) == ("paused", 'waits for an answer: {"publish":"draft of a"}')
    assert (report.statistics.waiting, report.statistics.failed, report.done_now) == (3, 0, 0)
    assert [result.job_id for result in report.waiting] == ["a", "b", "c"]


def test_a_job_of_an_executor_is_answered_when_its_run_is_started_again(asker, journal):
    jobs = [gm.Job(id=item["id"], graph=asker.work, input=item) for item in ITEMS]

    async def started(answers=None):
        async with gm.BatchExecutor(PROMPT, journal=journal).start(jobs, run_id="r", answers=answers) as run:
            return {result.job_id: str(result.status) async for result in run.results()}

    assert asyncio.run(started()) == dict.fromkeys("abc", "waiting")
    assert asyncio.run(started({"a": "yes"})) == {"a": "succeeded"}


def test_a_run_whose_items_wait_is_paused_and_says_why(asker, journal):
    report = batch(asker.work, journal)
    run = journal.archive.find("r")
    assert (run.state, run.reason, report.is_complete, report.stopped) == (
        "paused",
        "3 items wait for an answer",
        False,
        None,
    )


def test_an_answered_job_goes_on_and_its_finished_steps_are_not_repeated(asker, journal):
    batch(asker.work, journal)
    asker.calls.clear()
    report = batch(asker.work, journal, {"a": "yes", "b": {"no": [1, None]}, "c": None})
    assert outputs(report) == {
        "a": ["draft of a", "yes"],
        "b": ["draft of b", {"no": [1, None]}],
        "c": ["draft of c", None],
    }
    assert sorted(asker.calls) == ["a", "b", "c"]
    assert (report.is_complete, journal.archive.find("r").state) == (True, "finished")


def test_items_without_an_answer_are_left_as_they_are_and_not_run(asker, journal):
    batch(asker.work, journal)
    asker.calls.clear()
    some = batch(asker.work, journal, {"b": 1})
    assert (statuses(some), asker.calls) == ({"a": "waiting", "b": "succeeded", "c": "waiting"}, ["b"])
    none = batch(asker.work, journal)
    assert (statuses(none), asker.calls, none.statistics.waiting) == (statuses(some), ["b"], 2)
    assert journal.archive.find("r").reason == "2 items wait for an answer"


def test_a_question_uses_no_attempt_and_keeps_those_that_were_used(journal):
    calls = []

    async def work(item):
        calls.append(len(calls))
        if len(calls) in (1, 3):
            raise gm.Transient("not now")
        return await gm.ask("?") if len(calls) < 4 else "never"

    policy = gm.Policy(retry=gm.Retry(attempts=2, wait_s=0, cap_s=0))
    assert only(batch(work, journal, items=ITEMS[:1], policy=policy)).status == "waiting"
    failed = only(batch(work, journal, {"a": 1}, items=ITEMS[:1], policy=policy))
    assert (failed.status, failed.error.message, len(calls)) == ("failed", "not now", 3)


def test_a_job_may_ask_again_and_again(journal):
    async def work(item):
        del item
        return [await gm.ask("first"), await gm.ask("first"), await gm.ask("third")]

    asked = [only(batch(work, journal, answers, items=ITEMS[:1])).questions for answers in (None, {"a": 1}, {"a": 2})]
    assert asked == [{"ask#1": "first"}, {"ask#2": "first"}, {"ask#3": "third"}]
    assert only(batch(work, journal, {"a": 3}, items=ITEMS[:1])).output == [1, 2, 3]


def test_an_item_that_waits_for_its_second_answer_is_not_run_for_its_first(journal):
    calls = []

    async def work(item):
        calls.append(item["id"])
        return [await gm.ask(1), await gm.ask(2)]

    for answers in (None, {"a": "x"}, None):
        assert only(batch(work, journal, answers, items=ITEMS[:1])).status == "waiting"
    assert calls == ["a", "a"]


def test_questions_asked_at_once_are_answered_by_their_paths_all_or_some(journal):
    async def work(item):
        del item
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(gm.ask(name)) for name in "xyz"]
        return [task.result() for task in tasks]

    first = only(batch(work, journal, items=ITEMS[:1]))
    assert first.questions == {"ask#1": "x", "ask#2": "y", "ask#3": "z"}
    for given in ("one for all", {"ask#1": 1, "ask#9": 2}, {}):
        message = refused(work, journal, {"a": given}, items=ITEMS[:1])
        assert (
            message == "item 'a' waits for 3 answers; give a mapping with some or all of the keys ask#1, ask#2, ask#3"
        )
    assert only(batch(work, journal, {"a": {"ask#1": 1, "ask#3": 3}}, items=ITEMS[:1])).questions == {"ask#2": "y"}
    assert only(batch(work, journal, {"a": 2}, items=ITEMS[:1])).output == [1, 2, 3]


def test_code_that_catches_everything_does_not_swallow_a_question(journal):
    async def catches(item):
        try:
            return await gm.ask(item["id"])
        except Exception:  # noqa: BLE001  as user code does
            return "swallowed"

    async def catches_more(item):
        try:
            return await gm.ask(item["id"])
        except BaseException:  # noqa: BLE001
            return "swallowed"

    for function in (catches, catches_more):
        report = gm.batch(function, ITEMS, run_id=function.__name__, journal=journal)
        assert statuses(report) == dict.fromkeys("abc", "waiting")


def test_a_question_inside_a_step_is_known_by_the_step(journal):
    calls = []

    async def inner(name):
        calls.append(name)
        return await gm.ask(f"{name}?")

    async def work(item):
        return await gm.step(inner, item["id"], effect="unsafe")

    assert only(batch(work, journal, items=ITEMS[:1])).questions == {"inner#1/ask#1": "a?"}
    assert only(batch(work, journal, {"a": "so"}, items=ITEMS[:1])).output == "so"
    assert calls == ["a", "a"]


def test_a_job_that_must_not_happen_twice_may_ask(journal):
    async def work(item):
        return await gm.ask(item["id"])

    batch(work, journal, items=ITEMS[:1], effect="unsafe")
    assert only(batch(work, journal, {"a": "go"}, items=ITEMS[:1], effect="unsafe")).output == "go"


def test_a_failed_step_that_was_handled_before_the_question_is_not_tried_again(journal):
    calls = []

    async def fails():
        calls.append("fails")
        raise gm.Permanent("no")

    async def work(item):
        try:
            await gm.step(fails)
        except gm.StepError:
            return [await gm.ask(1), await gm.ask(2)]

    batch(work, journal, items=ITEMS[:1])
    batch(work, journal, {"a": "x"}, items=ITEMS[:1])
    assert (only(batch(work, journal, {"a": "y"}, items=ITEMS[:1])).output, calls) == (["x", "y"], ["fails"])


def test_answers_that_nobody_waits_for_are_refused_and_change_nothing(asker, journal):
    batch(asker.work, journal)
    batch(asker.work, journal, {"b": 1})
    asker.calls.clear()
    asked = {"a": 1}
    assert (
        refused(asker.work, journal, asked | {"z": 1})
        == "run r has no item 'z' waiting for an answer; waiting items: 'a', 'c'"
    )
    assert (
        refused(asker.work, journal, asked | {"b": 1})
        == "item 'b' of run r is not waiting for an answer: it is succeeded"
    )
    assert refused(asker.work, journal, asked | {"c": object()}).startswith(
        "the answer to item 'c' can't be recorded: it is not JSON"
    )
    assert refused(asker.work, journal, [("a", 1)]) == "answers must be a mapping from item ids to answers, got list"
    assert "has no item 3 waiting" in refused(asker.work, journal, asked | {3: 1})
    assert asker.calls == []


def test_answers_without_a_run_that_asked_are_refused(journal):
    with pytest.raises(gm.UsageError, match="need the run_id"):
        gm.batch(len, ITEMS, answers={"a": 1})
    with pytest.raises(gm.UsageError, match="no run r to answer"):
        batch(len, journal, {"a": 1})
    assert journal.archive.runs() == []


def test_a_question_needs_a_run_that_is_recorded_and_a_job():
    async def work(item):
        return await gm.ask(item)

    result = only(gm.batch(work, [1]))
    assert (result.error.kind, result.attempts) == ("permanent", 1)
    assert "not recorded; give the batch a run_id" in result.error.message
    with pytest.raises(gm.UsageError, match="in a function that a batch runs"):
        gm.ask("?")


def deep(levels):
    found = []
    for _ in range(levels):
        found = [found]
    return found


@pytest.mark.parametrize(
    ("question", "said"), [(object(), "is not JSON"), (deep(300), "is nested deeper"), (deep(5000), "is nested deeper")]
)
def test_a_question_that_is_not_json_fails_its_job(journal, question, said):
    async def work(item):
        del item
        return await gm.ask(question)

    result = only(batch(work, journal, items=[1]))
    assert (result.error.kind, result.attempts) == ("permanent", 1)
    assert said in result.error.message


def test_a_retry_of_other_items_leaves_those_that_wait_and_one_by_name_asks_anew(journal):
    calls = []

    async def work(item):
        calls.append(item["id"])
        if item["id"] == "b" and len(calls) < 4:
            raise gm.Permanent("no")
        return await gm.ask("?") if item["id"] != "b" else "done"

    batch(work, journal)
    assert statuses(gm.retry("r", graph=work, journal=journal)) == {"a": "waiting", "b": "succeeded", "c": "waiting"}
    assert (sorted(calls), journal.archive.find("r").reason) == (["a", "b", "b", "c"], "2 items wait for an answer")
    again = gm.retry("r", graph=work, journal=journal, items=["c"])
    assert (statuses(again)["c"], calls[-1]) == ("waiting", "c")
    assert statuses(batch(work, journal, {"a": 1, "c": 2})) == dict.fromkeys("abc", "succeeded")


def test_a_failed_item_that_is_retried_has_its_answers(journal):
    asked = []

    async def work(item):
        del item
        answer = await gm.ask("?")
        asked.append(answer)
        if len(asked) == 1:
            raise gm.Permanent("no")
        return answer

    batch(work, journal, items=ITEMS[:1])
    batch(work, journal, {"a": "yes"}, items=ITEMS[:1])
    assert only(gm.retry("r", graph=work, journal=journal)).output == "yes"


def test_a_changed_function_is_refused_and_invalidated_asks_what_it_asks_now(journal):
    def ask(text):
        async def work(item):
            del item
            return await gm.ask(text)

        return work

    batch(ask("old"), journal, items=ITEMS[:1], version="1")
    with pytest.raises(gm.ChangedError, match="run r has 1 results"):
        batch(ask("new"), journal, {"a": 1}, items=ITEMS[:1], version="2")
    assert journal.archive.find("r").steps == 0
    renewed = batch(ask("new"), journal, items=ITEMS[:1], version="2", on_change="invalidate")
    assert only(renewed).questions == {"ask#1": "new"}
    assert only(batch(ask("new"), journal, {"a": 1}, items=ITEMS[:1], version="2")).output == 1


def test_an_edited_item_is_refused_though_it_was_answered(journal):
    async def work(item):
        return await gm.ask(item["id"])

    batch(work, journal)
    with pytest.raises(gm.ChangedError):
        batch(work, journal, {"a": 1}, items=[{"id": "a", "new": True}, *ITEMS[1:]])
    assert statuses(batch(work, journal)) == {"a": "succeeded", "b": "waiting", "c": "waiting"}


def test_an_item_that_has_left_the_source_takes_no_answer(journal):
    async def work(item):
        return await gm.ask(item["id"])

    batch(work, journal)
    batch(work, journal, items=ITEMS[1:])
    assert "no longer in the source" in refused(work, journal, {"a": 1}, items=ITEMS[1:])


def test_a_function_in_a_worker_process_can_not_ask(journal):
    result = only(gm.batch(gm.ask, ["?"], run_id="r", journal=journal, isolation="process"))
    assert (result.error.kind, "need the process of the run" in result.error.message) == ("permanent", True)


def counted(function, calls):
    def call(*given, **more):
        calls.append(function)
        return function(*given, **more)

    return call


def test_many_items_are_answered_without_going_through_all_for_each(journal, monkeypatch):
    async def work(item):
        return await gm.ask(item["id"])

    items, readings = [{"id": str(number)} for number in range(1000)], []
    batch(work, journal, items=items)
    archive = type(journal.archive)
    for name in ("entries", "history"):
        monkeypatch.setattr(archive, name, counted(getattr(archive, name), readings))
    report = batch(work, journal, {item["id"]: -int(item["id"]) for item in items}, items=items)
    assert report.collect() == [-number for number in range(1000)]
    assert 0 < len(readings) < 10


def test_a_question_that_comes_after_its_attempt_has_ended_changes_nothing(journal):
    said, second, late = [], threading.Event(), threading.Event()

    def work(item):
        del item
        if said:
            second.set()
            assert late.wait(HANG_S)
            return "done"
        said.append("begun")
        assert second.wait(HANG_S)
        try:
            gm.ask("too late")
        except BaseException as error:
            said.append(type(error).__name__)
            raise
        finally:
            late.set()

    policy = gm.Policy(timeout_s=1, retry=gm.Retry(attempts=2, wait_s=0, cap_s=0))
    result = only(batch(work, journal, items=ITEMS[:1], policy=policy))
    assert (result.status, result.output, said) == ("succeeded", "done", ["begun", "CancelledError"])


def test_a_run_that_is_drained_keeps_what_was_asked_and_does_the_rest_later(journal):
    async def work(item):
        if item["id"] == "c" and runs:
            runs.pop().drain(0)
            await asyncio.Event().wait()
        return await gm.ask(item["id"]) if item["id"] != "c" else "done"

    runs = []
    one = gm.Policy(concurrency=1)
    stopped = batch(work, journal, on_start=runs.append, policy=one)
    assert (statuses(stopped), stopped.stopped) == ({"a": "waiting", "b": "waiting"}, "request")
    assert statuses(batch(work, journal, {"b": 1})) == {"a": "waiting", "b": "succeeded", "c": "succeeded"}


def test_the_executor_gives_paused_results_with_their_questions(journal):
    async def work(value):
        return await gm.ask(value)

    async def drive():
        jobs = [gm.Job(id=name, graph=work, input=name) for name in "ab"]
        async with gm.BatchExecutor(PROMPT, journal=journal).start(jobs, run_id="r") as run:
            return {result.job_id: result.questions async for result in run.results()}

    assert asyncio.run(drive()) == {"a": {"ask#1": "a"}, "b": {"ask#1": "b"}}


def test_one_job_gives_its_question_and_is_answered_by_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.yaml").write_text("nodes: [{id: a, type: ask, params: {question: 'Well?'}}]")
    assert gm.run("one.yaml", run_id="r").questions == {"a/ask#1": "Well?"}
    assert gm.resume("r", answers={"job": "yes"}).collect() == [{"answer": "yes"}]
    assert gm.run("one.yaml", run_id="r").output == {"answer": "yes"}


def test_answers_are_durable_before_a_job_goes_on(tmp_path):
    ran, seen = [], []

    async def work(item):
        answer = await gm.ask(item["id"])
        ran.append(answer)
        return answer

    def note(rows):
        seen.extend((len(ran), row.path) for row in rows if isinstance(row, StepRow))

    with closing(watched(tmp_path / "runs.db", note)) as journal:
        batch(work, journal)
        batch(work, journal, {"a": 1, "b": 2})
    assert (seen, sorted(ran)) == ([(0, "ask#1")] * 2, [1, 2])


ASKS = """
def items():
    return [{"id": name} for name in "ab"]

def slowly(name):
    note("step-" + name)
    return name

async def work(item):
    name = await gm.step(slowly, item["id"])
    answer = await gm.ask(name + "?")
    note("went-on-" + name)
    if not os.path.exists("go"):
        await asyncio.Event().wait()
    return answer

def batch(**options):
    report = gm.batch(work, items(), run_id="r", policy=PROMPT, **options)
    print(sorted((result.job_id, str(result.status), result.output) for result in report.results()))
"""


def test_after_a_kill_no_answer_is_lost_and_no_finished_step_repeated(tmp_path):
    program = Program(tmp_path, ASKS)
    assert program.run("batch()") == "[('a', 'waiting', None), ('b', 'waiting', None)]"
    with program.killed_when("batch(answers={'a': 'yes'})", "went-on-a") as process:
        pass
    assert process.returncode == KILLED
    (tmp_path / "go").touch()
    assert program.run("batch()") == "[('a', 'succeeded', 'yes'), ('b', 'waiting', None)]"
    assert sorted(program.notes) == ["step-a", "step-b", "went-on-a", "went-on-a"]
