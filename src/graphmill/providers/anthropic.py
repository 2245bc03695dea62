"""The provider ``anthropic``: the messages API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from graphmill.core.errors import AttemptError, Permanent, Throttled, Transient, Unavailable
from graphmill.core.json import to_json
from graphmill.core.model_call import FinishReason, Image, Message, ModelRequest, ModelResponse, Text, ToolCall
from graphmill.core.usage import LOST, RateLimits, Usage
from graphmill.http.headers import read_anthropic_limits
from graphmill.providers.http_provider import (
    ErrorDetails,
    HttpProvider,
    build_empty_error,
    count_at,
    has_count,
    join_url,
    list_at,
    text_at,
    value_at,
)

_ANSWER_TOOL = "answer"
_DEFAULT_MAX_TOKENS = 4096  # this API requires one
_VERSIONED = re.compile(r"/v1/?(?:\?|\Z)")
# Keywords of a schema that the API refuses with status 400.
_REFUSED = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minLength", "maxLength", "minItems", "maxItems", "uniqueItems",
)  # fmt: skip
_WITHOUT_FORMAT = re.compile(r"claude-(?:instant|2|3|(?:opus|sonnet)-4(?:-0|-1)?(?:-20|$))")
_NO_CREDIT = re.compile(r"credit balance is too low|spend limit|usage limits?\b|billing", re.IGNORECASE)
_REASONS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "refusal": FinishReason.REFUSAL,
}
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_BY_TYPE: dict[str, type[AttemptError]] = {
    "authentication_error": Unavailable,
    "billing_error": Unavailable,
    "permission_error": Unavailable,
    "not_found_error": Unavailable,
    "request_too_large": Permanent,
    "rate_limit_error": Throttled,
    "api_error": Transient,
    "timeout_error": Transient,
    "overloaded_error": Throttled,
}


class Anthropic(HttpProvider):
    """Claude, from Anthropic or a server that speaks the same."""

    name = "anthropic"
    default_address = "https://api.anthropic.com"
    address_variable = "ANTHROPIC_BASE_URL"
    key_variable = "ANTHROPIC_API_KEY"
    own_headers = MappingProxyType({"anthropic-version": "2023-06-01"})

    def build_url(self, address: str, model: str | None) -> str:
        """Return the URL of the messages, or of the list of models."""
        base = [] if _VERSIONED.search(address) else ["v1"]
        if model is None:
            return join_url(address, *base, "models", query="limit=1000")
        return join_url(address, *base, "messages")

    def build_credentials(self, key: str) -> Mapping[str, str]:
        """Return the key in this API's own header."""
        return {"x-api-key": key}

    def build_body(self, request: ModelRequest, address: str) -> dict[str, Any]:
        """Write a request; the seed, which this API lacks, is left out."""
        del address
        if request.logprobs is not None:
            raise Permanent("this API has no logprobs; leave them out, or use another provider")
        said = [message for message in request.messages if message.role != "system"]
        body: dict[str, Any] = {
            "model": request.model,
            "max_tokens": request.max_tokens or _DEFAULT_MAX_TOKENS,
            "messages": _join_tool_results([_write_message(message) for message in said]),
        }
        if system := "\n\n".join(message.text for message in request.messages if message.role == "system"):
            body["system"] = system
        for name in ("temperature", "top_p"):
            if (value := getattr(request, name)) is not None:
                body[name] = value
        if request.stop:
            body["stop_sequences"] = list(request.stop)
        if request.tools:
            body["tools"] = [_write_tool(tool.name, tool.description, tool.parameters) for tool in request.tools]
        if request.reasoning_effort is not None:
            body["output_config"] = {"effort": request.reasoning_effort}
        if request.schema is not None:
            _add_schema(body, request.schema)
        return body

    def read_response(self, data: dict[str, Any], request: ModelRequest, limits: RateLimits | None) -> ModelResponse:
        """Read the blocks; Transient if there are none. An answer given as a tool's input is its text."""
        blocks, usage, stop = list_at(data, "content"), self.read_usage(data), text_at(data, "stop_reason")
        reason = _REASONS.get(stop, FinishReason.OTHER)
        text = "".join(text_at(block, "text") for block in blocks if text_at(block, "type") == "text")
        calls = tuple(_read_tool_call(block) for block in blocks if text_at(block, "type") == "tool_use")
        is_answer = request.schema is not None and [call.name for call in calls] == [_ANSWER_TOOL]
        if is_answer and reason is FinishReason.TOOL_CALLS:
            text, calls, reason = to_json(calls[0].arguments), (), FinishReason.STOP
        elif (reason is FinishReason.STOP and not blocks) or (reason is FinishReason.TOOL_CALLS and not calls):
            raise build_empty_error("response has no content", usage)
        return ModelResponse(
            text=text,
            usage=usage,
            finish_reason=reason,
            model=text_at(data, "model"),
            tool_calls=calls,
            id=text_at(data, "id"),
            limits=limits,
            reason=_explain(data, stop, reason),
            reasoning="\n\n".join(filter(None, (text_at(block, "thinking") for block in blocks))),
            service_tier=text_at(data, "usage", "service_tier"),
        )

    def read_usage(self, data: dict[str, Any]) -> Usage:
        """Read what was used; this API counts what it reads from or writes to its cache apart from the input."""
        if not (has_count(data, "usage", "input_tokens") and has_count(data, "usage", "output_tokens")):
            return LOST
        cached = count_at(data, "usage", "cache_read_input_tokens")
        written = count_at(data, "usage", "cache_creation_input_tokens")
        return Usage(
            requests=1,
            unpriced=1,
            input_tokens=count_at(data, "usage", "input_tokens") + cached + written,
            output_tokens=count_at(data, "usage", "output_tokens"),
            cached_tokens=cached,
            cache_written_tokens=written,
        )

    def read_model_names(self, data: dict[str, Any]) -> list[str]:
        """Read a list of models."""
        return [text_at(model, "id") for model in list_at(data, "data")]

    def read_error(self, data: dict[str, Any]) -> ErrorDetails:
        """Read the body of an error."""
        code = text_at(data, "error", "details", "error_code")
        return ErrorDetails(text_at(data, "error", "message"), text_at(data, "error", "type"), code)

    def classify_error(self, status: int, details: ErrorDetails, data: dict[str, Any]) -> type[AttemptError] | None:
        """Return the kind of an error by its type; missing credit comes as a bad request, or as a limit."""
        del data
        if details.code == "enforced_spend_limit_reached":
            return Unavailable
        if status == 400 and _NO_CREDIT.search(details.message):
            return Unavailable
        return _BY_TYPE.get(details.type)

    def find_hidden_status(self, data: dict[str, Any]) -> int | None:
        """Find an error in a successful response."""
        if data.get("error") is None and data.get("type") != "error":
            return None
        return _STATUSES.get(text_at(data, "error", "type"), 500)

    def read_limits(self, headers: Mapping[str, str], data: dict[str, Any]) -> RateLimits | None:
        """Read ``anthropic-ratelimit-*``."""
        del data
        return read_anthropic_limits(headers)


