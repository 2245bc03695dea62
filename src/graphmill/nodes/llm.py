"""The llm node: asks a model and returns its complete answer, or fails."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import attrgetter
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta

from graphmill.core.errors import InternalError, Permanent, UsageError
from graphmill.core.model_call import Message, Tool
from graphmill.graph.models.answer import schema_of
from graphmill.graph.models.completion import complete, origin_of
from graphmill.graph.models.models import Models
from graphmill.graph.models.request import PARAMS, image_or_path, images_of, messages_of, plain_tool, request_of
from graphmill.graph.node_params import is_open, misfit
from graphmill.graph.node_type import Context, NodeType, ParamError, Site


class CallDefaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Params of a call that anything else overrides."""

    temperature: Annotated[float, Meta(ge=0, le=100)] | None = None
    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    reasoning_effort: str | None = None


class LlmParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What to ask, which model, and what the answer must look like."""

    prompt: Annotated[Any, Meta(description="The question; anything but text is sent as JSON.")] = None
    system: Annotated[Any, Meta(description="The system prompt.")] = None
    messages: Annotated[
        list[Any] | None,
        Meta(
            description="The conversation before the prompt, or instead of it: `{role, content}`, of system, user, "
            "assistant or tool; content is text, or a list of `{type: text, text}` and `{type: image, url}` or `{type: "
            "image, data, media_type}`."
        ),
    ] = None
    model: Annotated[str | None, Meta(description="`provider/model`, or a name defined in `graphmill.yaml`.")] = None
    role: Annotated[
        str | None,
        Meta(description="A role that `graphmill.yaml` or `--model ROLE=NAME` assigns a model; instead of `model`."),
    ] = None
    temperature: Annotated[Annotated[float, Meta(ge=0, le=100)] | None, Meta(description="Sampling temperature.")] = (
        None
    )
    top_p: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(description="Nucleus sampling: the share of likely tokens to choose among."),
    ] = None
    max_tokens: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="The most tokens of an answer; an answer cut there is a permanent failure."),
    ] = None
    stop: Annotated[str | list[str] | None, Meta(description="The answer ends before this text, or any of these.")] = (
        None
    )
    seed: Annotated[
        int | None, Meta(description="For nearly the same answer each time, if the provider supports it.")
    ] = None
    reasoning_effort: Annotated[
        str | None, Meta(description="How much a reasoning model thinks, as the provider names it.")
    ] = None
    output_schema: Annotated[
        dict[str, Any] | None,
        Meta(
            description="A JSON Schema for the answer; `response` is then the data. An answer that does not fit is "
            "asked for again, with the reason, at most twice."
        ),
    ] = None
    images: Annotated[
        list[str | dict[str, Any]],
        Meta(
            description="Images sent with the prompt: URLs, files beside the workflow, or `{data, media_type}` in "
            "base64."
        ),
    ] = []
    tools: Annotated[
        list[dict[str, Any]],
        Meta(description="Tools the model may call: `{name, description, parameters}`, with a JSON Schema."),
    ] = []
    logprobs: Annotated[
        bool | Annotated[int, Meta(ge=0)] | None,
        Meta(description="Return the tokens' log probabilities, or also those of this many alternatives."),
    ] = None
    extra: Annotated[
        dict[str, Any], Meta(description="Added to the request unchanged, overriding everything else.")
    ] = {}
    defaults: Annotated[
        CallDefaults | None,
        Meta(description="Params of the call where neither this node, nor the run, nor `graphmill.yaml` sets them."),
    ] = None
    cache: Annotated[
        bool | None,
        Meta(
            description="Whether to use cached answers and cache this one; by default, at temperature 0. "
            "[More](models.md#cached-answers)."
        ),
    ] = None
    timeout: Annotated[
        Annotated[float, Meta(gt=0)] | None, Meta(description="Seconds per attempt; same as the node's own `timeout`.")
    ] = None


class LlmNode(NodeType[LlmParams]):
    """One attempt is one answer; it takes more calls only if an answer does not fit the schema."""

    name = "llm"
    summary = "Asks a model; an answer that is cut, refused or does not fit the schema is a failure, never a result."
    Params = LlmParams
    outputs: ClassVar[Mapping[str, str]] = {
        "response": "the answer: text, or data with `output_schema`",
        "usage": "requests, tokens and cost of all calls of the successful attempt",
        "finish_reason": "`stop`, or `tool_calls`",
        "model": "the model that answered, as the provider names it",
        "tool_calls": "the calls the model asks for: `{id, name, arguments}`",
        "logprobs": "for each token `{token, logprob, top}`; null unless requested",
        "metadata": "`calls`, how many it took; `repaired`, where a `fence` or `text` around the data was left out, or "
        "`latex` restored; `cached: true` with its `original_usage`, where it was known",
    }
    asks_model = True
    untemplated = frozenset({"timeout"})
    incidental = frozenset({"cache", "timeout"})
    example = """\
