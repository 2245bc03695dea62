"""The pass of names: node ids, inputs, item aliases and histories share one namespace, as one template can reach them all."""

from __future__ import annotations

from collections.abc import Iterator

from graphmill.graph.compiler.telling import tell
from graphmill.graph.problems import Problems
from graphmill.graph.spec import At, NodeSpec, WorkflowSpec
from graphmill.graph.template import is_name

RESERVED = ("round", "__index__", "__round__")


def check_names(spec: WorkflowSpec, problems: Problems) -> None:
    """Refuse names that are taken, or that the language keeps for itself; how a name is written was checked before."""
    taken: dict[str, str] = {}
    for at, name, what in _owned(spec):
        if _is_name(name, at, problems):
            if name in taken:
                tell(
                    problems,
                    at,
                    f"the name {name!r} is already that of {taken[name]}; nodes and inputs have each a name of their own",
                )
            taken.setdefault(name, what)
    for node in spec.nodes:
        _check_borrowed(node, taken, problems)


def _owned(spec: WorkflowSpec) -> Iterator[tuple[At, str, str]]:
    for each in spec.inputs:
        yield each.at, each.name, "an input"
    for node in spec.nodes:
        yield (*node.at, "id"), node.id, "a node"


def _check_borrowed(node: NodeSpec, taken: dict[str, str], problems: Problems) -> None:
    """Refuse an alias or a history that a node or an input has as its name; known in their node only, two nodes may use the same."""
    borrowed = []
    if node.batch is not None:
        borrowed.append(((*node.batch.at, "as"), node.batch.alias, "as"))
    if node.loop is not None:
        borrowed.append(((*node.loop.at, "history"), node.loop.history, "history"))
    for at, name, key in borrowed:
        if _is_name(name, at, problems) and name in taken:
            tell(problems, at, f"the name {name!r} is already that of {taken[name]}; give another with `{key}`")
    if len(borrowed) == 2 and borrowed[0][1] == borrowed[1][1]:
        tell(
            problems,
            borrowed[1][0],
            f"the name {borrowed[1][1]!r} is already that of the batch's item; give another with `history`",
        )


def _is_name(name: str, at: At, problems: Problems) -> bool:
    if name in RESERVED:
        tell(problems, at, f"the language keeps the name {name!r} for itself")
    elif not is_name(name):
        tell(problems, at, f"no template can look up the name {name!r}; choose another")
    else:
        return True
    return False