# --- writing a request ---


def _add_schema(body: dict[str, Any], schema: Mapping[str, Any]) -> None:
    """Hold the answer to a schema: as its format, or for a model too old for that as the one tool it must use."""
    if _WITHOUT_FORMAT.match(body["model"]):
        body["tools"] = [*body.get("tools", []), _write_tool(_ANSWER_TOOL, "Give the answer.", schema)]
        body["tool_choice"] = {"type": "tool", "name": _ANSWER_TOOL}
    else:
        answer_format = {"type": "json_schema", "schema": close_schema(schema)}
        body["output_config"] = {**body.get("output_config", {}), "format": answer_format}


def close_schema(schema: Any) -> Any:
    """Copy a schema in the form that this API takes: every object closed, and limits such as ``maximum`` in words.

    It refuses those limits as keywords; the answer is checked against them here.
    """
    if isinstance(schema, list | tuple):
        return [close_schema(entry) for entry in schema]
    if not isinstance(schema, Mapping):
        return schema
    closed = {name: _close_below(name, value) for name, value in schema.items() if name not in _REFUSED}
    limits = [f"{name} {schema[name]}" for name in _REFUSED if name in schema]
    if limits:
        closed["description"] = " ".join(filter(None, [schema.get("description"), f"({', '.join(limits)})"]))
    if schema.get("type") == "object":
        closed["additionalProperties"] = False
    return closed


def _close_below(name: str, value: Any) -> Any:
    if name in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
        return {key: close_schema(schema) for key, schema in value.items()}
    if name in ("items", "anyOf", "allOf", "oneOf", "prefixItems"):
        return close_schema(value)
    return value


def _write_tool(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "input_schema": dict(parameters) or {"type": "object", "properties": {}},
    }


def _write_message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        result = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.text}
        return {"role": "user", "content": [result]}
    if isinstance(message.content, str) and not message.tool_calls:
        return {"role": message.role, "content": message.content}
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in message.tool_calls
    ]
    return {"role": message.role, "content": [*_write_blocks(message), *calls]}


def _write_blocks(message: Message) -> list[dict[str, Any]]:
    if not message.content:
        return []
    if isinstance(message.content, str):
        return [{"type": "text", "text": message.content}]
    return [_write_block(part) for part in message.content]


def _write_block(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if part.url is not None:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}


def _join_tool_results(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put consecutive tool results into one message."""
    joined: list[dict[str, Any]] = []
    for message in messages:
        if joined and _has_results(joined[-1]) and _has_results(message):
            joined[-1] = {"role": "user", "content": [*joined[-1]["content"], *message["content"]]}
        else:
            joined.append(message)
    return joined


def _has_results(message: dict[str, Any]) -> bool:
    content = message["content"]
    return isinstance(content, list) and bool(content) and content[0]["type"] == "tool_result"


# --- reading a response ---


def _explain(data: dict[str, Any], stop: str, reason: FinishReason) -> str:
    if reason is FinishReason.OTHER:
        return f"stop_reason is {stop or None!r:.60}"
    if reason is FinishReason.REFUSAL:
        return text_at(data, "stop_details", "explanation")
    return ""


def _read_tool_call(block: Any) -> ToolCall:
    return ToolCall(id=text_at(block, "id"), name=text_at(block, "name"), arguments=value_at(block, "input"))
