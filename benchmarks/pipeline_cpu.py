"""The CPU of solve-verify-judge, its models scripted: against LangGraph with its SQLite checkpointer on empty nodes."""

from __future__ import annotations

import os
import time
from importlib.metadata import version
from statistics import median

import graphmill as gm
from benchmarks import langgraph_durable
from benchmarks.durable import fresh_folder
from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import require
from benchmarks.trial import trial
from graphmill.core.model_call import ModelRequest

_ITEMS = 500
_CONCURRENCY = 32
_EMPTY_NODES = 5
_REPETITIONS = 5
_SETTINGS = """
providers: {scripted: {address: "benchmarks.pipeline_cpu:answer"}}
roles: {solver: scripted/solver, verifier: scripted/verifier, judge: scripted/judge}
"""
_SCORES = {"correctness": 0.5, "completeness": 0.8, "clarity": 0.9}


def answer(request: ModelRequest) -> object:
    """Play the agents: the verifier accepts the second answer."""
    prompt = request.messages[-1].text
    if request.model == "judge":
        return {"reasoning": "it is right", "strengths": ["short"], "weaknesses": [], "score": 0.9}
    if request.model == "verifier":
        return {"critique": "step two", "scores": _SCORES, "confidence": 0.7, "passed": "again" in prompt}
    words = "I try again, by hand" if "verifier found" in prompt else "At a first glance"
    return f"{words}: {'one step follows the other. ' * 20}\\boxed{{2}}\n\nConfidence: 0.8"


def ours(items: int = _ITEMS) -> float:
    """Tell the CPU seconds of a recorded batch of debates of two rounds: five model calls each."""
    _record(10)  # the first imports
    return _record(items)


def _record(items: int) -> float:
    with fresh_folder() as folder:
        (folder / "graphmill.yaml").write_text(_SETTINGS)
        os.chdir(folder)
        given = [{"id": f"p{number}", "problem": f"What is {number} + 1?", "domain": "math"} for number in range(items)]
        began = time.process_time()
        graph = "solve-verify-judge"
        report = gm.batch(graph, given, run_id="benchmark", journal=folder / "runs.db", concurrency=_CONCURRENCY)
        spent = time.process_time() - began
        os.chdir("/")
        require(2 * items, sum(result.output["rounds"] for result in report.results()))
    return spent


def _measure() -> Reading:
    theirs = langgraph_durable.theirs
    spent = [(trial(theirs, items=_ITEMS, nodes=_EMPTY_NODES), trial(ours)) for _ in range(_REPETITIONS)]
    their_us, our_us = (median(column) / _ITEMS * 1e6 for column in zip(*spent, strict=True))
    note = f"{our_us:,.0f} µs an item; LangGraph {version('langgraph')} with AsyncSqliteSaver {their_us:,.0f} µs, of {_ITEMS:,} items"
    return middle([usual / mine for usual, mine in spent], note)


FIGURE = Figure(
    name="pipeline-cpu",
    title="CPU per item of LangGraph with its SQLite checkpointer on five empty nodes, over solve-verify-judge in two rounds, recorded",
    bound="at least",
    target=3.0,
    form="{:.2f} ×",
    measure=_measure,
)
