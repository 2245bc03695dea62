"""What calls of models have used is known in full after a kill or a stop and a resume: of failed attempts, of re-asks, of both halves."""

import asyncio
import signal
import sqlite3
from contextlib import closing

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
        return tuple(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("attempts", "results"))


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
        (tmp_path / "graphmill.yaml").write_text(f"providers: {{own: {{protocol: openai, address: '{server.url}/v1'}}}}")
        with Command(tmp_path, PROGRAM, graph, argv=[COMMAND[0], "-c"]) as first:
            first.until(lambda: len(server.asked) == len(answers) and written(tmp_path) == (failed, answers.count(FINE)))
            first.send(signal.SIGKILL)
            first.wait()
        with Command(tmp_path, PROGRAM, graph, argv=[COMMAND[0], "-c"]) as second:
            assert second.wait() == 0, second.err
            statuses, requests, put_in, given = second.out.rsplit(" ", 3)
        whole = sum(each in (FINE, MISFIT) for each in answers) + len(server.asked) - len(answers)
        assert statuses == str(["succeeded"] * 3)
        assert (int(requests), int(put_in), int(given)) == (len(server.asked) - 1, 5 * whole, 2 * whole)
        total = {"own/m": {"requests": int(requests), "input_tokens": int(put_in), "output_tokens": int(given)}}
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
    assert first.stopped in ("drained", "cancelled")
    assert len(played.asked) == 3
    report = gm.batch(graph, [{}], run_id="r", journal=store, policy=POLICY)
    (result,) = report.results()
    assert result.is_success
    assert (result.usage["requests"], result.usage["input_tokens"]) == (3, 1 + 2 + 2)
    assert {model: usage.counts for model, usage in report.statistics.usage.items()} == {"scripted/play": result.usage}
