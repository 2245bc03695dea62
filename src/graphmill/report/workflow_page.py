"""The result of checking a workflow file: problems and notes with their positions, or what the workflow has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from graphmill.core.errors import UsageError, WorkflowError
from graphmill.core.positions import FileProblem
from graphmill.graph.graph import Graph
from graphmill.graph.models.costs import unpriced_budgets
from graphmill.graph.models.nodes import unset_models
from graphmill.graph.workflow import load


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFile:
    """One workflow file: its graph, or all its problems. ``unset`` are models that no setting defines."""

    path: str
    graph: Graph | None = None
    problems: tuple[FileProblem, ...] = ()
    unset: tuple[FileProblem, ...] = ()

    @property
    def notes(self) -> tuple[FileProblem, ...]:
        """What is worth knowing but not wrong."""
        if self.graph is None:
            return ()
        return (*self.graph.notes, *self.unset)


def check(path: str) -> CheckedFile:
    """Compile a file and collect what is wrong with it."""
    try:
        graph = load(path)
        unset = tuple(FileProblem(path, 0, 0, text) for text in unset_models(graph))
        problems = tuple(FileProblem(path, 0, 0, text) for text in unpriced_budgets(graph))
    except WorkflowError as error:
        problems = error.placed or tuple(FileProblem(error.path, 0, 0, text) for text in error.problems)
        return CheckedFile(path=path, problems=problems)
    except UsageError as error:  # the file does not exist or cannot be read
        return CheckedFile(path=path, problems=(FileProblem(path, 0, 0, str(error)),))
    return CheckedFile(path=path, problems=problems, graph=None if problems else graph, unset=unset)


def checked_lines(checked: CheckedFile) -> Iterator[str]:
    """Show problems and notes as file:line:column, which editors turn into links, then what the workflow has."""
    yield from map(str, checked.problems)
    for note in checked.notes:
        yield str(FileProblem(note.file, note.line, note.column, f"note: {note.message}"))
    if checked.graph is not None:
        yield f"{checked.path}: {_graph_text(checked.graph)}"


def checked_record(checked: CheckedFile) -> dict[str, Any]:
    """Return the same as data; docs/cli.md describes the fields."""
    graph = checked.graph
    record: dict[str, Any] = {
        "path": checked.path,
        "is_valid": graph is not None,
        "name": None,
        "nodes": None,
        "inputs": None,
        "outputs": None,
        "problems": [asdict(problem) for problem in checked.problems],
        "notes": [asdict(note) for note in checked.notes],
    }
    if graph is not None:
        record["name"] = graph.name
        record["nodes"] = [{"id": node.id, "type": node.type.name} for node in graph.nodes.values()]
        record["inputs"] = [_input_record(graph, name) for name in graph.inputs]
        record["outputs"] = _outputs(graph)
    return record


def _graph_text(graph: Graph) -> str:
    inputs = [name if each.is_required else f"{name}?" for name, each in graph.inputs.items()]
    outputs = _outputs(graph)
    parts = (
        f"workflow {graph.name!r}",
        f"nodes {', '.join(graph.nodes)}",
        f"inputs {_listed(inputs)}",
        "outputs of the last node" if outputs is None else f"outputs {_listed(outputs)}",
    )
    return " · ".join(parts)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _outputs(graph: Graph) -> list[str] | None:
    if graph.outputs is None:
        return None
    return list(graph.outputs)


def _input_record(graph: Graph, name: str) -> dict[str, Any]:
    each = graph.inputs[name]
    return {
        "name": name,
        "type": each.type,
        "is_required": each.is_required,
        "default": each.default,
        "description": each.description,
    }
