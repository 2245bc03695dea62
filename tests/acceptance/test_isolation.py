import asyncio
import functools
import os
import signal
import subprocess
import sys
import threading
from textwrap import dedent

import pytest

import graphmill as gm
from graphmill.engine.monitor.machine import usable_cores
from support import worker_functions as functions
from support.driving import by_id, jobs_of, real
from support.remains import is_alive, nothing_left, pids_in, wait_until
from support.workflows import write_workflow

EAGER = gm.Retry(attempts=3, wait_s=0, cap_s=0, jitter=False)
ONCE = gm.Retry(attempts=1)


@pytest.fixture(autouse=True)
def _tidy():
    with nothing_left():
        yield


def isolated(function, items, *, retry=EAGER, timeout_s=60, observers=(), concurrency=2, **policy):
    policy = gm.Policy(retry=retry, timeout_s=timeout_s, **policy)
    return gm.batch(function, items, policy=policy, concurrency=concurrency, isolation="process", observers=observers)


def outputs(report):
    assert [result.error for result in report.results() if result.error] == []
    return [result.output for result in report.results()]


def failure_of(function, item, **options):
    (result,) = isolated(function, [item], **options).results()
    assert result.status == "failed"
    return result.error


@pytest.mark.parametrize(
    "function", [functions.same, functions.same_later, functions.promised], ids=lambda function: function.__name__
)
def test_values_of_any_sort_come_back_as_they_were(function):
    values = [None, 0, False, "", [], {}, "ünïcödé 👩‍👩‍👧 \ud800", {"a": [1, (2, 3)]}, b"\x00", 1.5, {1, 2}, range(3)]
    assert outputs(isolated(function, values)) == values


@pytest.mark.parametrize(
    ("function", "output"),
    [
        (str.upper, "AB"),
        (len, 2),
        (str, "ab"),
        (functions.Tools.made, ("Tools", "ab")),
        (functions.Tools.doubled, "abab"),
    ],
    ids=["method", "builtin", "class", "class method", "static method"],
)
def test_whatever_a_name_leads_to_can_be_called(function, output):
    assert outputs(isolated(function, ["ab"])) == [output]


def test_values_larger_than_any_buffer_pass_in_both_directions():
    large = b"x" * 50_000_000
    assert outputs(isolated(functions.size, [large, large])) == [50_000_000] * 2
    assert [len(output) for output in outputs(isolated(functions.grown, [50_000_000, 65_527, 65_536, 1_000_000]))] == [
        50_000_000,
        65_527,
        65_536,
        1_000_000,
    ]


def test_each_of_a_thousand_items_is_run_once_by_few_workers():
    report = isolated(functions.pid_of, range(1000), concurrency=4)
    assert 1 <= len(set(outputs(report))) <= 4
    assert outputs(isolated(functions.same, range(1000), concurrency=4)) == list(range(1000))
    assert {result.attempts for result in report.results()} == {1}


def test_an_item_changed_by_its_function_is_not_changed_here():
    item = {"a": 1}
    assert outputs(isolated(functions.change, [item])) == [{"a": 1, "changed": True}]
    assert item == {"a": 1}


def test_each_attempt_has_a_context_of_its_own():
    assert outputs(isolated(functions.remember, [1, 2, 3], concurrency=1)) == [None] * 3


@pytest.mark.parametrize("function", [functions.wrong, functions.wrong_later], ids=lambda function: function.__name__)
def test_an_error_comes_back_with_kind_type_message_and_frames(function):
    (result,) = isolated(function, ["x"]).results()
    assert (result.attempts, result.error.kind, result.error.type, result.error.message) == (
        3,
        "transient",
        "ValueError",
        "bad x",
    )
    assert "worker_functions.py" in result.error.traceback
    assert "graphmill/engine" not in result.error.traceback


def test_a_retry_after_is_heard_from_a_worker():
    told = []
    report = isolated(functions.throttled, [1], observers=[told.append], retry=gm.Retry(throttle_budget_s=0.2))
    assert report.stopped == "outage"  # it would have to wait for longer than it may
    waits = [(event.failure.retry_after_s, event.wait_s) for event in told if isinstance(event, gm.RetryScheduled)]
    assert waits == [(1000.0, 0.2), (1000.0, 0.0)]


