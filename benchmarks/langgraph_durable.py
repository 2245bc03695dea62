"""The CPU of a LangGraph graph whose results survive a kill: recorded by us, against LangGraph with its own SQLite checkpointer."""

from __future__ import annotations

import asyncio
import os
import time
from importlib.metadata import version
from statistics import median
from typing import Any, TypedDict

import graphmill as gm
from benchmarks.durable import fresh_folder
from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import require
from benchmarks.trial import trial

_ITEMS = 1000
_CONCURRENCY = 32
_NODES = 4
_REPETITIONS = 5


class _State(TypedDict):
    number: int


async def _increase(state: _State) -> _State:
    return {"number": state["number"] + 1}


def _compiled(saver: Any = None, nodes: int = _NODES) -> Any:
    os.environ["LANGSMITH_TRACING"] = "false"
    from langgraph.graph import START, StateGraph  # noqa: PLC0415  only the process that measures it needs it

    graph, last = StateGraph(_State), START
    for name in map(str, range(nodes)):
        graph.add_node(name, _increase)
        graph.add_edge(last, name)
        last = name
    return graph.compile(checkpointer=saver)


def ours(items: int = _ITEMS) -> float:
    """Tell the CPU seconds of a recorded run, its nodes in the trace included."""
    graph = _compiled()
    _record(graph, 10)  # the first imports
    return _record(graph, items)


def _record(graph: Any, items: int) -> float:
    with fresh_folder() as folder:
        began = time.process_time()
        given = [{"number": number} for number in range(items)]
        report = gm.batch(graph, given, run_id="benchmark", journal=folder / "runs.db", concurrency=_CONCURRENCY)
        spent = time.process_time() - began
        require(items * _NODES, sum(result.output["number"] - result.input["number"] for result in report.results()))
    return spent


def theirs(items: int = _ITEMS, nodes: int = _NODES) -> float:
    """Tell the CPU seconds of ``abatch`` with AsyncSqliteSaver, a thread for each item."""
    asyncio.run(_saved(10, nodes))
    return asyncio.run(_saved(items, nodes))


async def _saved(items: int, nodes: int) -> float:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver  # noqa: PLC0415

    with fresh_folder() as folder:
        began = time.process_time()
        async with AsyncSqliteSaver.from_conn_string(str(folder / "saver.db")) as saver:
            configs = [
                {"configurable": {"thread_id": str(number)}, "max_concurrency": _CONCURRENCY} for number in range(items)
            ]
            states = await _compiled(saver, nodes).abatch([{"number": number} for number in range(items)], configs)
        spent = time.process_time() - began
    require(items * nodes, sum(state["number"] - number for number, state in enumerate(states)))
    return spent


def _measure() -> Reading:
    spent = [(trial(theirs), trial(ours)) for _ in range(_REPETITIONS)]
    their_us, our_us = (median(column) / _ITEMS * 1e6 for column in zip(*spent, strict=True))
    note = f"{our_us:,.0f} µs an item; LangGraph {version('langgraph')} with AsyncSqliteSaver {their_us:,.0f} µs, of {_ITEMS:,} items"
    return middle([mine / usual for usual, mine in spent], note)


FIGURE = Figure(
    name="langgraph-durable",
    title="CPU per item of a LangGraph graph of four nodes, recorded by us, over LangGraph's own SQLite checkpointer",
    bound="at most",
    target=0.35,
    form="{:.2f} ×",
    measure=_measure,
)
