"""The end node: ends the job, as succeeded, as partial or as failed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from graphmill.core.errors import Permanent
from graphmill.graph.node_type import Context, Output
from graphmill.nodes.cases import ByCases, find_case

Word = Literal["succeeded", "failed", "partial"]


class Ending(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the job ends."""

    status: Literal["succeeded", "failed"] = "succeeded"
    flag: Literal["partial"] | None = None
    reason: str | None = None


_WORDS: dict[Word, Ending] = {
    "succeeded": Ending(),
    "failed": Ending(status="failed"),
    "partial": Ending(flag="partial"),
}


class EndParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What to look at, and how each value ends the job."""

    on: Annotated[
        Any, Meta(description="The value to look at; left out where the job ends in one way only, the default.")
    ] = None
    cases: Annotated[
        dict[Any, Word | Ending],
        Meta(
            description="Value → `succeeded`, `partial` (succeeded with the flag partial), `failed`, or {status, flag, reason}. Values "
            "are compared by their JSON text, as a branch does."
        ),
    ] = {}
    default: Annotated[
        Word | Ending | None,
        Meta(description="The end for every other value; without it such a value is a permanent failure."),
    ] = None
    reason: Annotated[
        str,
        Meta(
            description="Why, where the case does not say it: the message of a failed job, and the output `reason` of others."
        ),
    ] = ""


class End(ByCases[EndParams]):
    """Looks up how the job ends. It returns the action ``end``, so no ``default`` edge fires; a failed end raises Permanent."""

    name = "end"
    summary = "Ends the job with a status that a value chooses: nothing listed after it runs."
    Params = EndParams
    is_end = True
    outputs: ClassVar[Mapping[str, str]] = {"status": "succeeded", "flag": "partial, or null", "reason": "why"}
    example = """\
- id: finish
  type: end
  params:
    on: "${judge.verdict}"
    cases: {right: succeeded, unsure: partial, wrong: {status: failed, reason: "${judge.reason}"}}
"""

    def actions(self, params: Mapping[str, Any]) -> Collection[str]:
        """Name the one that it returns."""
        del params
        return ("end",)

    async def run(self, params: EndParams, context: Context) -> Output:
        """End well, with the case's flag; or raise the reason."""
        del context
        found = find_case(params.on, params.cases, params.default)
        ending = found if isinstance(found, Ending) else _WORDS[found]
        reason = params.reason if ending.reason is None else ending.reason
        if ending.status == "failed":
            raise Permanent(reason or "the workflow ended it as failed")
        flags = frozenset[str]() if ending.flag is None else frozenset({ending.flag})
        return Output({"status": ending.status, "flag": ending.flag, "reason": reason}, "end", flags)
