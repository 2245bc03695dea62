"""The value node: any mapping, given on as it is resolved."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from graphmill.graph.node_type import Context, NodeType


class Value(NodeType[Mapping[str, Any]]):
    """Names values for later nodes; touches nothing."""

    name = "value"
    summary = "Any mapping, given on as it is resolved: names values for later nodes."
    Params = None
    outputs = None
    is_recorded = False
    example = """\
- id: settings
  type: value
  params: {language: en, title: "Review of ${product.name}"}
"""

    def output_names(self, params: Mapping[str, Any]) -> Collection[str]:
        """Name what is given."""
        return params

    def actions(self, params: Mapping[str, Any]) -> Collection[str]:
        """Name the one of a node that chooses none."""
        del params
        return ("default",)

    def fingerprint(self, params: Mapping[str, Any]) -> str:
        """Its params say it all."""
        del params
        return ""

    async def run(self, params: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
        """Give the params."""
        del context
        return params