def test_classify_sees_the_exception_itself():
    asked = []

    def classify(error):
        asked.append(error)
        return "permanent"

    (result,) = isolated(functions.refused, [402], classify=classify).results()
    assert (result.attempts, result.error.kind) == (1, "permanent")
    assert [(type(error), error.code, error.hint) for error in asked] == [(functions.Refused, 402, "ask again")]


def test_an_exception_that_can_not_be_sent_is_judged_by_the_usual_rule():
    error = failure_of(functions.sealed, 1, classify=lambda error: "permanent")
    assert (error.kind, error.type, error.message) == ("transient", "support.worker_functions.Sealed", "sealed")


@pytest.mark.parametrize(
    "function", [functions.surprise, functions.surprise_later], ids=lambda function: function.__name__
)
def test_what_would_end_a_program_ends_one_attempt_and_the_worker_lives_on(function):
    names = ["pid", "exit", "pid", "interrupt", "pid", "recursion", "pid", "memory", "pid"]
    results = list(isolated(function, names, concurrency=1, retry=ONCE).results())
    assert len({result.output for result in results if result.input == "pid"}) == 1
    raised = {result.input: result.error.type for result in results if result.input != "pid"}
    assert raised == {
        "exit": "SystemExit",
        "interrupt": "KeyboardInterrupt",
        "recursion": "RecursionError",
        "memory": "MemoryError",
    }


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("exit", "its worker process died: exited with status 3"),
        ("SIGSEGV", "its worker process died: killed by SIGSEGV"),
        ("SIGKILL", "its worker process died: killed by SIGKILL"),
    ],
)
def test_the_death_of_a_worker_is_a_crash_of_its_attempt(how, message):
    report = isolated(functions.end, [how], retry=ONCE)
    (result,) = report.results()
    assert (result.status, result.error.kind, result.error.message) == ("failed", "crash", message)
    assert f"crash   {message} (1 attempt)" in "".join(report.error_lines())


def test_a_function_that_closes_its_workers_socket_has_crashed_it():
    assert failure_of(functions.end, "closed", retry=ONCE).kind == "crash"


def test_an_attempt_whose_worker_was_killed_is_tried_again(tmp_path):
    (result,) = isolated(functions.end_once, [str(tmp_path)]).results()
    assert (result.output, result.attempts) == ("lived", 2)


def test_an_item_that_kills_three_workers_fails_and_no_bystander_does():
    results = list(isolated(functions.end, [None, "exit", *[None] * 20], concurrency=3).results())
    poison = results[1]
    assert (poison.status, poison.attempts, poison.error.kind) == ("failed", 3, "crash")
    assert {result.output for result in results if result is not poison} == {"lived"}
    assert {result.attempts for result in results if result is not poison} == {1}


def test_what_an_item_leaves_in_its_worker_is_not_held_against_the_next_one():
    report = isolated(functions.leaves_a_bomb, range(40))
    assert report.statistics.succeeded == 40


def test_an_item_that_interrupts_its_own_pickling_ends_the_batch_and_hangs_nothing():
    with pytest.raises(KeyboardInterrupt):
        isolated(functions.same, [1, functions.Interrupting(), 2])


def test_an_unsafe_item_whose_connection_was_refused_in_its_worker_is_tried_again(tmp_path):
    options = {
        "isolation": "process",
        "effect": "unsafe",
        "journal": tmp_path / "runs.db",
        "policy": gm.Policy(retry=EAGER),
    }
    (result,) = gm.batch(functions.knock, [str(tmp_path)], **options).results()
    assert (result.output, result.attempts) == ("sent", 2)


def test_a_timed_out_function_is_killed_though_it_ignores_signals(tmp_path):
    retry = gm.Retry(attempts=50, wait_s=0, cap_s=0)
    (result,) = isolated(functions.spin_once, [str(tmp_path)], retry=retry, timeout_s=1).results()
    assert result.output == "second"
    assert result.attempts >= 2
    assert not any(is_alive(pid) for pid in pids_in(tmp_path))


