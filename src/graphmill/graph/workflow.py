"""Loads workflows: from a file, from data, or made from one prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any

from graphmill.core.errors import UsageError
from graphmill.core.suggest import suggestion
from graphmill.graph.compiler.compiler import compile_workflow
from graphmill.graph.graph import Graph
from graphmill.graph.language.document import Document
from graphmill.graph.models.answer import schema_of
from graphmill.graph.registry import installed_workflow, workflow_registry
from graphmill.graph.template import Literal, Placeholder, Reference, TemplateError, parse

_NODE = "answer"
_NOT_IN_NAMES = (" ", '"', "'")
_RENAMED = "; give such a field another name, as in --map 'name=First name'"
_OPENING = re.compile(r"\$+(?=\{)")


def load(path: str | Path) -> Graph:
    """Read a workflow, YAML or JSON, by its file or installed name; WorkflowError lists all its problems."""
    return compile_workflow(Document.read(workflow_file(path)))


def workflow_file(name: str | Path) -> str | Path:
    """Return the file of an installed workflow, unless there is a file of this path; any other path as it is."""
    if isinstance(name, Path) or Path(name).name != name or Path(name).suffix or _is_file(name):
        return name
    installed = installed_workflow(name)
    if installed is None and (near := suggestion(name, workflow_registry().names)):
        raise UsageError(f"no workflow file {name!r}{near}")
    return installed or name


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # such as a name that is too long: reading it reports that
        return True


def load_data(data: Mapping[str, Any], path: str | None = None) -> Graph:
    """Compile a workflow given as data; ``path`` is its name, and its own paths are relative to it."""
    graph = compile_workflow(Document.from_data(data, path))
    return replace(graph, written=data) if path is None else graph


def prompt_workflow(prompt: str, *, system: str | None = None, schema: Mapping[str, Any] | None = None) -> Graph:
    """Make a workflow that sends a prompt for each item; templates name its fields. UsageError for a mistake.

    With a ``schema``, a JSON Schema without templates, the answers are data.
    """
    texts = {"prompt": prompt}
    if system is not None:
        texts["system"] = system
    inputs = dict(entry for param, text in texts.items() for entry in _inputs(param, text))
    node = next(name for name in chain([_NODE], (f"{_NODE}-{number}" for number in count(2))) if name not in inputs)
    params: dict[str, Any] = {**texts}
    if schema is not None:
        schema_of(schema)  # raises if it is not valid
        params["output_schema"] = _escape(schema)
    return load_data(
        {
            "name": "prompt",
            "inputs": inputs,
            "nodes": [{"id": node, "type": "llm", "params": params}],
            "outputs": {"response": f"${{{node}.response}}"},
        }
    )


def _escape(value: Any) -> Any:
    """Escape ``${`` in data, such as in a pattern."""
    if isinstance(value, str):
        return _OPENING.sub(r"\g<0>\g<0>", value)
    if isinstance(value, Mapping):
        return {key: _escape(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_escape(entry) for entry in value]
    return value


def _inputs(param: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names that templates of a text start with; a literal after ?? is the default of a missing field."""
    try:
        found = parse(text)
    except TemplateError as error:
        is_in_name = text[error.position : error.position + 1] in _NOT_IN_NAMES
        hint = _RENAMED if is_in_name else ""
        raise UsageError(f"{param}: {error}{hint}") from None
    for placeholder in (part for part in found.parts if isinstance(part, Placeholder)):
        last = placeholder.alternatives[-1]
        rule: dict[str, Any] = {"required": len(placeholder.alternatives) == 1}
        if isinstance(last, Literal):
            rule = {"default": last.value}
        for each in placeholder.alternatives:
            if isinstance(each, Reference):
                yield from ((name, rule) for name in _roots(each))


def _roots(reference: Reference) -> Iterator[str]:
    yield reference.root
    for segment in reference.segments:
        for index in segment.indices:
            if isinstance(index, Reference):
                yield from _roots(index)
