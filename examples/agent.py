"""The LangGraph agent of agent.yaml: a model that calls a tool until it knows enough, played by hand so that the example runs anywhere."""

from __future__ import annotations

import operator
import re
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph

PRICES = {"p1": 2.5, "p2": 7.0, "p3": 39.0}


class State(TypedDict, total=False):
    question: str
    found: Annotated[dict[str, float], operator.or_]
    wanted: str | None
    answer: str


def think(state: State) -> dict[str, Any]:
    """Ask for the price of the next product that is not known yet, or answer; a model would decide this."""
    found = state.get("found", {})
    wanted = [name for name in re.findall(r"p\d", state["question"]) if name not in found]
    if wanted:
        return {"wanted": wanted[0]}
    return {"wanted": None, "answer": f"{sum(found.values()):.2f} in all" if found else "I only know prices."}


def look_up(state: State) -> dict[str, Any]:
    """Be the tool."""
    return {"found": {state["wanted"]: PRICES[str(state["wanted"])]}}


def is_done(state: State) -> str:
    return "look_up" if state["wanted"] else END


builder = StateGraph(State)
builder.add_node("think", think)
builder.add_node("look_up", look_up)
builder.add_edge(START, "think")
builder.add_conditional_edges("think", is_done)
builder.add_edge("look_up", "think")
graph = builder.compile()
