"""``graphmill validate``: what is wrong with a workflow, before anything runs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from graphmill.cli.answer import AsJson, tell, tell_json
from graphmill.cli.exit_code import ExitCode
from graphmill.core.errors import UsageError
from graphmill.graph.json_schema import workflow_schema
from graphmill.graph.registry import node_registry
from graphmill.report.workflow_page import check, checked_lines, checked_record


def validate(
    workflows: Annotated[
        list[str] | None, typer.Argument(metavar="WORKFLOW...", help="Workflow files.", show_default=False)
    ] = None,
    *,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of workflow files, for editors.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check workflow files and tell everything that is wrong with them.

    Each problem stands on a line, with its place: file:line:column: message. Exit status: 0 all are valid, 2 otherwise.

    Example: graphmill validate examples/reviews.yaml
    """
    if schema:
        _tell_schema(workflows, as_json=as_json)
        return
    if not workflows:
        raise UsageError("name the workflow files to check, or say --schema")
    found = [check(path) for path in workflows]
    if as_json:
        tell_json({"workflows": [checked_record(each) for each in found]})
    else:
        tell(line for each in found for line in checked_lines(each))
    if any(each.graph is None for each in found):
        raise typer.Exit(ExitCode.USAGE)


def _tell_schema(workflows: list[str] | None, *, as_json: bool) -> None:
    if workflows:
        raise UsageError("--schema prints the schema of all workflows; leave the files out")
    known = node_registry()
    types = known.types()
    aliases = {alias: name for name, node_type in types.items() for alias in known.aliases(node_type)}
    found = workflow_schema(types.values(), aliases=aliases)
    if as_json:
        tell_json(found)
    else:
        tell(json.dumps(found, ensure_ascii=False, indent=2).splitlines())