def test_killed_functions_are_not_stuck(tmp_path):
    report = isolated(functions.spin, [str(tmp_path)] * 3, retry=ONCE, timeout_s=0.5)
    assert (report.statistics.timed_out, report.statistics.stuck) == (3, 0)


async def _stopped_while_busy(tmp_path, stop):
    executor = gm.BatchExecutor(gm.Policy(concurrency=2, isolation="process"))
    async with executor.start(jobs_of(functions.spin, [str(tmp_path)] * 2)) as run:
        pids = await asyncio.to_thread(pids_in, tmp_path, 2)
        stop(run)
        results = [result async for result in run.results()]
    return pids, results


def test_cancelling_a_run_kills_what_runs(tmp_path):
    pids, results = asyncio.run(_stopped_while_busy(tmp_path, lambda run: run.cancel()))
    assert [result.status for result in results] == ["cancelled"] * 2
    assert not any(is_alive(pid) for pid in pids)


def test_cancelling_a_job_kills_its_worker_only(tmp_path):
    async def main():
        executor = gm.BatchExecutor(gm.Policy(concurrency=2, isolation="process"))
        jobs = [gm.Job(id="spin", graph=functions.spin, input=str(tmp_path)), *jobs_of(functions.same, range(5))]
        async with executor.start(jobs) as run:
            (pid,) = await asyncio.to_thread(pids_in, tmp_path)
            assert run.cancel("spin")
            results = by_id([result async for result in run.results()])
        return pid, results

    pid, results = asyncio.run(main())
    assert results.pop("spin").status == "cancelled"
    assert {result.status for result in results.values()} == {"succeeded"}
    assert not is_alive(pid)


def test_leaving_a_run_early_kills_what_runs(tmp_path):
    async def main():
        async with gm.BatchExecutor(gm.Policy(isolation="process")).start(jobs_of(functions.spin, [str(tmp_path)])):
            return await asyncio.to_thread(pids_in, tmp_path)

    assert not any(is_alive(pid) for pid in asyncio.run(main()))


def test_a_cancelled_task_leaves_no_worker(tmp_path):
    async def main():
        async with asyncio.TaskGroup() as group:
            batch = group.create_task(gm.abatch(functions.spin, [str(tmp_path)], isolation="process"))
            pids = await asyncio.to_thread(pids_in, tmp_path)
            batch.cancel()
        return pids

    assert not any(is_alive(pid) for pid in asyncio.run(main()))


def test_what_a_killed_function_had_started_dies_too(tmp_path):
    async def main():
        async with gm.BatchExecutor(gm.Policy(isolation="process")).start(
            jobs_of(functions.start_child_and_spin, [str(tmp_path)])
        ):
            return await asyncio.to_thread(pids_in, tmp_path, 2)

    pids = asyncio.run(main())
    wait_until(lambda: not any(is_alive(pid) for pid in pids))


def test_what_a_function_leaves_behind_dies_with_its_worker(tmp_path):
    assert outputs(isolated(functions.start_child, [str(tmp_path)])) == ["returned"]
    wait_until(lambda: not any(is_alive(pid) for pid in pids_in(tmp_path)))


def test_nothing_is_left_after_the_parent_was_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        dedent("""
            import sys
            import graphmill as gm
            from support.worker_functions import spin
            gm.batch(spin, [sys.argv[1]] * 2, isolation="process", concurrency=2)
        """)
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen([sys.executable, script, tmp_path], env=environment) as parent:
        pids = pids_in(tmp_path, 2)
        parent.kill()
    wait_until(lambda: not any(is_alive(pid) for pid in pids))


def test_a_worker_leaves_in_order_so_that_its_exit_functions_run(tmp_path):
    isolated(functions.note_exit, [str(tmp_path)], grace_s=60)
    assert (tmp_path / "left").exists()


def test_what_a_function_prints_goes_where_ours_goes(capfd):
    isolated(functions.say, ["a"])
    out, err = capfd.readouterr()
    assert out == "said a\n"
    assert err == "warned a\n"


def test_there_is_nothing_to_read_from_the_input():
    assert outputs(isolated(functions.read_input, [1])) == [""]


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_function_that_forks_gives_one_result():
    assert outputs(isolated(functions.fork, range(20))) == list(range(20))


