"""A request as the messages API asks for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from graphmill.core.errors import Permanent
from graphmill.core.model_call import Image, Message, ModelRequest, Text

ANSWER_TOOL = "answer"
_MOST_TOKENS = 4096
_WITHOUT_FORMAT = re.compile(r"claude-(?:instant|2|3|(?:opus|sonnet)-4(?:-0|-1)?(?:-20|$))")


def body_of(request: ModelRequest) -> dict[str, Any]:
    """Write a request; the seed, which this API lacks, is left out."""
    if request.logprobs is not None:
        raise Permanent("this API gives no logprobs; leave them out, or ask another provider")
    said = [message for message in request.messages if message.role != "system"]
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_tokens or _MOST_TOKENS,
        "messages": _alternating([_message(message) for message in said]),
    }
    if system := "\n\n".join(message.text for message in request.messages if message.role == "system"):
        body["system"] = system
    body |= {name: value for name in ("temperature", "top_p") if (value := getattr(request, name)) is not None}
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    if request.tools:
        body["tools"] = [_tool(tool.name, tool.description, tool.parameters) for tool in request.tools]
    if request.reasoning_effort is not None:
        body["output_config"] = {"effort": request.reasoning_effort}
    return body if request.schema is None else _with_schema(body, request.schema)


def _with_schema(body: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Hold the answer to a schema: by its format or, where a model is too old for that, as the one tool it must use."""
    if not _WITHOUT_FORMAT.match(body["model"]):
        form = {"format": {"type": "json_schema", "schema": closed(schema)}}
        return {**body, "output_config": {**body.get("output_config", {}), **form}}
    tool = _tool(ANSWER_TOOL, "Give the answer.", schema)
    return {**body, "tools": [*body.get("tools", []), tool], "tool_choice": {"type": "tool", "name": ANSWER_TOOL}}


def closed(schema: Any) -> Any:
    """Copy a schema with every object closed, as this API wants it: what it allows is allowed by the schema, too."""
    if isinstance(schema, list | tuple):
        return [closed(entry) for entry in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = {name: _below(name, value) for name, value in schema.items()}
    return {**made, "additionalProperties": False} if schema.get("type") == "object" else made


def _below(name: str, value: Any) -> Any:
    if name in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
        return {key: closed(schema) for key, schema in value.items()}
    return closed(value) if name in ("items", "anyOf", "allOf", "oneOf", "prefixItems") else value


def _tool(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "input_schema": dict(parameters) or {"type": "object", "properties": {}},
    }


def _message(message: Message) -> dict[str, Any]:
    if message.role == "tool":
        result = {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.text}
        return {"role": "user", "content": [result]}
    if isinstance(message.content, str) and not message.tool_calls:
        return {"role": message.role, "content": message.content}
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in message.tool_calls
    ]
    return {"role": message.role, "content": [*_blocks(message), *calls]}


def _blocks(message: Message) -> list[dict[str, Any]]:
    if isinstance(message.content, str):
        return [{"type": "text", "text": message.content}] if message.content else []
    return [_block(part) for part in message.content]


def _block(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if part.url is not None:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}


def _alternating(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Put results of tools that follow each other into one message."""
    made: list[dict[str, Any]] = []
    for message in messages:
        if made and _holds_results(made[-1]) and _holds_results(message):
            made[-1] = {"role": "user", "content": [*made[-1]["content"], *message["content"]]}
        else:
            made.append(message)
    return made


def _holds_results(message: dict[str, Any]) -> bool:
    content = message["content"]
    return isinstance(content, list) and bool(content) and content[0]["type"] == "tool_result"