- id: describe
  type: llm
  params:
    model: openai/gpt-5-mini
    system: You write for shops.
    prompt: "Describe ${user.name} from ${user.city}."
    output_schema: {type: object, properties: {text: {type: string}}, required: [text]}
"""

    def check(self, params: Mapping[str, Any], site: Site) -> None:
        """Refuse an empty question, an unknown model, and invalid messages, tools, images and schemas."""
        del site
        if not any(params.get(name) for name in ("prompt", "messages", "images")):
            raise ParamError("prompt or messages is required")
        if params.get("model") is not None and params.get("role") is not None:
            raise ParamError("give either model or role, not both", at=("role",))
        self._check_model(params.get("model"))
        past, tools = params.get("messages"), params.get("tools")
        if isinstance(past, list):
            _require(list[Message], past, "messages")
        if isinstance(tools, list):
            _require(list[Tool], list(map(plain_tool, tools)), "tools")
        _require_images(params.get("images"))
        if params.get("output_schema") is not None and not is_open(params["output_schema"]):
            _require_schema(params["output_schema"])

    @staticmethod
    def _check_model(model: Any) -> None:
        if model is None or is_open(model):
            return
        try:
            Models.here().named(model)
        except UsageError as error:
            raise ParamError(str(error), at=("model",)) from None

    def output_schemas(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the schema of the answer; a model with tools may also answer in text."""
        schema = params.get("output_schema")
        if is_open(schema) or params.get("tools"):
            return {}
        return {"response": schema}

    def actions(self, params: Mapping[str, Any]) -> Collection[str]:
        """Return the only action."""
        del params
        return ("default",)

    def fingerprint(self, params: Mapping[str, Any]) -> str:
        """Return nothing: params and model decide, so a new version of Graphmill asks nothing again."""
        del params
        return ""

    def timeout_s(self, params: Mapping[str, Any]) -> float | None:
        """Return the param of that name."""
        return params.get("timeout")

    async def run(self, params: LlmParams, context: Context) -> Mapping[str, Any]:
        """Ask, and return the answer."""
        target = context.target
        if target is None:
            raise InternalError(f"the llm node {context.path} was run without a model")
        images = await images_of(params.images, context.root) if params.images else ()
        messages = messages_of(params.prompt, params.system, params.messages, images)
        if not messages:
            raise Permanent("prompt and messages are both empty")
        schema = None
        if params.output_schema is not None:
            schema = schema_of(params.output_schema)
        request = request_of(
            target,
            messages,
            dict(zip(PARAMS, _given(params), strict=True)),
            origin=origin_of(context, params.role),
            defaults=msgspec.to_builtins(params.defaults),
        )
        cache = target.cache
        if cache is None:
            cache = params.cache
        made = await complete(target, request, context, schema=schema, cache=cache, role=params.role)
        return {
            "response": made.text if schema is None or made.tool_calls else made.data,
            "usage": made.usage.to_json(),
            "finish_reason": made.finish_reason,
            "model": made.model,
            "tool_calls": list(made.tool_calls),
            "logprobs": None if made.logprobs is None else list(made.logprobs),
            "metadata": dict(made.metadata),
        }


_given = attrgetter(*PARAMS)


def _require(kind: Any, given: list[Any], name: str) -> None:
    if problem := misfit(kind, given, (name,), is_written=False):
        raise problem


def _require_images(given: Any) -> None:
    if not isinstance(given, list):
        return
    for index, image in enumerate(given):
        try:
            if not is_open(image):
                image_or_path(image)
        except Permanent as error:
            raise ParamError(str(error), at=("images", index)) from None


def _require_schema(schema: Any) -> None:
    try:
        schema_of(schema)
    except UsageError as error:
        raise ParamError(str(error), at=("output_schema",)) from None
