"""The compiler: the list of passes that make a graph of a workflow, or tell all that is wrong with it."""

from __future__ import annotations

from dataclasses import replace

from graphmill.core.errors import InternalError
from graphmill.graph.compiler.actions import check_actions
from graphmill.graph.compiler.braces import note_braces
from graphmill.graph.compiler.build import build_graph
from graphmill.graph.compiler.children import compile_children
from graphmill.graph.compiler.library import Child, Library
from graphmill.graph.compiler.names import check_names
from graphmill.graph.compiler.order import find_order
from graphmill.graph.compiler.references import check_references
from graphmill.graph.compiler.results import check_results
from graphmill.graph.compiler.templates import compile_values
from graphmill.graph.compiler.types import find_types
from graphmill.graph.document import Document
from graphmill.graph.graph import Graph
from graphmill.graph.problems import Problems
from graphmill.graph.spec import At
from graphmill.graph.spec_reader import read_spec


def compile_workflow(document: Document) -> Graph:
    """Compile a workflow with all its children; WorkflowError lists the problems of all of them."""
    library = Library(_compile)
    compiled = library.document(document)
    problems = library.gathered()
    problems.raise_if_any()
    if compiled is None or compiled.graph is None:
        raise InternalError(f"{document.path} gave neither a graph nor a problem")
    return replace(compiled.graph, notes=tuple(problems.notes))


def _compile(document: Document, at: At, problems: Problems, library: Library) -> Child | None:
    spec = read_spec(document, at, problems=problems)
    if spec is None:
        return None
    check_names(spec, problems)
    types = find_types(spec, problems)
    children = compile_children(spec, types, library, problems)
    check_results(spec, types, children, problems)
    values = compile_values(spec, types, problems)
    note_braces(spec, types, problems)
    order = find_order(spec, problems)
    check_actions(spec, types, problems)
    known = (types, order, children)
    check_references(spec, values, known, problems)
    if not spec.is_whole:
        return None
    return Child(spec, None if library.has_problems else build_graph(spec, values, known))
