"""The nodes of a graph that ask models: what they ask is checked before the first item, and counts among what a node is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from graphmill.core.errors import Unavailable, UsageError
from graphmill.core.fingerprint import value_fingerprint
from graphmill.core.suggest import suggestion
from graphmill.graph.models.models import Choices, Models
from graphmill.graph.models.target import ModelTarget
from graphmill.graph.node_params import is_open

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph, Node


def require_models(graph: Graph) -> None:
    """Refuse, before anything runs, a graph of which a node has no model, or one that can not be asked; UsageError names the remedy."""
    models = graph.models()
    if models is None:
        return
    graph.renew()
    for node in graph.model_nodes():
        if _is_known(node):
            target = _of(models, node)
            if lacking := target.lacking():
                raise UsageError(
                    f"node {node.id!r} asks {target.lane}, and the environment has no {', '.join(lacking)}; set it first"
                )
            _require_address(node, target)


def _require_address(node: Node, target: ModelTarget) -> None:
    """Refuse an address that is none, or of which a provider that can tell beforehand, as few can, says that something is wrong."""
    require = getattr(target.provider, "require", None)
    try:
        target.require_address()
        if require is not None:
            require(target.address)
    except Unavailable as error:
        raise UsageError(f"node {node.id!r} asks {target.lane}: {error}") from None


def asked_models(graph: Graph) -> tuple[str, ...]:
    """Name the models that a graph asks, as far as that is known before it has items; UsageError where a node has none."""
    models = graph.models()
    return (
        ()
        if models is None
        else tuple(dict.fromkeys(_of(models, node).lane for node in graph.model_nodes() if _is_known(node)))
    )


def unset_models(graph: Graph) -> tuple[str, ...]:
    """Tell of each node that has no model yet, and what to do about it."""
    try:
        models = graph.models()
    except UsageError as error:  # the settings can not be read
        return (str(error),)
    told = []
    for node in () if models is None else graph.model_nodes():
        try:
            if models is not None and _is_known(node):
                _of(models, node)
        except UsageError as error:
            told.append(str(error))
    return tuple(told)


def models_by_node(graph: Graph) -> dict[str, str]:
    """Name what each node asks, itself or in its child, as far as that is known before there are items."""
    models = graph.models()
    if models is None:
        return {}
    asking = {node: [each for each in nodes_within(node) if _is_known(each)] for node in graph.nodes.values()}
    named = {
        f"node {node.id!r}": dict.fromkeys(_of(models, each).lane for each in within)
        for node, within in asking.items()
        if within
    }
    return {part: ", ".join(lanes) for part, lanes in named.items()}


def require_use(graph: Graph, choices: Choices) -> None:
    """Refuse choices that would change nothing."""
    nodes = list(graph.model_nodes())
    if not nodes and choices.to_json():
        raise UsageError(
            f"workflow {graph.name!r} asks no model: there is nothing to choose one, its params or its cache for"
        )
    roles = [node.raw_params["role"] for node in nodes if isinstance(node.raw_params.get("role"), str)]
    if any(is_open(role) for role in roles):
        return
    for role in choices.roles:
        if role not in roles:
            there = ", ".join(sorted(set(roles))) or "none"
            raise UsageError(
                f"workflow {graph.name!r} has no node of the role {role!r}{suggestion(role, roles)}; its roles are {there}"
            )


def model_marks(graph: Graph) -> dict[str, str]:
    """Give the fingerprint of each node that asks models, itself or in its child, with what their names and roles have come to."""
    models = graph.models()
    if models is None:
        return {}
    asking = {node: list(nodes_within(node)) for node in graph.nodes.values()}
    return {
        f"node {node.id!r}": value_fingerprint([node.fingerprint, [_asked(models, each) for each in within]])
        for node, within in asking.items()
        if within
    }


def nodes_within(node: Node) -> Iterator[Node]:
    """Give a node if it asks a model, and those of its child that do."""
    if node.type.asks_model:
        yield node
    for below in () if node.child is None else node.child.nodes.values():
        yield from nodes_within(below)


def _asked(models: Models, node: Node) -> list[Any]:
    """Tell what a node asks; where only its items know which model that is, what is chosen for the run."""
    return [node.id, _of(models, node).fingerprint if _is_known(node) else models.choices.fingerprint]


def _is_known(node: Node) -> bool:
    return not is_open(node.raw_params.get("model")) and not is_open(node.raw_params.get("role"))


def _of(models: Models, node: Node) -> ModelTarget:
    try:
        return models.of(node.raw_params)
    except UsageError as error:
        raise UsageError(f"node {node.id!r}: {error}") from None
