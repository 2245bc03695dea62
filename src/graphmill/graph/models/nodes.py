"""The nodes of a graph that call models: checked before the first item, and part of a graph's fingerprints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from graphmill.core.errors import Unavailable, UsageError
from graphmill.core.fingerprint import value_fingerprint
from graphmill.core.suggest import suggestion
from graphmill.graph.models.models import DEFAULT, Choices, Models
from graphmill.graph.models.target import ModelTarget, missing_variables
from graphmill.graph.node_params import is_open

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph, Node


def require_models(graph: Graph) -> None:
    """Raise UsageError, before anything runs, for a node without a model or with one that cannot be called."""
    graph.renew()
    for node, target in known_targets(graph):
        if lacking := target.lacking():
            raise UsageError(f"node {node.id!r} calls {target.lane}: {missing_variables(lacking)}")
        _require_address(node, target)


def known_targets(graph: Graph) -> Iterator[tuple[Node, ModelTarget]]:
    """Yield each node whose model is known before there are items, and what it calls; UsageError if it has none."""
    models = graph.models()
    if models is None:
        return
    for node in graph.model_nodes():
        if is_known(node):
            yield node, target_of(models, node)


def _require_address(node: Node, target: ModelTarget) -> None:
    """Raise UsageError for an invalid address, or one that its provider rejects beforehand, as few can."""
    require = getattr(target.provider, "require", None)
    try:
        target.require_address()
        if require is not None:
            require(target.address, target.model)
    except Unavailable as error:
        raise UsageError(f"node {node.id!r} calls {target.lane}: {error}") from None


def models_used(graph: Graph) -> tuple[str, ...]:
    """Return the models that a graph calls, if known before there are items; UsageError if a node has none."""
    return tuple(dict.fromkeys(target.lane for _, target in known_targets(graph)))


def models_resolved(graph: Graph) -> dict[str, dict[str, Any]]:
    """Return what each role and model name of the nodes means, with params, as far as known before items."""
    resolved: dict[str, dict[str, Any]] = {}
    for node, target in known_targets(graph):
        name = node.raw_params.get("role") or node.raw_params.get("model") or DEFAULT
        resolved[name] = {"model": target.lane, "params": {**target.defaults, **target.chosen}}
    return resolved


def unset_models(graph: Graph) -> tuple[str, ...]:
    """Say for each node without a model what to do about it."""
    try:
        models = graph.models()
    except UsageError as error:  # the settings cannot be read
        return (str(error),)
    if models is None:
        return ()
    problems = []
    for node in graph.model_nodes():
        try:
            if is_known(node):
                target_of(models, node)
        except UsageError as error:
            problems.append(str(error))
    return tuple(problems)


def models_by_node(graph: Graph) -> dict[str, str]:
    """Return the models that each node or its child calls, if known before there are items."""
    models = graph.models()
    if models is None:
        return {}
    asking = {node: [each for each in nodes_within(node) if is_known(each)] for node in graph.nodes.values()}
    named = {
        f"node {node.id!r}": dict.fromkeys(target_of(models, each).lane for each in within)
        for node, within in asking.items()
        if within
    }
    return {part: ", ".join(lanes) for part, lanes in named.items()}


def require_use(graph: Graph, choices: Choices) -> None:
    """Raise UsageError for choices that would change nothing."""
    nodes = list(graph.model_nodes())
    if not nodes and choices.to_json():
        raise UsageError(
            f"workflow {graph.name!r} calls no model; remove the options that choose models, params or the cache"
        )
    roles = [node.raw_params["role"] for node in nodes if isinstance(node.raw_params.get("role"), str)]
    if any(is_open(role) for role in roles):
        return
    for role in choices.roles:
        if role not in roles:
            known = ", ".join(sorted(set(roles))) or "none"
            near = suggestion(role, roles)
            raise UsageError(f"workflow {graph.name!r} has no node of the role {role!r}{near}; its roles: {known}")


def model_marks(graph: Graph) -> dict[str, str]:
    """Return the fingerprint of each node that calls models, itself or in its child, with the models it leads to."""
    models = graph.models()
    if models is None:
        return {}
    asking = {node: list(nodes_within(node)) for node in graph.nodes.values()}
    return {
        f"node {node.id!r}": value_fingerprint(
            [node.fingerprint, [_model_fingerprint(models, each) for each in within]]
        )
        for node, within in asking.items()
        if within
    }


def nodes_within(node: Node) -> Iterator[Node]:
    """Yield the node if it calls a model, and those nodes of its child that do."""
    if node.type.asks_model:
        yield node
    if node.child is not None:
        for below in node.child.nodes.values():
            yield from nodes_within(below)


def _model_fingerprint(models: Models, node: Node) -> list[Any]:
    """Return what decides a node's model; if its items choose it, only what is chosen for the run."""
    if is_known(node):
        return [node.id, target_of(models, node).fingerprint]
    return [node.id, models.choices.fingerprint]


def is_known(node: Node) -> bool:
    """Whether a node's model is known before there are items."""
    return not is_open(node.raw_params.get("model")) and not is_open(node.raw_params.get("role"))


def target_of(models: Models, node: Node) -> ModelTarget:
    """Return what a node calls; UsageError names the node."""
    try:
        return models.of(node.raw_params)
    except UsageError as error:
        raise UsageError(f"node {node.id!r}: {error}") from None
