"""A package of node types as a stranger would write one."""

from typing import Annotated, ClassVar

import msgspec

from graphmill.graph.node_type import NodeType


class ShoutParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, msgspec.Meta(description="What to shout.")]
    times: Annotated[int, msgspec.Meta(ge=1, description="How often.")] = 1


class Shout(NodeType[ShoutParams]):
    name = "shout"
    summary = "Says it loudly."
    Params = ShoutParams
    outputs: ClassVar = {"shouted": "the text in capitals"}

    async def run(self, params, context):
        return {"shouted": params.text.upper() * params.times}


class Silent(NodeType[ShoutParams]):
    name = "silent"


no_class = 5
