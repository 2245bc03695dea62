"""A message of the model as it comes back."""

from __future__ import annotations

from typing import Any

from graphmill.core.errors import Transient
from graphmill.core.json import to_json
from graphmill.core.model_call import FinishReason, ModelResponse, ToolCall
from graphmill.core.rate_limits import RateLimits
from graphmill.core.usage import Usage
from graphmill.providers.answer import count_at, entry, list_at, text_at
from graphmill.providers.anthropic.request import ANSWER_TOOL

_REASONS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "refusal": FinishReason.REFUSAL,
}


def response_of(data: dict[str, Any], limits: RateLimits | None, *, has_schema: bool) -> ModelResponse:
    """Read the blocks; Transient if there are none. An answer that was given as a tool's input is its text."""
    blocks, usage, said = list_at(data, "content"), usage_of(data), text_at(data, "stop_reason")
    reason = _REASONS.get(said, FinishReason.OTHER)
    text = "".join(text_at(block, "text") for block in blocks if text_at(block, "type") == "text")
    calls = tuple(_tool_call(block) for block in blocks if text_at(block, "type") == "tool_use")
    if has_schema and reason is FinishReason.TOOL_CALLS and [call.name for call in calls] == [ANSWER_TOOL]:
        text, calls, reason = to_json(calls[0].arguments), (), FinishReason.STOP
    elif (reason is FinishReason.STOP and not blocks) or (reason is FinishReason.TOOL_CALLS and not calls):
        error = Transient("the answer has no content")
        error.usage = usage
        raise error
    return ModelResponse(
        text=text,
        usage=usage,
        finish_reason=reason,
        model=text_at(data, "model"),
        tool_calls=calls,
        id=text_at(data, "id"),
        limits=limits,
        reason=_why(data, said, reason),
    )


def usage_of(data: dict[str, Any]) -> Usage:
    """Read what was used; this API counts what it reads from its cache, or puts there, apart from the input."""
    cached = count_at(data, "usage", "cache_read_input_tokens")
    written = count_at(data, "usage", "cache_creation_input_tokens")
    return Usage(
        requests=1,
        input_tokens=count_at(data, "usage", "input_tokens") + cached + written,
        output_tokens=count_at(data, "usage", "output_tokens"),
        cached_tokens=cached,
        cache_written_tokens=written,
    )


def _why(data: dict[str, Any], said: str, reason: FinishReason) -> str:
    if reason is FinishReason.OTHER:
        return f"stop_reason is {said or None!r:.60}"
    return text_at(data, "stop_details", "explanation") if reason is FinishReason.REFUSAL else ""


def _tool_call(block: Any) -> ToolCall:
    return ToolCall(id=text_at(block, "id"), name=text_at(block, "name"), arguments=entry(block, "input"))
