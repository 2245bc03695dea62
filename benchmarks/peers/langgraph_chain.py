"""The three functions of chain.yaml as a compiled StateGraph of LangGraph, run by ``abatch``."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from importlib.metadata import version
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph

from benchmarks.workflow_functions import as_text, doubled, increased


class _State(TypedDict, total=False):
    number: int
    increased: int
    doubled: int
    text: str


async def _increased(state: _State) -> _State:
    return {"increased": await increased(state["number"])}


async def _doubled(state: _State) -> _State:
    return {"doubled": await doubled(state["increased"])}


async def _described(state: _State) -> _State:
    return {"text": await as_text(state["doubled"])}


def _compiled() -> Any:
    graph = StateGraph(_State)
    for name, node in (("first", _increased), ("second", _doubled), ("third", _described)):
        graph.add_node(name, node)
    for source, target in ((START, "first"), ("first", "second"), ("second", "third"), ("third", END)):
        graph.add_edge(source, target)
    return graph.compile()


def _cpu_s(graph: Any, items: int, *, concurrency: int) -> float:
    given = [{"number": number} for number in range(items)]
    began = time.process_time()
    states = asyncio.run(graph.abatch(given, {"max_concurrency": concurrency}))
    spent = time.process_time() - began
    if [state["text"] for state in states] != [f"number {(number + 1) * 2}" for number in range(items)]:
        raise RuntimeError("LangGraph gave something else than the three functions do: nothing was measured")
    return spent


def _main(items: str, concurrency: str) -> None:
    graph = _compiled()
    _cpu_s(graph, 10, concurrency=int(concurrency))  # the first imports
    spent = _cpu_s(graph, int(items), concurrency=int(concurrency))
    print(json.dumps({"version": version("langgraph"), "cpu_s_per_item": spent / int(items)}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
