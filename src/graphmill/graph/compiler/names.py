"""The pass of names: node ids, inputs, item aliases and histories share one namespace, as one template can reach them all."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphmill.graph.problems import Problems
from graphmill.graph.spec import At, NodeSpec, WorkflowSpec

RESERVED = ("round", "__index__", "__round__")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_names(spec: WorkflowSpec, problems: Problems) -> None:
    """Refuse names that are none, that are taken, or that the language keeps for itself."""
    taken: dict[str, str] = {}
    for at, name, what in _owned(spec):
        if _is_name(name, at, what=what, problems=problems):
            if name in taken:
                problems.add(at, f"{what} {name!r}: {taken[name]} has this name already; names of nodes and inputs stand once")
            taken.setdefault(name, f"{_article(what)} {what}")
    for node in spec.nodes:
        _check_borrowed(node, taken, problems)


def _owned(spec: WorkflowSpec) -> Iterator[tuple[At, str, str]]:
    for each in spec.inputs:
        yield each.at, each.name, "input"
    for node in spec.nodes:
        yield (*node.at, "id"), node.id, "node"


def _check_borrowed(node: NodeSpec, taken: dict[str, str], problems: Problems) -> None:
    """An alias and a history are known in their node only: two nodes may use the same, but not that of a node or an input."""
    borrowed = []
    if node.batch is not None:
        borrowed.append(((*node.batch.at, "as"), node.batch.alias, "as"))
    if node.loop is not None:
        borrowed.append(((*node.loop.at, "history"), node.loop.history, "history"))
    for at, name, key in borrowed:
        what = "item alias" if key == "as" else "history"
        if not _is_name(name, at, what=what, problems=problems):
            continue
        if key == "as" and not _IDENTIFIER.fullmatch(name):
            problems.add(at, f"item alias {name!r}: it has letters, digits and _, no -")
        elif name in taken:
            problems.add(at, f"{what} {name!r}: {taken[name]} has this name already; give another with `{key}`")
    if len(borrowed) == 2 and borrowed[0][1] == borrowed[1][1]:
        problems.add(borrowed[1][0], f"history {borrowed[1][1]!r}: the item alias has this name already; give another with `history`")


def _is_name(name: str, at: At, *, what: str, problems: Problems) -> bool:
    if name in RESERVED:
        problems.add(at, f"{what} {name!r}: the language keeps this name for itself")
    elif not _NAME.fullmatch(name):
        problems.add(at, f"{what} {name!r}: a name has letters, digits, _ and -, and begins with a letter or _")
    else:
        return True
    return False


def _article(what: str) -> str:
    return "an" if what[0] in "aeiou" else "a"
