"""What a graph would ask models over an item, as far as its inputs tell: for a dry run, which sends nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill.core.errors import GraphmillError, UsageError
from graphmill.core.model_call import Message
from graphmill.core.usage import Usage
from graphmill.graph.inputs import Binding
from graphmill.graph.models.models import Models
from graphmill.graph.models.request import CHARS_PER_TOKEN, USUAL_ANSWER, effective_params, messages_of
from graphmill.graph.models.target import ModelTarget
from graphmill.graph.template import compile_value, text_of

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph, Node

_SHORT_ANSWER = 20
_LONG_ANSWER = 2 * USUAL_ANSWER
_MOST_ROUNDS = 1000


class Range(NamedTuple):
    """An estimate: at least and at most."""

    low: float = 0
    high: float = 0

    def __add__(self, other: object) -> Range:
        if not isinstance(other, Range):
            return NotImplemented
        return Range(self.low + other.low, self.high + other.high)

    def times(self, factor: Range) -> Range:
        """Return it so many times."""
        return Range(self.low * factor.low, self.high * factor.high)


class PlannedCall(NamedTuple):
    """The calls that one node would make over one item.

    ``messages`` are those of the first, or as written where ``is_open``: they depend on earlier answers. ``cost_nano``
    is None where the model has no price.
    """

    path: str
    role: str | None
    model: str
    messages: tuple[Message, ...]
    is_open: bool
    calls: Range
    input_tokens: Range
    output_tokens: Range
    cost_nano: Range | None


def plan_calls(graph: Graph, item: Any) -> list[PlannedCall]:
    """Return what a graph would ask over an item; UsageError if it is not a valid input."""
    models = graph.models()
    if models is None:
        return []
    try:
        names = dict(Binding(graph).bind(item))
    except GraphmillError as error:
        raise UsageError(str(error)) from None
    return list(_plan(graph, models, names, "", Range(1, 1)))


def _plan(graph: Graph, models: Models, names: Mapping[str, Any], prefix: str, times: Range) -> Iterator[PlannedCall]:
    names = dict(names)
    certain = _certain_nodes(graph)
    for node in graph.nodes.values():
        scope, factor = _inside(node, names)
        if node.id not in certain:
            factor = Range(0, factor.high)
        count = times.times(factor)
        if node.child is not None:
            inner = {name: each.default for name, each in node.child.inputs.items() if not each.is_required}
            inner |= _known_inputs(node.raw_params.get("inputs"), scope)
            yield from _plan(node.child, models, inner, f"{prefix}{node.id}/", count)
        elif node.type.asks_model:
            yield _call(node, models, scope, prefix, count)
        elif node.type.name == "value" and node.batch is None and node.loop is None:
            names[node.id] = _known_inputs(node.raw_params, scope)


def _certain_nodes(graph: Graph) -> set[str]:
    """Return the nodes that run for every item: it depends on no branch whether they do."""
    found: set[str] = set()
    ahead = list(graph.starts)
    while ahead:
        node = graph.nodes[ahead.pop()]
        found.add(node.id)
        actions = node.type.actions(node.raw_params)
        if actions is None:  # any: as many as there are edges for
            actions = {edge.action for edge in node.outgoing} - {"error"}
        ahead += [edge.target for edge in node.outgoing if edge.action == "*" or {edge.action} == set(actions)]
    return found


def _inside(node: Node, names: Mapping[str, Any]) -> tuple[Mapping[str, Any], Range]:
    """Return the names inside the first item and round of a node, and how often it would run."""
    scope, factor = dict(names), Range(1, 1)
    if node.batch is not None:
        items = _value(node.batch.items, names)
        if node.batch.is_counted and isinstance(items, int):
            items = range(items)
        if isinstance(items, list | tuple | range):
            factor = Range(len(items), len(items))
            scope |= {node.batch.alias: items[0] if items else None, "__index__": 0}
    if node.loop is not None:
        most = _value(node.loop.max, names)
        factor = Range(factor.low, factor.high * (most if isinstance(most, int) else _MOST_ROUNDS))
        scope |= {node.loop.history: [], "__round__": 1}
    return scope, factor


def _known_inputs(given: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return those inputs of a child that do not depend on what only runs."""
    found = {}
    for name, raw in (given if isinstance(given, Mapping) else {}).items():
        with suppress(LookupError, GraphmillError):
            found[name] = compile_value(raw).resolve(names)
    return found


def _value(compiled: Any, names: Mapping[str, Any]) -> Any:
    try:
        return compiled.resolve(names)
    except (LookupError, GraphmillError):
        return None


def _call(node: Node, models: Models, scope: Mapping[str, Any], prefix: str, count: Range) -> PlannedCall:
    known = _known_inputs(node.raw_params, scope)
    params = {**node.raw_params, **known}
    is_open = len(known) < len(params)
    messages = _messages(params)
    chars = sum(len(message.text) for message in messages)
    if params.get("output_schema") is not None:
        chars += len(text_of(params["output_schema"]))
    read = Range(chars // CHARS_PER_TOKEN, chars // CHARS_PER_TOKEN)
    if is_open or node.loop is not None:
        read = Range(read.low, read.high + USUAL_ANSWER * len(node.params.references))
    if {"model", "role"} & (params.keys() - known.keys()):  # which only an earlier output tells
        model, cost = text_of(params.get("model") or params["role"]), None
        written = _answer_tokens(params.get("max_tokens"))
    else:
        target = models.of(params)
        model = target.lane
        written = _answer_tokens(effective_params(target, params, params.get("defaults")).get("max_tokens"))
        cost = _cost(target, read, written, count)
    return PlannedCall(
        path=f"{prefix}{node.id}",
        role=params.get("role"),
        model=model,
        messages=messages,
        is_open=is_open,
        calls=count,
        input_tokens=read.times(count),
        output_tokens=written.times(count),
        cost_nano=cost,
    )


def _answer_tokens(limit: Any) -> Range:
    most = limit if isinstance(limit, int) else _LONG_ANSWER
    return Range(min(_SHORT_ANSWER, most), most)


def _messages(params: Mapping[str, Any]) -> tuple[Message, ...]:
    try:
        return messages_of(params.get("prompt"), params.get("system"), params.get("messages"))
    except GraphmillError:
        return messages_of(params.get("prompt"), params.get("system"))


def _cost(target: ModelTarget, read: Range, written: Range, count: Range) -> Range | None:
    if target.prices.costs_nothing:
        return Range()
    try:
        rates = target.prices.rates(target.address)
    except KeyError:
        return None
    if rates is None:
        return None
    low, high = (
        rates.cost_nano(Usage(requests=1, input_tokens=int(tokens), output_tokens=int(answer)))
        for tokens, answer in zip(read, written, strict=True)
    )
    return Range(low, high).times(count)
