"""Workflows loaded: from a file, or from data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphmill.graph.compiler.compiler import compile_workflow
from graphmill.graph.document import Document
from graphmill.graph.graph import Graph


def load(path: str | Path) -> Graph:
    """Read a workflow file, YAML or JSON; WorkflowError lists all its mistakes."""
    return compile_workflow(Document.read(path))


def load_data(data: Mapping[str, Any], path: str | None = None) -> Graph:
    """Compile a workflow given as data; ``path`` says what to call it and what its own paths are relative to."""
    graph = compile_workflow(Document.from_data(data, path))
    return replace(graph, written=data) if path is None else graph
