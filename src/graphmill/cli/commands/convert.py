"""``graphmill convert``: rewrite a workflow of the older JSON form as YAML."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from graphmill.cli.terminal import print_lines
from graphmill.core.errors import ExportError, UsageError, WorkflowError
from graphmill.core.positions import FileProblem
from graphmill.core.yaml import to_yaml
from graphmill.graph.compiler.compiler import compile_workflow
from graphmill.graph.language.document import Document
from graphmill.graph.language.legacy import convert_workflow


def convert(
    workflow: Annotated[
        str, typer.Argument(metavar="OLD", help="A workflow of the older JSON form.", show_default=False)
    ],
    *,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The new file. [default: OLD with .yaml]", show_default=False
        ),
    ] = None,
) -> None:
    """Convert a workflow of the older JSON form (ir_version).

    Writes a new YAML file, and prints what behaves differently now, as file:line:column: note: message.

    Example: graphmill convert old.json --output new.yaml
    """
    target = Path(output or Path(workflow).with_suffix(".yaml"))
    document = Document.read(workflow)
    if _is_present(document):
        raise UsageError(f"{workflow} is already in the present form")
    converted, notes = convert_workflow(document)
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(to_yaml(converted))
    except FileExistsError:
        raise UsageError(f"{str(target)!r} already exists; choose another file with --output") from None
    except OSError as error:
        raise ExportError(f"cannot write {str(target)!r}: {error.strerror or error}") from error
    print_lines(str(FileProblem(note.file, note.line, note.column, f"note: {note.message}")) for note in notes)
    print_lines([f"{target}: converted; check it with: graphmill validate {target}"])


def _is_present(document: Document) -> bool:
    """Say whether a file has no mark of the older form and is valid as it is."""
    if isinstance(document.data, Mapping) and ("ir_version" in document.data or "ir" in document.data):
        return False
    try:
        compile_workflow(document)
    except WorkflowError:
        return False
    return True
