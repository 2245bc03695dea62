"""A LangGraph agent over a dataset, killed half-way: no node that had finished runs again: ``python examples/run_langgraph.py``."""

from __future__ import annotations

import operator
import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import chdir, closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

import graphmill as gm

ITEMS = [{"id": f"q{number}", "number": number, "guess": 1} for number in range(2, 22)]
KILLED_AT = "q12"


class State(TypedDict, total=False):
    id: str
    number: int
    guess: int
    thoughts: Annotated[list[str], operator.add]


def think(state: State) -> dict[str, Any]:
    """Stand in for a call of a model; each one leaves a line, to be counted."""
    with Path("calls.txt").open("a") as file:
        file.write(f"{state['id']} {state['guess']}\n")
    return {"thoughts": [f"is it {state['guess']}?"]}


def check(state: State) -> dict[str, Any]:
    """Guess higher, until the square is large enough."""
    if state["id"] == KILLED_AT and state["guess"] == 2 and os.environ.get("KILLED"):
        os._exit(9)  # as kill -9 would
    return {} if state["guess"] ** 2 >= state["number"] else {"guess": state["guess"] + 1}


def is_done(state: State) -> str:
    return END if state["guess"] ** 2 >= state["number"] else "think"


def run() -> gm.Report:
    """Begin the run, or go on with it if it is there."""
    builder = StateGraph(State)
    builder.add_node("think", think)
    builder.add_node("check", check)
    builder.add_edge(START, "think")
    builder.add_edge("think", "check")
    builder.add_conditional_edges("check", is_done)
    with closing(sqlite3.connect("checkpoints.db", check_same_thread=False)) as connection:
        graph = builder.compile(checkpointer=SqliteSaver(connection))
        return gm.batch(graph, ITEMS, run_id="roots", journal="roots.db", concurrency=4)


def main() -> None:
    """Let the first process die, then go on with what it left."""
    died = subprocess.run(
        [sys.executable, Path(__file__).resolve(), "first"], env={**os.environ, "KILLED": "1"}, check=False
    )
    assert died.returncode == 9

    report = run()
    print(
        f"{report.summary()}: {report.statistics.succeeded - report.done_now} before the kill, {report.done_now} after it"
    )
    assert report.statistics.succeeded == len(ITEMS)

    calls = Path("calls.txt").read_text().splitlines()
    assert (
        calls.count(f"{KILLED_AT} 1") == calls.count(f"{KILLED_AT} 2") == 1
    )  # what it had thought before the kill it did not think again
    print(f"{KILLED_AT} thought: {' '.join(call.split()[1] for call in calls if call.startswith(f'{KILLED_AT} '))}")


if __name__ == "__main__":
    os.environ["LANGSMITH_TRACING"] = "false"
    if sys.argv[1:] == ["first"]:
        run()
    else:
        with tempfile.TemporaryDirectory() as folder, chdir(folder):  # leaves nothing behind
            main()
