"""What calls of models have used is known in full after a kill or a stop and a resume: of failed attempts, of re-asks, of both halves."""

import asyncio
import contextvars
import signal
import sqlite3
import threading
from contextlib import closing, suppress

import pytest

import graphmill as gm
from support.asked_model import answer, failing
from support.command import COMMAND, Command
from support.model_server import ModelServer, reply, silent
from support.recount import counted, recounted

POLICY = gm.Policy(concurrency=1, retry=gm.Retry(attempts=5, wait_s=0, cap_s=0))
SCHEMA = {"type": "object", "required": ["a"]}
USED = {"prompt_tokens": 5, "completion_tokens": 2}

PROGRAM = """
import sys
import graphmill as gm

async def on_the_loop(item):
    return (await gm.complete("own/m", f"ask {item['id']}", schema={'type': 'object', 'required': ['a']}))["a"]

def in_a_thread(item):
    return gm.complete("own/m", f"ask {item['id']}", schema={'type': 'object', 'required': ['a']})["a"]

async def in_a_step(item):
    return await gm.step(on_the_loop, item)

graph = "w.yaml" if sys.argv[1] == "workflow" else globals()[sys.argv[1]]
policy = gm.Policy(concurrency=1, retry=gm.Retry(attempts=5, wait_s=0, cap_s=0))
report = gm.batch(graph, [{"id": "p"}, {"id": "q"}, {"id": "r"}], run_id="r", journal="runs.db", policy=policy)
totals = [sum(result.usage[name] for result in report.results()) for name in ("requests", "input_tokens", "output_tokens")]
print([str(result.status) for result in report.results()], *totals)
"""
WORKFLOW = """
inputs: {id: {}}
nodes: [{id: ask, type: llm, params: {model: own/m, prompt: "ask ${id}", output_schema: {type: object, required: [a]}}}]
"""


def said(text):
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return reply({"id": "c", "model": "m", "choices": [choice], "usage": USED})


THROTTLED = reply({"error": {"message": "slow"}}, 429, headers={"Retry-After": "0"})
BROKEN = reply({"error": {"message": "down"}}, 500)
FINE, MISFIT = said('{"a": 1}'), said("none")


def written(folder):
    """Count the failed attempts and the results that are durable."""
    with closing(sqlite3.connect(folder / "runs.db")) as database:
        return tuple(
            database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("attempts", "results")
        )


@pytest.mark.parametrize("graph", ["workflow", "on_the_loop", "in_a_thread", "in_a_step"])
@pytest.mark.parametrize(
    "answers",
    [
        [FINE, THROTTLED, THROTTLED, None],
        [FINE, BROKEN, BROKEN, THROTTLED, BROKEN, None],
        [FINE, MISFIT, THROTTLED, MISFIT, BROKEN, None],
        [THROTTLED, FINE, MISFIT, FINE, THROTTLED, MISFIT, BROKEN, None],
    ],
    ids=["throttled", "broken", "re-asked", "several items"],
)
def test_what_was_answered_before_a_kill_is_counted_once_after_it(tmp_path, graph, answers):
    (tmp_path / "w.yaml").write_text(WORKFLOW)
    left, failed = list(answers), sum(each in (THROTTLED, BROKEN) for each in answers)
    with ModelServer(answer=lambda _: (left.pop(0) or silent()) if left else FINE) as server:
        (tmp_path / "graphmill.yaml").write_text(
            f"providers: {{own: {{protocol: openai, address: '{server.url}/v1'}}}}"
        )
        with Command(tmp_path, PROGRAM, graph, argv=[COMMAND[0], "-c"]) as first:
            first.until(
                lambda: len(server.asked) == len(answers) and written(tmp_path) == (failed, answers.count(FINE))
            )
            first.send(signal.SIGKILL)
            first.wait()
        with Command(tmp_path, PROGRAM, graph, argv=[COMMAND[0], "-c"]) as second:
            assert second.wait() == 0, second.err
            statuses, requests, put_in, given = second.out.rsplit(" ", 3)
        whole = sum(each in (FINE, MISFIT) for each in answers) + len(server.asked) - len(answers)
        assert statuses == str(["succeeded"] * 3)
        assert (int(requests), int(put_in), int(given)) == (len(server.asked) - 1, 5 * whole, 2 * whole)
        counts = {
            "requests": int(requests),
            "input_tokens": int(put_in),
            "output_tokens": int(given),
            "unpriced": whole,
        }
        total = {"own/m": counts}
        assert counted(tmp_path / "runs.db", "r") == recounted(tmp_path / "runs.db", "r") == total


async def on_the_loop(item):
    return (await gm.complete("scripted/play", "x", schema=SCHEMA))["a"]


def in_a_thread(item):
    return gm.complete("scripted/play", "x", schema=SCHEMA)["a"]


async def in_a_step(item):
    return await gm.step(on_the_loop, item)


def graph_of(played, kind):
    node = {"id": "ask", "type": "llm", "params": {"model": "scripted/play", "prompt": "x", "output_schema": SCHEMA}}
    batch = {**node, "batch": {"items": [1]}}
    return {"node": lambda: played.graph({"nodes": [node]}), "batch": lambda: played.graph({"nodes": [batch]})}[kind]()


