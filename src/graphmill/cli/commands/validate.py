"""``graphmill validate``: check workflows before anything runs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from graphmill.cli.terminal import AsJson, ExitCode, print_json, print_lines
from graphmill.core.errors import UsageError
from graphmill.graph.language.json_schema import workflow_schema
from graphmill.graph.registry import node_registry
from graphmill.report.workflow_page import check, checked_lines, checked_record


def validate(
    workflows: Annotated[
        list[str] | None, typer.Argument(metavar="WORKFLOW", help="Workflow files.", show_default=False)
    ] = None,
    *,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of workflow files, for editors.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check workflow files and report every problem.

    Prints one problem per line, as file:line:column: message. Exit status: 0 if all files are valid, else 2.

    Example: graphmill validate examples/reviews.yaml
    """
    if schema:
        _print_schema(workflows, as_json=as_json)
        return
    if not workflows:
        raise UsageError("name the workflow files to check, or use --schema")
    found = [check(path) for path in workflows]
    if as_json:
        print_json({"workflows": [checked_record(each) for each in found]})
    else:
        print_lines(line for each in found for line in checked_lines(each))
    if any(each.graph is None for each in found):
        raise typer.Exit(ExitCode.USAGE)


def _print_schema(workflows: list[str] | None, *, as_json: bool) -> None:
    if workflows:
        raise UsageError("--schema takes no files: it prints the schema of all workflows")
    known = node_registry()
    types = known.types()
    aliases = {alias: name for name, node_type in types.items() for alias in known.aliases(node_type)}
    found = workflow_schema(types.values(), aliases=aliases)
    if as_json:
        print_json(found)
    else:
        print_lines(json.dumps(found, ensure_ascii=False, indent=2).splitlines())
