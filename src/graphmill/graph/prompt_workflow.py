"""The workflow of one prompt: what a person means who writes no file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count
from typing import Any

from graphmill.core.errors import UsageError
from graphmill.graph.graph import Graph
from graphmill.graph.template import Literal, Lookup, Reference, TemplateError, parse
from graphmill.graph.workflow import load_data

_NODE = "answer"


def prompt_workflow(prompt: str, *, system: str | None = None) -> Graph:
    """Make the workflow that asks a model this for each item; what its templates name are the item's fields. UsageError names a mistake."""
    inputs = dict(entry for text in (prompt, system or "") for entry in _inputs(text))
    node = next(name for name in chain([_NODE], (f"{_NODE}-{number}" for number in count(2))) if name not in inputs)
    params: dict[str, Any] = {"prompt": prompt} | ({} if system is None else {"system": system})
    return load_data(
        {
            "name": "prompt",
            "inputs": inputs,
            "nodes": [{"id": node, "type": "llm", "params": params}],
            "outputs": {"response": f"${{{node}.response}}"},
        }
    )


def _inputs(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give what the templates of a text begin with; a literal behind ?? is the default where a field is not there."""
    try:
        found = parse(text)
    except TemplateError as error:
        raise UsageError(f"--prompt: {error}") from None
    for lookup in (part for part in found.parts if isinstance(part, Lookup)):
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
