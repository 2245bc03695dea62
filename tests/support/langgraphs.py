"""LangGraph graphs for tests: each compiled anew, with the checkpointer that is given."""

import asyncio
import operator
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send, interrupt


class Log(TypedDict, total=False):
    id: str
    n: int
    log: Annotated[list, operator.add]


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def chain(nodes, *, schema=Log, **options):
    """Compile nodes, by name, one after the other."""
    builder, last = StateGraph(schema), START
    for name, node in nodes.items():
        builder.add_node(name, node)
        builder.add_edge(last, name)
        last = name
    builder.add_edge(last, END)
    return builder.compile(**options)


def logging(name):
    """Make an async node that logs its name."""

    async def node(state):
        return {"log": [name]}

    return node


def plainly_logging(name):
    def node(state):
        return {"log": [name]}

    return node


def cycle(**options):
    """Compile think and act, which follow each other until n is 0."""
    builder = StateGraph(Log)
    builder.add_node("think", lambda state: {"log": ["think"]})
    builder.add_node("act", lambda state: {"log": ["act"], "n": state["n"] - 1})
    builder.add_edge(START, "think")
    builder.add_edge("think", "act")
    builder.add_conditional_edges("act", lambda state: "think" if state["n"] > 0 else END)
    return builder.compile(**options)


def fan_out(**options):
    """Compile one node that is sent to once for each of n."""

    async def work(state):
        await asyncio.sleep(0)
        return {"log": [state["part"]]}

    builder = StateGraph(Log)
    builder.add_node("work", work)
    builder.add_node("join", lambda state: {"log": [f"joined {len(state['log'])}"]})
    builder.add_conditional_edges(
        START, lambda state: [Send("work", {"part": part}) for part in range(state["n"])], ["work"]
    )
    builder.add_edge("work", "join")
    return builder.compile(**options)


def nested(**options):
    """Compile a graph inside of a graph."""
    inner = chain({"one": logging("one"), "two": plainly_logging("two")})
    return chain({"first": logging("first"), "inner": inner, "last": logging("last")}, **options)


def chat():
    """Compile a graph over messages."""

    async def answer(state):
        return {"messages": [AIMessage(content=f"you said {state['messages'][-1].content}", id="a")]}

    return chain({"answer": answer}, schema=Chat)


def asking(*questions, **options):
    """Compile a node that asks these one after the other, behind one that does not."""

    def ask(state):
        return {"log": [interrupt(question) for question in questions]}

    return chain({"before": plainly_logging("before"), "ask": ask, "after": plainly_logging("after")}, **options)


def asking_beside(**options):
    """Compile two nodes that ask side by side."""
    builder = StateGraph(Log)
    for name in ("left", "right"):
        builder.add_node(name, lambda state, name=name: {"log": [f"{name}: {interrupt(f'{name}?')}"]})
        builder.add_edge(START, name)
    return builder.compile(**options)


@dataclass
class Point:
    x: int


class Odd(TypedDict, total=False):
    point: Any
    socket: Any


example = chain({"a": logging("a"), "b": plainly_logging("b")})