@pytest.mark.parametrize("kind", ["node", "batch", on_the_loop, in_a_step, in_a_thread])
@pytest.mark.parametrize("act", ["drain", "twice", "cancel"])
def test_what_an_attempt_used_that_a_stop_has_ended_is_counted_once_after_it(played, store, kind, act):
    graph = kind if callable(kind) else graph_of(played, kind)
    runs = []

    def answered(_):
        if len(played.asked) == 1:
            return failing(gm.Transient("gone"), input_tokens=1)
        return stop() if len(played.asked) == 3 else answer("none" if len(played.asked) < 3 else '{"a": 1}')

    async def stop():
        (run,) = runs
        if act == "cancel":
            run.cancel()
        else:
            run.drain(0 if act == "drain" else 60)
            run.drain(0)
        await asyncio.Event().wait()

    played.by = answered
    first = gm.batch(graph, [{}], run_id="r", journal=store, policy=POLICY, on_start=runs.append)
    assert first.stopped == ("cancelled" if act == "cancel" else "request")
    assert len(played.asked) == 3
    report = gm.batch(graph, [{}], run_id="r", journal=store, policy=POLICY)
    (result,) = report.results()
    assert result.is_success
    assert (result.usage["requests"], result.usage["input_tokens"]) == (3, 1 + 2 + 2)
    assert {model: usage.counts for model, usage in report.statistics.usage.items()} == {"scripted/play": result.usage}


def asking(item):
    return gm.complete("own/m", "x").text


def asking_in_a_step(item):
    return gm.step(asking, item)


async def asking_in_a_thread_of_its_own(item):
    return await asyncio.to_thread(asking, item)


async def asking_in_a_step_s_thread(item):
    return await gm.step(asking, item)


def asking_in_a_loop_of_its_own(item):
    async def ask():
        return (await gm.complete("own/m", "x")).text

    return asyncio.run(ask())


THREADED = [
    asking,
    asking_in_a_step,
    asking_in_a_thread_of_its_own,
    asking_in_a_step_s_thread,
    asking_in_a_loop_of_its_own,
]


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A server on this machine that gives its answers in turn, the last for good."""
    left = []
    with ModelServer(answer=lambda _: left.pop(0) if len(left) > 1 else left[0]) as server:
        (tmp_path / "graphmill.yaml").write_text(
            f"providers: {{own: {{protocol: openai, address: '{server.url}/v1'}}}}"
        )
        monkeypatch.chdir(tmp_path)
        server.left = left
        yield server


@pytest.mark.parametrize("function", THREADED)
def test_a_call_from_a_thread_ends_with_an_attempt_that_is_out_of_time_and_is_counted(served, function):
    served.left += [silent(), silent(), said("fine")]
    policy = gm.Policy(timeout_s=0.3, retry=gm.Retry(attempts=50, wait_s=0, cap_s=0))
    report = gm.batch(function, [{"id": "a"}], run_id="r", policy=policy)
    (result,) = report.results()
    assert result.output == "fine"
    assert (
        result.attempts >= result.usage["requests"] >= len(served.asked) >= 3
    )  # more than three where the machine is slow
    assert result.usage["input_tokens"] == 5


@pytest.mark.parametrize("function", THREADED)
def test_a_call_from_a_thread_ends_with_a_run_that_is_stopped_and_is_counted_after_it(served, function):
    def play(_):
        (run,) = runs
        run.drain(0)
        return silent()(_)

    runs = []
    served.left += [play, said("fine")]
    first = gm.batch(function, [{"id": "a"}], run_id="r", policy=POLICY, on_start=runs.append)
    assert (first.stopped, len(served.asked)) == ("request", 1)
    (result,) = gm.batch(function, [{"id": "a"}], run_id="r", policy=POLICY).results()
    assert (result.output, len(served.asked), result.usage["requests"]) == ("fine", 2, 2)


def test_a_call_that_nobody_waits_for_ends_with_its_attempt_and_is_counted(served):
    is_asked = threading.Event()

    def play(writer):
        is_asked.set()
        return silent()(writer)

    def ask(item):
        with suppress(asyncio.CancelledError):
            asking(item)

    def leave(item):
        threading.Thread(target=contextvars.copy_context().run, args=(ask, item), daemon=True).start()
        assert is_asked.wait(60)
        return "gone"

    served.left += [play]
    (result,) = gm.batch(leave, [{"id": "a"}], run_id="r").results()
    assert (result.output, result.usage["requests"]) == ("gone", 1)


def test_a_thread_is_not_left_waiting_for_a_step_that_does_not_end_with_its_run():
    ended = threading.Event()

    async def stubborn():
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    def wait(item):
        try:
            gm.step(stubborn)
        finally:
            ended.set()

    policy = gm.Policy(timeout_s=0.1, grace_s=0.1, retry=gm.Retry(attempts=1))
    (result,) = gm.batch(wait, [{"id": "a"}], policy=policy).results()
    assert result.status == "timed_out"
    assert ended.wait(60)
