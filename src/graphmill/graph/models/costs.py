"""What is known of a graph's costs before it runs: models without a price, and limits that could not be kept to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from graphmill.core.errors import Permanent, UsageError
from graphmill.core.model_call import Image
from graphmill.graph.models.bounds import no_bound, unbounded_part
from graphmill.graph.models.models import Models
from graphmill.graph.models.nodes import is_known, nodes_within, target_of
from graphmill.graph.models.settings import FILE_NAME
from graphmill.graph.models.target import ModelTarget

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph, Node


def price_remedy(lanes: Iterator[str] | list[str]) -> str:
    """Say how to give models a price."""
    entries = ", ".join(f"{lane}: {{input: …, output: …}}" for lane in lanes)
    return f"write prices: {{{entries}}} in {FILE_NAME}, in US dollars for a million tokens"


def unpriced_models(graph: Graph) -> list[str]:
    """Return the models that a graph calls and whose price is unknown."""
    models = graph.models()
    if models is None:
        return []
    nodes = [node for node in graph.model_nodes() if is_known(node)]
    return list(dict.fromkeys(_unpriced(models, nodes)))


def price_notes(graph: Graph) -> tuple[str, ...]:
    """Say which models have no price, if any."""
    lanes = unpriced_models(graph)
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
    models = graph.models()
    if models is None:
        return []
    found = [_unbounded(node, target_of(models, node)) for node in graph.model_nodes() if is_known(node)]
    return list(dict.fromkeys(filter(None, found)))


def _unbounded(node: Node, target: ModelTarget) -> str:
    own = {name: value for name, value in node.raw_params.items() if value is not None}
    fallback = own.get("defaults")
    params = {**(fallback if isinstance(fallback, Mapping) else {}), **target.defaults, **own, **target.chosen}
    if params.get("images") or params.get("extra"):
        images = [Image(url=each) for each in params.get("images") or () if _is_url(each)]
        extra = params.get("extra")
        if problem := unbounded_part(extra if isinstance(extra, Mapping) else {}, images):
            return f"node {node.id!r}: {problem}"
    limit = params.get("max_tokens")
    try:
        address = target.address
    except KeyError:
        return ""
    if target.prices.most_nano(address, 1, 1 if limit is not None else None) is None:
        return f"node {node.id!r} calls {target.lane}, and what that may cost is not known: {no_bound(target, address)}"
    return ""


def _is_url(image: Any) -> bool:
    return isinstance(image, str) and image.startswith(("http://", "https://"))


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
