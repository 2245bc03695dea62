"""The nodes that make up a workflow's flow: value, first, branch, end, ask and workflow."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec
from msgspec import Meta

from graphmill.core.errors import InternalError, Permanent, cut
from graphmill.core.json import to_json
from graphmill.graph.node_type import Context, NodeType, Output, ParamError, Site

P = TypeVar("P")
T = TypeVar("T")
_MAX_SHOWN_CHARS = 80


class ValueNode(NodeType[Mapping[str, Any]]):
    """Names values for later nodes; has no side effects."""

    name = "value"
    summary = "Any mapping, with its templates filled in: names values for later nodes."
    Params = None
    outputs = None
    is_recorded = False
    example = """\
- id: settings
  type: value
  params: {language: en, title: "Review of ${product.name}"}
"""

    def output_names(self, params: Mapping[str, Any]) -> Collection[str]:
        """Return the names of its params."""
        return params

    def actions(self, params: Mapping[str, Any]) -> Collection[str]:
        """Return the only action."""
        del params
        return ("default",)

    def fingerprint(self, params: Mapping[str, Any]) -> str:
        """Return nothing: the params decide the result."""
        del params
        return ""

    async def run(self, params: Mapping[str, Any], context: Context) -> Mapping[str, Any]:
        """Return the params."""
        del context
        return params


class FirstParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What to choose from."""

    of: Annotated[list[Any], Meta(description="The values, in order; `${name ?? null}` for one that may be missing.")]


class FirstNode(NodeType[FirstParams]):
    """Returns the first value that is there. It is not recorded, because repeating it costs nothing."""

    name = "first"
    summary = "Chooses the first of several values that is not null."
    Params = FirstParams
    is_recorded = False
    outputs: ClassVar[Mapping[str, str]] = {"value": "the first value that is not null; null if all are"}
    example = """\
- id: error
  type: first
  params: {of: ["${solve.error ?? null}", "${judge.error ?? null}"]}
"""

    def actions(self, params: Mapping[str, Any]) -> Collection[str]:
        """Return the only action."""
        del params
        return ("default",)

    def fingerprint(self, params: Mapping[str, Any]) -> str:
        """Return nothing: the params decide the result."""
        del params
        return ""

    async def run(self, params: FirstParams, context: Context) -> Mapping[str, Any]:
        """Return the value."""
        del context
        return {"value": next((value for value in params.of if value is not None), None)}


class CasesNode(NodeType[P]):
    """A node that looks a value up among cases. It is not recorded, because repeating it costs nothing."""

    is_recorded = False

    def check(self, params: Mapping[str, Any], site: Site) -> None:
        """Refuse a node without any case, and keys that are the same text."""
        del site
        cases, default = params.get("cases"), params.get("default")
        if not cases and default is None:
            raise ParamError("cases or default is required, otherwise every value fails", at=("cases",))
        seen: dict[str, Any] = {}
        for key in cases or ():
            text = next(_texts_of(key))
            if text in seen:
                raise ParamError(f"cases: {key!r} and {seen[text]!r} are the same case", at=("cases", key))
            seen[text] = key

    def fingerprint(self, params: Mapping[str, Any]) -> str:
        """Return nothing: the params decide the result."""
        del params
        return ""


class BranchParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What to look at, and the action for each value."""

    on: Annotated[Any, Meta(description="The value to look at.")]
    cases: Annotated[
        dict[Any, str],
        Meta(
            description="Value → action. Keys are text, so values are compared by their JSON text: the case `true` "
            "matches true "
            'and "true", the case `3` matches 3, 3.0 and "3", the case `null` matches null. A list or a mapping '
            "matches no case."
        ),
    ] = {}
    default: Annotated[
        str | None,
        Meta(description="The action for every other value; without it, such a value is a permanent failure."),
    ] = None


class BranchNode(CasesNode[BranchParams]):
    """Chooses an action by a value."""

    name = "branch"
    summary = "Chooses the edges that fire: looks a value up among cases and returns the action found there."
    Params = BranchParams
    outputs: ClassVar[Mapping[str, str]] = {"action": "the chosen action"}
    untemplated = frozenset({"cases", "default"})
    example = """\
- id: route
  type: branch
  params: {on: "${judge.verdict}", cases: {right: keep, wrong: drop}, default: ask}
"""

    def check(self, params: Mapping[str, Any], site: Site) -> None:
        """Refuse the action of a failure, too."""
        super().check(params, site)
        cases = params.get("cases") or {}
        for at, action in (("default", params.get("default")), *(("cases", action) for action in cases.values())):
            if action == "error":
                raise ParamError(f"{at}: the action error is reserved for failures; use another name", at=(at,))

    def actions(self, params: Mapping[str, Any]) -> Collection[str] | None:
        """Return those of the cases, and the default."""
        cases, default = params.get("cases"), params.get("default")
        found = [*cases.values(), default] if isinstance(cases, Mapping) else [default]
        named = [action for action in found if isinstance(action, str)]
        return tuple(dict.fromkeys(named)) or None

    async def run(self, params: BranchParams, context: Context) -> Output:
        """Return the action of the value's case."""
        del context
        action = _find_case(params.on, params.cases, params.default)
        return Output({"action": action}, action)


EndStatus = Literal["succeeded", "failed", "partial"]


class EndSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the job ends."""

    status: Literal["succeeded", "failed"] = "succeeded"
    flag: Literal["partial"] | None = None
    reason: str | None = None


_ENDS: dict[EndStatus, EndSpec] = {
    "succeeded": EndSpec(),
    "failed": EndSpec(status="failed"),
    "partial": EndSpec(flag="partial"),
}


class EndParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What to look at, and how each value ends the job."""

    on: Annotated[Any, Meta(description="The value to look at; leave it out if the job always ends as `default`.")] = (
        None
    )
    cases: Annotated[
        dict[Any, EndStatus | EndSpec],
        Meta(
            description="Value → `succeeded`, `partial` (succeeded with the flag partial), `failed`, or {status, flag, "
            "reason}. Values are compared by their JSON text, as in a branch."
        ),
    ] = {}
    default: Annotated[
        EndStatus | EndSpec | None,
        Meta(description="The end for every other value; without it, such a value is a permanent failure."),
    ] = None
    reason: Annotated[
        str,
        Meta(description="Why, unless the case says it: the message of a failed job, otherwise the output `reason`."),
    ] = ""


class EndNode(CasesNode[EndParams]):
    """Ends the job with the action ``end``, so no ``default`` edge fires; raises Permanent to fail the job."""

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
        """Return the only action."""
        del params
        return ("end",)

    async def run(self, params: EndParams, context: Context) -> Output:
        """Succeed with the case's flag, or raise the reason."""
        del context
        found = _find_case(params.on, params.cases, params.default)
        end = found if isinstance(found, EndSpec) else _ENDS[found]
        reason = params.reason if end.reason is None else end.reason
        if end.status == "failed":
            raise Permanent(reason or "the workflow ended it as failed")
        flags = frozenset[str]() if end.flag is None else frozenset({end.flag})
        return Output({"status": end.status, "flag": end.flag, "reason": reason}, "end", flags)


class AskParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What to ask."""

    question: Annotated[Any, Meta(description="What the person is shown: text, or any JSON.")]


class AskNode(NodeType[AskParams]):
    """Pauses the job until a person has answered its question."""

    name = "ask"
    summary = (
        "Asks a person: the job waits until `graphmill resume RUN --answer ITEM=VALUE`, then continues with the answer."
    )
    Params = AskParams
    outputs: ClassVar[Mapping[str, str]] = {"answer": "the answer, any JSON"}
    example = """\
- id: approve
  type: ask
  params: {question: "Publish this? ${draft.text}"}
"""

    def fingerprint(self, params: Mapping[str, Any]) -> str:
        """Return nothing: the params decide what is asked."""
        del params
        return ""

    async def run(self, params: AskParams, context: Context) -> dict[str, Any]:
        """Return the answer."""
        return {"answer": await context.ask(params.question)}


class WorkflowParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The child, and its inputs."""

    workflow: Annotated[
        str | dict[str, Any],
        Meta(
            description="The child: a path relative to this file, the name of a workflow file beside it or of an "
            "installed one, or a workflow written here. A workflow cannot contain itself."
        ),
    ]
    inputs: Annotated[dict[str, Any], Meta(description="The child's inputs by name.")] = {}


class WorkflowNode(NodeType[WorkflowParams]):
    """A child workflow. The compiler compiles it in place, so the node itself never runs as a step."""

    name = "workflow"
    summary = "Runs another workflow as part of this one; its outputs are the node's."
    Params = WorkflowParams
    outputs = None
    untemplated = frozenset({"workflow"})
    example = """\
- id: describe
  type: workflow
  params: {workflow: describe-user.yaml, inputs: {user: "${fetch.response}"}}
"""

    def check(self, params: Mapping[str, Any], site: Site) -> None:
        """Refuse an empty child."""
        del site
        if not params["workflow"]:
            raise ParamError("workflow must be a path, a name or a workflow, got an empty one", at=("workflow",))

    def actions(self, params: Mapping[str, Any]) -> Collection[str]:
        """Return the only action."""
        del params
        return ("default",)

    def fingerprint(self, params: Mapping[str, Any]) -> str:
        """Return nothing: the child has fingerprints of its own."""
        del params
        return ""

    async def run(self, params: WorkflowParams, context: Context) -> Mapping[str, Any]:
        """Raise: the steps are the child's."""
        del params
        raise InternalError(f"the workflow node {context.path} was run as a step")


def _find_case(on: Any, cases: Mapping[Any, T], default: T | None) -> T:
    """Return the case of a value, else the default; without one, Permanent lists the cases."""
    known = {next(_texts_of(key)): entry for key, entry in cases.items()}
    for text in _texts_of(on):
        if text in known:
            return known[text]
    if default is None:
        shown = f"a value of type {type(on).__name__}"
        if any(True for _ in _texts_of(on)):
            shown = cut(to_json(on), _MAX_SHOWN_CHARS)
        raise Permanent(f"no case for {shown} among {', '.join(known) or 'none'}; add it, or a default")
    return default


def _texts_of(value: Any) -> Iterator[str]:
    """Yield the texts that a scalar matches: ``3`` for 3, "3" and 3.0. A list or mapping has none."""
    if isinstance(value, str):
        yield value
    elif value is None or isinstance(value, bool | int | float):
        yield to_json(value)
        if isinstance(value, float) and value.is_integer():
            yield to_json(int(value))
