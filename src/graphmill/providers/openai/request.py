"""A request as a chat completion asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from graphmill.core.json import to_json
from graphmill.core.model_call import Image, Message, ModelRequest, Text, ToolCall

_OF_OPENAI = ("openai.com", "azure.com", "microsoft.com")
_PLAIN = ("temperature", "top_p", "seed", "reasoning_effort")


def body_of(request: ModelRequest, address: str) -> dict[str, Any]:
    """Write a request; what is not set is left out."""
    body: dict[str, Any] = {"model": request.model, "messages": [_message(message) for message in request.messages]}
    for name in _PLAIN:
        if (value := getattr(request, name)) is not None:
            body[name] = value
    if request.max_tokens is not None and not {"max_tokens", "max_completion_tokens"} & set(request.extra):
        body[_limit_name(address)] = request.max_tokens
    if request.stop:
        body["stop"] = list(request.stop)
    if request.logprobs is not None:
        body |= {"logprobs": True, "top_logprobs": request.logprobs}
    if request.tools:
        body["tools"] = [{"type": "function", "function": _function(tool)} for tool in request.tools]
    if request.schema is not None:
        schema = {"name": "answer", "schema": request.schema, "strict": is_strict(request.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def is_strict(schema: Any) -> bool:
    """Tell whether a schema has the form that strict answers need: every object closed, and all its properties required."""
    if isinstance(schema, list):
        return all(is_strict(entry) for entry in schema)
    if not isinstance(schema, Mapping):
        return True
    properties = schema.get("properties")
    if properties is not None or schema.get("type") == "object":
        is_closed = schema.get("additionalProperties") is False
        if not is_closed or set(properties or ()) != set(schema.get("required", ())):
            return False
    return all(is_strict(entry) for entry in _below(schema))


def _below(schema: Mapping[str, Any]) -> Iterable[Any]:
    for name, value in schema.items():
        if name in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            yield from value.values()
        elif name in ("items", "anyOf", "allOf", "oneOf", "prefixItems"):
            yield value


def _limit_name(address: str) -> str:
    """Name the limit of tokens: OpenAI's newer models know only the new name, many other servers only the old one."""
    host = urlsplit(address).hostname or ""
    is_of_openai = any(host == name or host.endswith(f".{name}") for name in _OF_OPENAI)
    return "max_completion_tokens" if is_of_openai else "max_tokens"


def _message(message: Message) -> dict[str, Any]:
    made: dict[str, Any] = {"role": message.role, "content": _content(message)}
    if message.tool_calls:
        made["tool_calls"] = [_tool_call(call) for call in message.tool_calls]
        made["content"] = made["content"] or None
    if message.tool_call_id is not None:
        made["tool_call_id"] = message.tool_call_id
    return made


def _content(message: Message) -> str | list[dict[str, Any]]:
    return message.content if isinstance(message.content, str) else [_part(part) for part in message.content]


def _part(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": part.url or f"data:{part.media_type};base64,{part.data}"}}


def _tool_call(call: ToolCall) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, str) else to_json(call.arguments)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _function(tool: Any) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters) or {"type": "object", "properties": {}},
    }
