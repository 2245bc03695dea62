"""The ask node: a question to a person, for whose answer the job waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from graphmill.graph.node_type import Context, NodeType


class AskParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is asked."""

    question: Annotated[Any, Meta(description="What the person is shown: text, or any JSON.")]


class Ask(NodeType[AskParams]):
    """Pauses the job until its question is answered."""

    name = "ask"
    summary = "Asks a person: the job is paused until `graphmill resume RUN --answer ITEM=VALUE`, and goes on with the answer."
    Params = AskParams
    outputs: ClassVar[Mapping[str, str]] = {"answer": "what was answered, any JSON"}
    example = """\
- id: approve
  type: ask
  params: {question: "Publish this? ${draft.text}"}
"""

    def fingerprint(self, params: Mapping[str, Any]) -> str:
        """Its params say it all."""
        del params
        return ""

    async def run(self, params: AskParams, context: Context) -> dict[str, Any]:
        """Give the answer."""
        return {"answer": await context.ask(params.question)}