def test_a_worker_has_our_folder_environment_and_path(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRAPHMILL_TEST_MARK", "märk")
    monkeypatch.syspath_prepend("a folder with 'quotes' and ünïcödé")
    ((folder, mark, path),) = outputs(isolated(functions.surroundings, [1]))
    assert (folder, mark, path) == (str(tmp_path), "märk", sys.path)


@pytest.mark.parametrize(
    ("function", "item", "message"),
    [
        (
            functions.same,
            threading.Lock(),
            "the item (lock) can't be pickled for a worker process: TypeError: cannot pickle",
        ),
        (
            functions.same,
            functions.Unreadable(),
            "the item can't be unpickled in a worker process: RuntimeError: never",
        ),
        (functions.give_lambda, 1, "the output (function) can't be pickled by a worker process: "),
        (functions.give_unreadable, 1, "the output can't be unpickled: RuntimeError: never"),
    ],
    ids=["item sent", "item read", "output sent", "output read"],
)
def test_what_can_not_be_sent_is_a_permanent_failure_that_says_so(function, item, message):
    results = list(isolated(function, [item]).results())
    assert [(result.attempts, result.error.kind) for result in results] == [(1, "permanent")]
    assert results[0].error.message.startswith(message)


def test_a_module_that_can_not_be_imported_in_the_worker_is_a_permanent_failure(tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("def f(item): return item")
    monkeypatch.syspath_prepend(tmp_path)
    from only_here import f  # noqa: PLC0415

    (tmp_path / "only_here.py").write_text("raise SystemExit('not twice')")
    (result,) = isolated(f, [1]).results()
    assert (result.attempts, result.error.kind) == (1, "permanent")
    assert result.error.message == "only_here.f can't be imported in a worker process: SystemExit: not twice"


def test_an_output_that_no_row_can_hold_is_refused_in_the_worker(tmp_path):
    sink = gm.sink(tmp_path / "out.jsonl")
    report = gm.batch(functions.same, [1, {1: object}, 2], sinks=[sink], isolation="process", concurrency=1)
    assert [result.status for result in report.results()] == ["succeeded", "failed", "succeeded"]
    assert list(report.results())[1].error.message.startswith("the output is not JSON: ")
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 3


def _other_than_named(item):
    return item


_other_than_named.__qualname__ = "_local"


def _local():
    def inner(item):
        return item

    return inner


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda item: item, "a lambda"),
        (_local(), "is defined inside a function"),
        (functools.partial(functions.same), "has no name of its own"),
        (functions.Tools(), "has no name of its own"),
        (functions.Tools().bound, "is not <bound method"),
        (_other_than_named, "_local is not <function"),
    ],
    ids=["lambda", "local", "partial", "object", "method", "another of its name"],
)
def test_a_function_that_can_not_be_imported_is_refused_before_the_run(function, message):
    with pytest.raises(gm.UsageError, match=message) as caught:
        gm.batch(function, [1], isolation="process")
    assert "write it with `def` in a module" in str(caught.value)


def test_a_function_of_the_main_program_is_refused_with_the_remedy(monkeypatch):
    monkeypatch.setattr(functions.same, "__module__", "__main__")
    with pytest.raises(gm.UsageError, match="write it with `def` in a module and import it from there"):
        gm.batch(functions.same, [1], isolation="process")


def test_a_job_whose_function_can_not_be_imported_fails_and_others_do_not():
    jobs = [gm.Job(id="bad", graph=lambda item: item, input=1), gm.Job(id="good", graph=functions.same, input=1)]
    results = by_id(real(jobs, isolation="process")[0])
    assert results["good"].output == 1
    assert (results["bad"].attempts, results["bad"].error.kind, results["bad"].error.type) == (
        1,
        "permanent",
        "graphmill.UsageError",
    )


def test_a_workflow_is_refused(tmp_path):
    path = write_workflow(tmp_path, "name: w\nnodes: [{id: a, type: value, params: {value: 1}}]")
    with pytest.raises(gm.UsageError, match="isolation='process'"):
        gm.batch(path, [{}], isolation="process")


