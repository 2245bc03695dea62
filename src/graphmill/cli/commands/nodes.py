"""``graphmill nodes``: the node types that are installed."""

from __future__ import annotations

from typing import Annotated

import typer

from graphmill.cli.terminal import AsJson, print_json, print_lines, print_note, terminal_width
from graphmill.core.errors import UsageError
from graphmill.graph.node_type import NodeType
from graphmill.graph.registry import node_registry
from graphmill.report.node_page import node_lines, node_page, node_record


def nodes(
    type_name: Annotated[str | None, typer.Argument(metavar="TYPE", help="A node type.", show_default=False)] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List the node types, or describe one.

    Example: graphmill nodes python
    """
    if type_name is None:
        _list(as_json=as_json)
        return
    found = _found(type_name)
    if as_json:
        print_json(node_record(found))
    else:
        print_lines(node_page(found, terminal_width()))


def _list(*, as_json: bool) -> None:
    found, problems = node_registry().types().values(), node_registry().problems()
    if as_json:
        print_json({"nodes": [node_record(each) for each in found], "problems": problems})
        return
    print_lines(node_lines(found))
    for problem in problems:
        print_note(problem)


def _found(name: str) -> NodeType[object]:
    try:
        return node_registry().find(name)
    except ValueError as error:
        raise UsageError(str(error)) from error
