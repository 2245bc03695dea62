"""``graphmill new``: copy an installed workflow to edit it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Annotated

import typer

from graphmill.cli.terminal import print_lines
from graphmill.core.errors import ExportError, UsageError
from graphmill.core.json import to_json
from graphmill.graph.registry import workflow_registry

_NAME_LINE = re.compile(r"^name:.*$", re.MULTILINE)


def new(
    folder: Annotated[str, typer.Argument(metavar="NAME", help="The folder to create.", show_default=False)],
    *,
    source: Annotated[
        str, typer.Option("--from", metavar="WORKFLOW", help="An installed workflow.", show_default=False)
    ],
) -> None:
    """Copy an installed workflow with its prompts to edit it.

    Creates the folder NAME with NAME.yaml and all files that it uses. Nothing is overwritten.

    Example: graphmill new mine --from solve-verify-judge
    """
    try:
        origin = workflow_registry().find(source)
    except ValueError as error:
        raise UsageError(str(error)) from error
    target = Path(folder)
    try:
        target.mkdir(parents=True)
        shutil.copytree(origin, target, ignore=shutil.ignore_patterns("*.py", "__pycache__"), dirs_exist_ok=True)
        workflow = _rename(target, source)
    except FileExistsError:
        raise UsageError(f"{folder!r} already exists; choose another name") from None
    except OSError as error:
        raise ExportError(f"cannot create {folder!r}: {error.strerror or error}") from error
    print_lines([f"{workflow}: copied from {source}; check it with: graphmill validate {workflow}"])


def _rename(target: Path, source: str) -> Path:
    """Name the workflow after its folder."""
    workflow = target / f"{target.resolve().name}.yaml"
    text = (target / f"{source}.yaml").read_text(encoding="utf-8")
    (target / f"{source}.yaml").unlink()
    name_line = f"name: {to_json(workflow.stem)}"
    workflow.write_text(_NAME_LINE.sub(lambda _: name_line, text, count=1), encoding="utf-8")
    return workflow
