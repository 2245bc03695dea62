"""A chat completion as it comes back."""

from __future__ import annotations

import json
from typing import Any

from graphmill.core.errors import Transient
from graphmill.core.model_call import FinishReason, ModelResponse, TokenLogprob, ToolCall
from graphmill.core.rate_limits import RateLimits
from graphmill.core.usage import Usage
from graphmill.providers.answer import count, count_at, entry, list_at, text_at

_REASONS = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "eos_token": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
}


def response_of(data: dict[str, Any], limits: RateLimits | None) -> ModelResponse:
    """Read the first choice; Transient if there is none, or nothing in it."""
    choice = entry(data, "choices", 0)
    message = choice.get("message") if type(choice) is dict else None
    usage = usage_of(data)
    if not isinstance(message, dict):
        raise _empty("the answer has no choices", usage)
    refusal = text_at(message, "refusal") if message.get("refusal") else ""
    calls = tuple(map(_tool_call, list_at(message, "tool_calls"))) if message.get("tool_calls") else ()
    said = text_at(choice, "finish_reason")
    reason = FinishReason.REFUSAL if refusal else _REASONS.get(said, FinishReason.OTHER)
    if reason is FinishReason.STOP and calls:
        reason = FinishReason.TOOL_CALLS
    text = _text(message.get("content"))
    if (reason is FinishReason.STOP and text is None) or (reason is FinishReason.TOOL_CALLS and not calls):
        raise _empty("the answer has a choice with nothing in it", usage)
    return ModelResponse(
        text=text or "",
        usage=usage,
        finish_reason=reason,
        model=text_at(data, "model"),
        tool_calls=calls,
        logprobs=_logprobs(choice),
        id=text_at(data, "id"),
        limits=limits,
        reason=refusal or (f"finish_reason is {said or None!r:.60}" if reason is FinishReason.OTHER else ""),
    )


def usage_of(data: dict[str, Any]) -> Usage:
    """Read what was used; what is not told counts as none."""
    used = data.get("usage")
    if type(used) is not dict:
        return Usage(requests=1)
    prompt, completion = used.get("prompt_tokens_details"), used.get("completion_tokens_details")
    return Usage(
        requests=1,
        input_tokens=count(used.get("prompt_tokens")),
        output_tokens=count(used.get("completion_tokens")),
        reasoning_tokens=count_at(completion, "reasoning_tokens") if completion else 0,
        cached_tokens=count_at(prompt, "cached_tokens") if prompt else 0,
        image_tokens=count_at(prompt, "image_tokens") if prompt else 0,
    )


def _empty(message: str, usage: Usage) -> Transient:
    error = Transient(message)
    error.usage = usage
    return error


def _text(content: Any) -> str | None:
    if isinstance(content, list):
        return "".join(text_at(part, "text") for part in content)
    return content if isinstance(content, str) else None


def _tool_call(data: Any) -> ToolCall:
    written = entry(data, "function", "arguments")
    return ToolCall(id=text_at(data, "id"), name=text_at(data, "function", "name"), arguments=_arguments(written))


def _arguments(written: Any) -> Any:
    if not isinstance(written, str):
        return written
    try:
        read = json.loads(written or "{}")
    except (ValueError, RecursionError):
        return written
    return read if isinstance(read, dict) else written


def _logprobs(choice: Any) -> tuple[TokenLogprob, ...] | None:
    found = None if choice.get("logprobs") is None else list_at(choice, "logprobs", "content")
    return tuple(map(_token, found)) if found else None


def _token(data: Any) -> TokenLogprob:
    top = tuple((text_at(each, "token"), _number(each)) for each in list_at(data, "top_logprobs"))
    return TokenLogprob(token=text_at(data, "token"), logprob=_number(data), top=top)


def _number(data: Any) -> float:
    found = entry(data, "logprob")
    return float(found) if isinstance(found, int | float) else 0.0
