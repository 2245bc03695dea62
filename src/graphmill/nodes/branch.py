"""The branch node: a value chooses the action, and with it the edges that fire."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from graphmill.graph.node_type import Context, Output, ParamError, Site
from graphmill.nodes.cases import ByCases, find_case


class BranchParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What to look at, and which action each value means."""

    on: Annotated[Any, Meta(description="The value to look at.")]
    cases: Annotated[
        dict[Any, str],
        Meta(
            description="Value → action. Keys are text, so values are compared by their JSON text: the case `true` is met by true "
            'and by "true", the case `3` by 3, 3.0 and "3", the case `null` by null. A list or a mapping meets no case.'
        ),
    ] = {}
    default: Annotated[
        str | None, Meta(description="The action of every other value; without it such a value is a permanent failure.")
    ] = None


class Branch(ByCases[BranchParams]):
    """Looks a value up among its cases."""

    name = "branch"
    summary = "Chooses the edges that fire: looks a value up among cases and returns the action found there."
    Params = BranchParams
    outputs: ClassVar[Mapping[str, str]] = {"action": "the action that was chosen"}
    untemplated = frozenset({"cases", "default"})
    example = """\
- id: route
  type: branch
  params: {on: "${judge.verdict}", cases: {right: keep, wrong: drop}, default: ask}
"""

    def check(self, params: Mapping[str, Any], site: Site) -> None:
        """Refuse the action of a failure, too."""
        super().check(params, site)
        for at, action in (
            ("default", params.get("default")),
            *(("cases", action) for action in (params.get("cases") or {}).values()),
        ):
            if action == "error":
                raise ParamError(
                    f"{at}: the action error stands for a failure, and a branch went well; give it another name",
                    at=(at,),
                )

    def actions(self, params: Mapping[str, Any]) -> Collection[str] | None:
        """Name those of the cases, and the default."""
        cases, default = params.get("cases"), params.get("default")
        found = [*cases.values(), default] if isinstance(cases, Mapping) else [default]
        named = [action for action in found if isinstance(action, str)]
        return tuple(dict.fromkeys(named)) or None

    async def run(self, params: BranchParams, context: Context) -> Output:
        """Return the action of the value's case."""
        del context
        action = find_case(params.on, params.cases, params.default)
        return Output({"action": action}, action)
