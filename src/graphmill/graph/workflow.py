"""Workflow files: read, checked whole, made into a graph."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from graphmill.core.errors import UsageError, WorkflowError
from graphmill.core.json_text import from_json
from graphmill.core.names import file_suggestion, suggestion
from graphmill.core.yaml_data import from_yaml
from graphmill.graph.graph import Graph, Node
from graphmill.graph.lookup import malformed, references
from graphmill.graph.node import find_node_type, key_problems

_NAME = re.compile(r"[A-Za-z_][\w-]*")


def load(path: str | Path) -> Graph:
    """Read a workflow file, YAML or JSON; WorkflowError lists all its mistakes."""
    try:
        text = Path(path).read_bytes()
    except FileNotFoundError:
        raise UsageError(f"there is no workflow file {str(path)!r}{file_suggestion(Path(path))}") from None
    except OSError as error:
        raise UsageError(f"can not read the workflow file {str(path)!r}: {error.strerror}") from error
    try:
        # YAML is not quite a superset of JSON: it has no surrogate pairs, as in "\ud83d\ude00".
        data = from_json(text, unique_keys=True) if Path(path).suffix.lower() == ".json" else from_yaml(text)
    except ValueError as error:
        raise WorkflowError(str(path), [str(error)]) from error
    return _Compiler(str(path), data).graph()


class _Compiler:
    """Gathers every mistake before it gives up."""

    def __init__(self, path: str, data: Any) -> None:
        self._path = path
        self._data = data
        self._problems: list[str] = []
        self._names: set[str] = set()

    def graph(self) -> Graph:
        if not isinstance(self._data, Mapping):
            raise WorkflowError(self._path, [f"a workflow is a mapping with a list of nodes, not {type(self._data).__name__}"])
        self._check(self._data, "workflow", known=("name", "inputs", "nodes", "outputs"), required=("nodes",))
        inputs, required = self._inputs(self._data.get("inputs") or {})
        nodes = tuple(self._nodes(self._data.get("nodes")))
        outputs = self._data.get("outputs")
        if outputs is not None and not isinstance(outputs, Mapping):
            self._problems.append("outputs: a mapping from names to values is wanted")
        self._check_references("outputs", outputs)
        if self._problems:
            raise WorkflowError(self._path, self._problems)
        name = str(self._data.get("name") or Path(self._path).stem)
        return Graph(
            name=name, inputs=inputs, required=required, nodes=nodes, outputs=outputs, given={}, path=str(Path(self._path).absolute())
        )

    def _inputs(self, inputs: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
        if not isinstance(inputs, Mapping):
            self._problems.append("inputs: a mapping from names to {required: true} or {default: …} is wanted")
            return {}, ()
        defaults: dict[str, Any] = {}
        required: list[str] = []
        for name, rule in inputs.items():
            self._claim(name, f"input {name!r}")
            if not isinstance(rule, Mapping):
                self._problems.append(f"input {name!r}: {{required: true}} or {{default: …}} is wanted")
                continue
            self._check(rule, f"input {name!r}", known=("required", "default"))
            if type(rule.get("required", False)) is not bool:
                self._problems.append(f"input {name!r}: required is true or false, not {rule['required']!r:.80}")
            if "default" in rule:
                defaults[name] = rule["default"]
            elif rule.get("required") is True:
                required.append(name)
            else:
                defaults[name] = None
        return defaults, tuple(required)

    def _nodes(self, nodes: Any) -> Iterator[Node]:
        if not isinstance(nodes, list) or not nodes:
            if nodes is not None:
                self._problems.append("nodes: a list of at least one node is wanted")
            return
        for index, entry in enumerate(nodes):
            node_id = entry.get("id") if isinstance(entry, Mapping) else None
            place = f"node {node_id!r}" if node_id is not None else f"node {index + 1} in the list"
            if not isinstance(entry, Mapping):
                self._problems.append(f"{place}: a mapping with id, type and params is wanted")
                continue
            yield from self._node(entry, place)
            self._claim(node_id, place)

    def _node(self, entry: Mapping[str, Any], place: str) -> Iterator[Node]:
        self._check(entry, place, known=("id", "type", "params"), required=("id", "type"))
        params = {} if entry.get("params") is None else entry["params"]
        if not isinstance(params, Mapping):
            self._problems.append(f"{place}: params is a mapping, not {type(params).__name__}")
            return
        self._check_references(place, params)
        if entry.get("type") is None:
            return
        try:
            step = find_node_type(entry["type"]).prepare(params)
        except ValueError as error:
            self._problems.append(f"{place}: {error}")
        else:
            yield Node(str(entry.get("id")), entry["type"], params, step)

    def _claim(self, name: Any, place: str) -> None:
        """One namespace holds inputs and nodes; each name stands once."""
        if name is None:
            return
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            self._problems.append(f"{place}: a name has letters, digits, _ and -, and begins with a letter or _")
        elif name in self._names:
            self._problems.append(f"{place}: the name {name!r} is already taken")
        else:
            self._names.add(name)

    def _check_references(self, place: str, value: Any) -> None:
        for text in malformed(value):
            self._problems.append(f"{place}: {text!r:.80} holds a ${{ that is no lookup; write ${{name}} or ${{name.field}}")
        for name in sorted(references(value) - self._names):
            known = ", ".join(sorted(self._names)) or "nothing"
            self._problems.append(f"{place}: ${{{name}}} is not known here{suggestion(name, self._names)}; known are {known}")

    def _check(self, found: Mapping[str, Any], place: str, *, known: tuple[str, ...], required: tuple[str, ...] = ()) -> None:
        self._problems.extend(f"{place}: {problem}" for problem in key_problems(found, known=known, required=required))
