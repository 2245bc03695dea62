"""Workflows loaded from a file, from data, or made from one prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import Any

from graphmill.core.errors import UsageError
from graphmill.graph.compiler.compiler import compile_workflow
from graphmill.graph.graph import Graph
from graphmill.graph.language.document import Document
from graphmill.graph.models.answer import schema_of
from graphmill.graph.template import Literal, Placeholder, Reference, TemplateError, parse

_NODE = "answer"
_NOT_IN_NAMES = (" ", '"', "'")
_RENAMED = "; a field of another name, such as 'First name', is renamed in the items first"
_OPENING = re.compile(r"\$+(?=\{)")


def load(path: str | Path) -> Graph:
    """Read a workflow file, YAML or JSON; WorkflowError lists all its mistakes."""
    return compile_workflow(Document.read(path))


def load_data(data: Mapping[str, Any], path: str | None = None) -> Graph:
    """Compile a workflow given as data; ``path`` says what to call it and what its own paths are relative to."""
    graph = compile_workflow(Document.from_data(data, path))
    return replace(graph, written=data) if path is None else graph


def prompt_workflow(prompt: str, *, system: str | None = None, schema: Mapping[str, Any] | None = None) -> Graph:
    """Make the workflow that asks a model this for each item; what its templates name are the item's fields. UsageError names a mistake.

    With a ``schema``, a JSON Schema without templates, the answers are data.
    """
    texts = {"prompt": prompt} | ({} if system is None else {"system": system})
    inputs = dict(entry for param, text in texts.items() for entry in _inputs(param, text))
    node = next(name for name in chain([_NODE], (f"{_NODE}-{number}" for number in count(2))) if name not in inputs)
    params: dict[str, Any] = {**texts}
    if schema is not None:
        schema_of(schema)  # refuses one that can not be used
        params["output_schema"] = _written(schema)
    return load_data(
        {
            "name": "prompt",
            "inputs": inputs,
            "nodes": [{"id": node, "type": "llm", "params": params}],
            "outputs": {"response": f"${{{node}.response}}"},
        }
    )


def _written(value: Any) -> Any:
    """Write data as a workflow has it: what begins a lookup is text, such as in a pattern."""
    if isinstance(value, str):
        return _OPENING.sub(r"\g<0>\g<0>", value)
    if isinstance(value, Mapping):
        return {key: _written(entry) for key, entry in value.items()}
    return [_written(entry) for entry in value] if isinstance(value, list) else value


def _inputs(param: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give what the templates of a text begin with; a literal behind ?? is the default where a field is not there."""
    try:
        found = parse(text)
    except TemplateError as error:
        is_of_name = text[error.position : error.position + 1] in _NOT_IN_NAMES
        raise UsageError(f"{param}: {error}{_RENAMED if is_of_name else ''}") from None
    for lookup in (part for part in found.parts if isinstance(part, Placeholder)):
        last = lookup.alternatives[-1]
        rule = {"default": last.value} if isinstance(last, Literal) else {"required": len(lookup.alternatives) == 1}
        for each in lookup.alternatives:
            if isinstance(each, Reference):
                yield from ((name, rule) for name in _roots(each))


def _roots(reference: Reference) -> Iterator[str]:
    yield reference.root
    for segment in reference.segments:
        for index in segment.indices:
            if isinstance(index, Reference):
                yield from _roots(index)
