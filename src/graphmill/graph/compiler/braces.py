"""The pass of braces: a template as other languages write it, which is plain text here, is noted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from graphmill.graph.compiler.templates import texts
from graphmill.graph.compiler.types import Types
from graphmill.graph.problems import Problems
from graphmill.graph.spec import NodeSpec, WorkflowSpec

_BRACES = re.compile(r"\{\{\s*([^\W\d][\w.-]*)\s*\}\}")


def note_braces(spec: WorkflowSpec, types: Types, problems: Problems) -> None:
    """Note each ``{{ name }}`` in a text that may hold templates, where something has that name."""
    roots = {*(each.name for each in spec.inputs), *(node.id for node in spec.nodes)}
    for node in spec.nodes:
        own = roots if node.batch is None else {*roots, node.batch.alias}
        for at, text in texts(_templated(node, types), (*node.at, "params"), "{{"):
            for found in _BRACES.finditer(text):
                if found[1].partition(".")[0] in own:
                    where = problems.document.at_text(at)
                    problems.note(at, f"{where}: {found[0]} is plain text; templates are written ${{{found[1]}}}")


def _templated(node: NodeSpec, types: Types) -> Mapping[str, Any]:
    node_type = types[node.at]
    untemplated = frozenset[str]() if node_type is None else node_type.untemplated
    return {key: entry for key, entry in node.params.items() if key not in untemplated}