def test_a_guard_of_workers_that_there_are_none_of_is_refused():
    policy = gm.Policy(guards=gm.Guards(worker_memory_bytes=500_000_000))
    with pytest.raises(gm.UsageError, match="add isolation='process' or leave it out"):
        gm.batch(functions.same, [1], policy=policy)
    assert gm.batch(functions.same, [1], policy=policy, isolation="process").collect() == [1]


class TestCodeNodes:
    """Nodes that run in worker processes, in a workflow whose policy has no isolation."""

    MEET = """
        nodes:
        - id: meet
          type: code
          batch: {times: 12, as: n, parallel: true, max_concurrent: 12, error_handling: continue}
          params:
            inputs: {n: "${n}", folder: %r, wanted: %d}
            code: |
              import os, pathlib, time
              own = pathlib.Path(folder, str(os.getpid()))
              own.touch()
              latest = time.monotonic() + 20
              while len(list(pathlib.Path(folder).iterdir())) < wanted and time.monotonic() < latest:
                  time.sleep(0.01)
              result = os.getpid()
        outputs: {workers: "${meet.results}"}
    """

    def workers_of(self, tmp_path, wanted, **policy):
        folder = tmp_path / "workers"
        folder.mkdir()
        path = write_workflow(tmp_path, self.MEET % (str(folder), wanted))
        (result,) = gm.batch(path, [{}], concurrency=12, policy=gm.Policy(**policy)).results()
        return len({output["result"] for output in result.output["workers"]})

    def test_no_more_workers_than_cores_are_started_whatever_the_concurrency(self, tmp_path):
        assert 1 <= self.workers_of(tmp_path, 1) <= usable_cores()

    def test_the_policy_says_how_many(self, tmp_path):
        wanted = usable_cores() + 1  # all of them meet, so all of them ran at once
        assert self.workers_of(tmp_path, wanted, workers=wanted) == wanted

    def test_a_node_has_a_limit_of_memory_of_its_own(self, tmp_path):
        path = write_workflow(
            tmp_path,
            """
            nodes:
            - {id: small, type: code, params: {memory_mb: 2000, code: "result = len(b'x' * 150_000_000)"}}
            - {id: large, type: code, params: {memory_mb: 100, code: "import time; kept = b'x' * 150_000_000; time.sleep(60); result = 1"}}
            """,
        )
        (result,) = gm.batch(path, [{}], policy=gm.Policy(retry=ONCE)).results()
        assert (result.error.kind, "more than 100 MB" in result.error.message) == ("crash", True)
        assert "'large'" in result.error.message

    def test_the_guard_of_the_policy_holds_for_them_too(self, tmp_path):
        path = write_workflow(
            tmp_path,
            """nodes: [{id: n, type: code, params: {code: "import time; kept = b'x' * 150_000_000; time.sleep(60); result = 1"}}]""",
        )
        policy = gm.Policy(retry=ONCE, guards=gm.Guards(worker_memory_bytes=100_000_000))
        (result,) = gm.batch(path, [{}], policy=policy).results()
        assert "more than 100 MB" in result.error.message

    def test_a_limit_without_a_worker_is_a_mistake(self, tmp_path):
        path = write_workflow(
            tmp_path, "nodes: [{id: n, type: python, params: {function: 'builtins:int', memory_mb: 5}}]"
        )
        with pytest.raises(gm.WorkflowError, match="add isolation: process"):
            gm.load(path)


def test_functions_have_as_many_workers_as_the_policy_says(tmp_path):
    policy = gm.Policy(workers=1, isolation="process")
    assert len(set(gm.batch(functions.pid_of, range(6), concurrency=6, policy=policy).collect())) == 1


def test_only_known_forms_of_isolation_are_accepted():
    with pytest.raises(gm.UsageError, match="isolation must be one of process, got 'thread'"):
        gm.batch(functions.same, [1], isolation="thread")


def test_the_interrupt_of_a_terminal_does_not_reach_workers(tmp_path):
    async def main():
        async with gm.BatchExecutor(gm.Policy(isolation="process")).start(jobs_of(functions.spin, [str(tmp_path)])):
            return [(os.getsid(pid), os.getpgid(pid), pid) for pid in await asyncio.to_thread(pids_in, tmp_path)]

    ((session, group, pid),) = asyncio.run(main())
    assert session == group == pid
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
