"""The CPU that LangGraph spends on the same three functions, against ours."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks import chain_cpu
from benchmarks.figure import Figure, Reading, middle
from benchmarks.peer import Peer
from benchmarks.trial import trial

_OUR_ITEMS = 20_000
_THEIR_ITEMS = 2000
_REPETITIONS = 5
_LANGGRAPH = Peer("langgraph")


def _theirs() -> dict[str, Any]:
    return _LANGGRAPH.ask("langgraph_chain", _THEIR_ITEMS, chain_cpu.CONCURRENCY)


def _measure() -> Reading:
    answers = [(_theirs(), trial(chain_cpu.ours, items=_OUR_ITEMS)) for _ in range(_REPETITIONS)]
    each = [(answer["cpu_s_per_item"], spent / _OUR_ITEMS) for answer, spent in answers]
    their_us, our_us = (median(column) * 1e6 for column in zip(*each, strict=True))
    note = f"{our_us:.1f} µs an item; LangGraph {answers[0][0]['version']} {their_us:.0f} µs, of {_THEIR_ITEMS:,} items"
    return middle([theirs / mine for theirs, mine in each], note)


FIGURE = Figure(
    name="chain-langgraph",
    title="CPU per item of LangGraph's abatch of the same three functions, over ours",
    bound="at least",
    target=None,
    form="{:.1f} ×",
    measure=_measure,
)
