"""A request as generateContent asks for it."""

from __future__ import annotations

from typing import Any

from graphmill.core.model_call import Image, Message, ModelRequest, Text

_BUDGETS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576}


def body_of(request: ModelRequest) -> dict[str, Any]:
    """Write a request; what is not set is left out."""
    names = {call.id: call.name for message in request.messages for call in message.tool_calls}
    body: dict[str, Any] = {
        "contents": [_content(message, names) for message in request.messages if message.role != "system"]
    }
    if system := [{"text": message.text} for message in request.messages if message.role == "system"]:
        body["systemInstruction"] = {"parts": system}
    if config := _config(request):
        body["generationConfig"] = config
    if request.tools:
        body["tools"] = [{"functionDeclarations": [_function(tool) for tool in request.tools]}]
    return body


def _config(request: ModelRequest) -> dict[str, Any]:
    config: dict[str, Any] = {
        "temperature": request.temperature,
        "topP": request.top_p,
        "maxOutputTokens": request.max_tokens,
        "stopSequences": list(request.stop) or None,
        "seed": request.seed,
        "responseLogprobs": None if request.logprobs is None else True,
        "logprobs": request.logprobs or None,
        "thinkingConfig": _thinking(request.model, request.reasoning_effort),
    }
    if request.schema is not None:
        config |= {"responseMimeType": "application/json", "responseJsonSchema": request.schema}
    return {name: value for name, value in config.items() if value is not None}


def _thinking(model: str, effort: str | None) -> dict[str, Any] | None:
    """Say how hard to think: up to Gemini 2.5 in tokens, from 3 on in words."""
    if effort is None:
        return None
    if "gemini-2" in model and effort in _BUDGETS:
        return {"thinkingBudget": _BUDGETS[effort]}
    return {"thinkingLevel": effort}


def _content(message: Message, names: dict[str, str]) -> dict[str, Any]:
    if message.role == "tool":
        name = names.get(message.tool_call_id or "", message.tool_call_id)
        return {"role": "user", "parts": [{"functionResponse": {"name": name, "response": {"result": message.text}}}]}
    parts = (
        [{"text": message.content}] if isinstance(message.content, str) else [_part(part) for part in message.content]
    )
    calls = [{"functionCall": {"name": call.name, "args": call.arguments}} for call in message.tool_calls]
    return {
        "role": "model" if message.role == "assistant" else "user",
        "parts": [part for part in parts if part != {"text": ""} or not calls] + calls,
    }


def _part(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"text": part.text}
    if part.url is not None:
        return {"fileData": {"mimeType": part.media_type, "fileUri": part.url}}
    return {"inlineData": {"mimeType": part.media_type, "data": part.data}}


def _function(tool: Any) -> dict[str, Any]:
    made = {"name": tool.name, "description": tool.description}
    return {**made, "parametersJsonSchema": dict(tool.parameters)} if tool.parameters else made
