"""What a check of workflow files has found, for the reader: problems and notes with their places, or what the workflow has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from graphmill.core.errors import UsageError, WorkflowError
from graphmill.core.positions import Problem
from graphmill.graph.graph import Graph
from graphmill.graph.models.nodes import unset_models
from graphmill.graph.workflow import load


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One file: its graph, or all its problems; notes are no problems."""

    path: str
    graph: Graph | None
    problems: tuple[Problem, ...] = ()
    unset: tuple[Problem, ...] = ()

    @property
    def notes(self) -> tuple[Problem, ...]:
        """What means something else here than where it was written for, and which models are not set."""
        return () if self.graph is None else (*self.graph.notes, *self.unset)


def check(path: str) -> Checked:
    """Compile a file; what is wrong with it is told, not raised."""
    try:
        graph = load(path)
        return Checked(path=path, graph=graph, unset=tuple(Problem(path, 0, 0, text) for text in unset_models(graph)))
    except WorkflowError as error:
        told = error.placed or tuple(Problem(error.path, 0, 0, text) for text in error.problems)
        return Checked(path=path, graph=None, problems=told)
    except UsageError as error:  # there is no such file, or it can not be read
        return Checked(path=path, graph=None, problems=(Problem(path, 0, 0, str(error)),))


def checked_lines(checked: Checked) -> Iterator[str]:
    """Show the problems and notes of a file as editors make links of them, then what the workflow has."""
    yield from map(str, checked.problems)
    for note in checked.notes:
        yield str(Problem(note.file, note.line, note.column, f"note: {note.message}"))
    if checked.graph is not None:
        yield f"{checked.path}: {_told(checked.graph)}"


def checked_record(checked: Checked) -> dict[str, Any]:
    """Give the same as data; docs/cli.md describes the fields."""
    graph = checked.graph
    return {
        "path": checked.path,
        "is_valid": graph is not None,
        "name": None if graph is None else graph.name,
        "nodes": None if graph is None else [{"id": node.id, "type": node.type.name} for node in graph.nodes.values()],
        "inputs": None if graph is None else [_input_record(graph, name) for name in graph.inputs],
        "outputs": None if graph is None else _outputs(graph),
        "problems": [asdict(problem) for problem in checked.problems],
        "notes": [asdict(note) for note in checked.notes],
    }


def _told(graph: Graph) -> str:
    inputs = [name if each.is_required else f"{name}?" for name, each in graph.inputs.items()]
    outputs = _outputs(graph)
    parts = (
        f"workflow {graph.name!r}",
        f"nodes {', '.join(graph.nodes)}",
        f"inputs {_listed(inputs)}",
        "outputs those of the last node" if outputs is None else f"outputs {_listed(outputs)}",
    )
    return " · ".join(parts)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _outputs(graph: Graph) -> list[str] | None:
    return None if graph.outputs is None else list(graph.outputs)


def _input_record(graph: Graph, name: str) -> dict[str, Any]:
    each = graph.inputs[name]
    return {
        "name": name,
        "type": each.type,
        "is_required": each.is_required,
        "default": each.default,
        "description": each.description,
    }
