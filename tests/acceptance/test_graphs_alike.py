"""A plain function, a workflow and a LangGraph graph behave alike: in report, retry, resume, trace, time and cancellation."""

import asyncio
import importlib
import sys
from itertools import count
from typing import TypedDict

import pytest

import graphmill as gm
from graphmill.core.json import item_key
from support.langgraphs import chain

HANG_S = 60.0
_numbers = count()
QUICK = gm.Policy(retry=gm.Retry(attempts=2, wait_s=0.0, jitter=False))
MODULE = """
import asyncio

calls = []

async def handle(item):
    calls.append(item["id"])
    if item["do"] == "fail":
        raise ValueError("no luck")
    if item["do"] == "break":
        raise TypeError("never")
    if item["do"] == "once" and calls.count(item["id"]) == 1:
        raise ValueError("once")
    if item["do"] == "hang":
        await asyncio.Event().wait()
    return {"said": f"did {item['do']}"}

async def called(id, do):
    return await handle({"id": id, "do": do})
"""
WORKFLOW = """
inputs:
  id: {type: string, required: true}
  do: {type: string, required: true}
nodes:
  - id: handle
    type: python
    params: {function: "MODULE:called", inputs: {id: "${id}", do: "${do}"}}
outputs: {said: "${handle.result.said}"}
"""


class State(TypedDict, total=False):
    id: str
    do: str
    said: str


def items(*words):
    return [{"id": word, "do": word} for word in words]


@pytest.fixture
def alike(tmp_path, monkeypatch):
    """The module that all three are made of, in a folder of its own."""
    name = f"alike_{next(_numbers)}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / "alike.yaml").write_text(WORKFLOW.replace("MODULE", name))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module(name)
    del sys.modules[name]


@pytest.fixture(params=["function", "workflow", "LangGraph graph"])
def graph(request, alike, tmp_path):
    if request.param == "workflow":
        return gm.load(tmp_path / "alike.yaml")
    if request.param == "LangGraph graph":
        alike.compiled = chain({"handle": alike.handle}, schema=State)
        return alike.compiled
    return alike.handle


def told(report):
    return {
        result.job_id: (result.status, result.error and result.error.kind, result.attempts)
        for result in report.results()
    }


def said(result):
    return result.output["said"]


EXPECTED = {
    "well": ("succeeded", None, 1),
    "once": ("succeeded", None, 2),
    "fail": ("failed", "transient", 2),
    "break": ("failed", "permanent", 1),
}


@pytest.mark.parametrize("is_recorded", [False, True], ids=["in memory", "recorded"])
def test_the_report_tells_the_same(graph, store, is_recorded):
    given = items(*EXPECTED)
    report = gm.batch(graph, given, policy=QUICK, **({"run_id": "r", "journal": store} if is_recorded else {}))
    assert told(report) == EXPECTED
    assert report.summary() == "2/4 items succeeded, 2 failed"
    assert {result.job_id: said(result) for result in report.results() if result.is_success} == {
        "well": "did well",
        "once": "did once",
    }
    messages = {result.job_id: result.error.message.partition(" (")[0] for result in report.results() if result.error}
    assert messages == {"fail": "no luck", "break": "never"}


def test_a_run_that_is_gone_on_with_does_only_what_is_left(graph, alike, store):
    gm.batch(graph, items("well"), policy=QUICK, run_id="r", journal=store)
    report = gm.batch(graph, items("well", "once"), policy=QUICK, run_id="r", journal=store)
    assert told(report) == {name: EXPECTED[name] for name in ("well", "once")}
    assert alike.calls == ["well", "once", "once"]


def test_failed_items_are_done_again_in_the_next_generation(graph, alike, store):
    gm.batch(graph, items("well", "once"), policy=gm.Policy(retry=gm.Retry(attempts=1)), run_id="r", journal=store)
    report = gm.retry("r", graph=graph, journal=store)
    assert told(report) == {"well": ("succeeded", None, 1), "once": ("succeeded", None, 1)}
    assert alike.calls == ["well", "once", "once"]


def test_what_it_was_begun_with_is_opened_again(graph, alike, store, tmp_path):
    (tmp_path / "items.jsonl").write_text('{"id": "well", "do": "well"}\n')
    gm.batch(graph, gm.source("items.jsonl"), policy=QUICK, run_id="r", journal=store)
    with (tmp_path / "items.jsonl").open("a") as file:
        file.write('{"id": "more", "do": "more"}\n')
    assert told(gm.resume("r", journal=store)) == {"well": ("succeeded", None, 1), "more": ("succeeded", None, 1)}
    assert alike.calls == ["well", "more"]


def test_a_time_out_ends_an_attempt(graph, store):
    policy = gm.Policy(timeout_s=0.05, retry=gm.Retry(attempts=2, wait_s=0.0, jitter=False))
    report = gm.batch(graph, items("hang"), policy=policy, run_id="r", journal=store)
    assert told(report) == {"hang": ("timed_out", "timeout", 2)}


def test_a_job_is_cancelled_while_it_runs(graph, alike):
    async def scenario():
        executor = gm.BatchExecutor(QUICK)
        async with executor.start([gm.Job(id="hang", graph=graph, input={"id": "hang", "do": "hang"})]) as run:
            begun = asyncio.Event()
            alike.calls = Calls(begun)
            async with asyncio.timeout(HANG_S):
                await begun.wait()
            run.cancel("hang")
            return [(result.status, result.error.kind) async for result in run.results()]

    assert asyncio.run(scenario()) == [("cancelled", "cancelled")]


class Calls(list):
    """Tells that the first call was made."""

    def __init__(self, begun):
        self._begun = begun

    def append(self, entry):
        super().append(entry)
        self._begun.set()


def test_the_trace_names_what_ran_and_what_failed(graph, store):
    gm.batch(graph, items("well", "fail"), policy=QUICK, run_id="r", journal=store)
    histories = {name: store.archive.history(store.archive.find("r"), item_key(name)) for name in ("well", "fail")}
    if graph.__class__.__name__ != "function":  # which is one step, and that is its job
        assert {row.path.partition(":")[0] for row in histories["well"].steps} == {"handle"}
        assert any(row.path.partition(":")[0] == "handle" and row.error is not None for row in histories["fail"].steps)
    assert histories["fail"].entries[0].result.error.message.partition(" (")[0] == "no luck"


def test_graphs_of_all_kinds_run_in_one_batch(alike, store, tmp_path):
    graphs = {
        "function": alike.handle,
        "workflow": gm.load(tmp_path / "alike.yaml"),
        "langgraph": chain({"handle": alike.handle}, schema=State),
    }
    jobs = [
        gm.Job(id=f"{kind}-{word}", graph=graph, input={"id": f"{kind}-{word}", "do": word})
        for word in EXPECTED
        for kind, graph in graphs.items()
    ]

    async def scenario():
        async with gm.BatchExecutor(QUICK, journal=store).start(jobs, run_id="r") as run:
            return {result.job_id: result async for result in run.results()}

    results = asyncio.run(scenario())
    assert {name: (each.status, each.error and each.error.kind, each.attempts) for name, each in results.items()} == {
        f"{kind}-{word}": expected for word, expected in EXPECTED.items() for kind in graphs
    }
    assert {said(each) for name, each in results.items() if name.endswith("-well")} == {"did well"}
