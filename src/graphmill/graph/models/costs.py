"""What is known of a graph's costs before it runs: models without a price, and limits that could not be kept to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from graphmill.core.errors import Permanent, UsageError
from graphmill.core.model_call import Image, Message, ModelRequest
from graphmill.graph.models.bounds import most_cost_nano, price_remedy
from graphmill.graph.models.models import Models
from graphmill.graph.models.nodes import is_known, known_targets, nodes_within, target_of
from graphmill.graph.models.request import effective_params
from graphmill.graph.models.target import ModelTarget

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph, Node


def price_notes(graph: Graph) -> tuple[str, ...]:
    """Say which models have no price, if any."""
    lanes = list(dict.fromkeys(target.lane for _, target in known_targets(graph) if not is_priced(target)))
    if not lanes:
        return ()
    return (f"no price is known for {', '.join(lanes)}: requests are counted, not priced; {price_remedy(lanes)}",)


def unpriced_budgets(graph: Graph) -> list[str]:
    """Say which loops have a budget that cannot be kept to, since their models have no price."""
    try:
        models = graph.models()
    except UsageError:  # the settings cannot be read, which is reported elsewhere
        return []
    if models is None:
        return []
    inputs = {name: graph.given.get(name, each.default) for name, each in graph.inputs.items()}
    return list(_loops_without_price(graph, models, inputs))


def unbounded_calls(graph: Graph) -> list[str]:
    """Say which nodes make calls that may cost any amount, which a budget does not allow."""
    return list(dict.fromkeys(filter(None, (_unbounded(node, target) for node, target in known_targets(graph)))))


def _unbounded(node: Node, target: ModelTarget) -> str:
    """Bound the call as far as it is known: a param that is a template passes here, and is checked with each item."""
    params = effective_params(target, node.raw_params, node.raw_params.get("defaults"))
    urls = [Image(url=each) for each in params.get("images", ()) if str(each).startswith(("http://", "https://"))]
    request = ModelRequest(model=target.model, messages=(Message("user", tuple(urls)),))
    if isinstance(params.get("extra"), Mapping):
        request = msgspec.structs.replace(request, extra=params["extra"])
    if "max_tokens" in params:
        limit = params["max_tokens"]
        request = msgspec.structs.replace(request, max_tokens=1 if isinstance(limit, str) else limit)
    try:
        most_cost_nano(target, request, target.address)
    except Permanent as error:
        return f"node {node.id!r}: {error}"
    except KeyError:  # a dry run need not know the address
        return ""
    return ""


def _loops_without_price(graph: Graph, models: Models, inputs: Mapping[str, Any]) -> Iterator[str]:
    for node in graph.nodes.values():
        if _has_budget(node, inputs):
            lanes = list(dict.fromkeys(_unpriced(models, [each for each in nodes_within(node) if is_known(each)])))
            if lanes:
                yield (
                    f"node {node.id!r}: loop.budget_usd needs prices, and none is known for {', '.join(lanes)}; "
                    f"{price_remedy(lanes)}, or leave the budget out"
                )
        if node.child is not None:
            yield from _loops_without_price(node.child, models, {})


def _has_budget(node: Node, inputs: Mapping[str, Any]) -> bool:
    """Whether a node's loop has a budget, as far as that is known before there are items."""
    if node.loop is None:
        return False
    try:
        return node.loop.budget_usd.resolve(inputs) is not None
    except Permanent:  # it depends on what only a job knows
        return False


def _unpriced(models: Models, nodes: list[Node]) -> Iterator[str]:
    for node in nodes:
        try:
            target = target_of(models, node)
        except UsageError:  # it has no model, which is reported elsewhere
            continue
        if not is_priced(target):
            yield target.lane


def is_priced(target: ModelTarget) -> bool:
    """Whether the calls of a model have a price; True where its address is not known yet."""
    try:
        return target.prices.is_known(target.address)
    except KeyError:
        return True
