"""The pass of children: the workflows that ``workflow`` nodes run are found, compiled, and given the inputs that they ask for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphmill.core.errors import UsageError
from graphmill.graph.compiler.inputs import make_inputs
from graphmill.graph.compiler.library import Child, Library
from graphmill.graph.compiler.telling import listed, nearest, tell
from graphmill.graph.compiler.templates import texts
from graphmill.graph.compiler.types import Types
from graphmill.graph.document import Document
from graphmill.graph.node_type import NodeType
from graphmill.graph.problems import Problems
from graphmill.graph.secrets import mark_secrets
from graphmill.graph.spec import At, NodeSpec, WorkflowSpec

Children = Mapping[At, Child]
WORKFLOW = "workflow"
_SUFFIXES = (".yaml", ".yml", ".json")


def compile_children(spec: WorkflowSpec, types: Types, library: Library, problems: Problems) -> Children:
    """Compile each node's child; give those that could be read."""
    found: dict[At, Child] = {}
    for node in spec.nodes:
        if (
            child := _child(node, spec.document, library, problems) if _is_workflow(types[node.at]) else None
        ) is not None:
            found[node.at] = child
            _check_inputs(node, child.spec, problems)
    return found


def _is_workflow(node_type: NodeType[Any] | None) -> bool:
    return node_type is not None and node_type.name == WORKFLOW


def _child(node: NodeSpec, document: Document, library: Library, problems: Problems) -> Child | None:
    at = (*node.at, "params", "workflow")
    written = node.params.get("workflow")
    if isinstance(written, Mapping):
        return library.inside(document, at, problems)
    if not isinstance(written, str) or not written:
        return None  # the type's params say what is wanted
    try:
        return _file(_path(written, document), library)
    except UsageError as error:
        tell(problems, at, str(error))
        return None


def _file(path: Path, library: Library) -> Child | None:
    if (chain := library.chain_to(path)) is not None:
        raise UsageError(
            f"a workflow can not run itself: {chain}; what is to be repeated is a node with a `loop` block"
        )
    return library.file(path)


def _path(written: str, document: Document) -> Path:
    """Take a text with a slash or a known ending as a path, any other as the name of a file beside this one."""
    folder = Path(document.path).parent if document.root is not None else Path()
    if "/" in written or Path(written).suffix.lower() in _SUFFIXES:
        return folder / written
    there = (folder / f"{written}{suffix}" for suffix in _SUFFIXES)
    return next((path for path in there if _is_file(path)), folder / f"{written}{_SUFFIXES[0]}")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, a folder that is closed: to read it will tell
        return False


def _check_inputs(node: NodeSpec, child: WorkflowSpec, problems: Problems) -> None:
    given = node.params.get("inputs") or {}
    if not isinstance(given, Mapping):
        return  # a template: known when it is resolved
    at = (*node.at, "params", "inputs")
    inputs = make_inputs(child)
    for name, value in given.items():
        if name not in inputs:
            has = list(inputs)
            tell(
                problems, (*at, name), f"the child has no input {name!r}{nearest(str(name), has)}; it has {listed(has)}"
            )
        elif _is_literal(value, at) and (problem := inputs[name].problem(value)):
            tell(problems, (*at, name), problem)
    for each in inputs.values():
        if each.is_required and each.name not in given:
            tell(problems, at, f"the child requires the input {each.name!r}")


def _is_literal(value: Any, at: At) -> bool:
    return next(texts(value, at), None) is None and mark_secrets(value) is value
