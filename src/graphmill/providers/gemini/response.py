"""A candidate of generateContent as it comes back."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from graphmill.core.errors import Transient
from graphmill.core.model_call import FinishReason, ModelResponse, TokenLogprob, ToolCall
from graphmill.core.rate_limits import RateLimits
from graphmill.core.usage import Usage
from graphmill.providers.answer import count_at, entry, list_at, text_at

_FILTERED = ("BLOCKLIST", "IMAGE_SAFETY", "LANGUAGE", "PROHIBITED_CONTENT", "RECITATION", "SAFETY", "SPII")
_REASONS = {
    "STOP": FinishReason.STOP,
    "MAX_TOKENS": FinishReason.LENGTH,
    **dict.fromkeys(_FILTERED, FinishReason.CONTENT_FILTER),
}


def response_of(data: dict[str, Any], limits: RateLimits | None) -> ModelResponse:
    """Read the first candidate; a prompt that was blocked has none, and says so. Transient if there is nothing."""
    candidate, usage = entry(data, "candidates", 0), usage_of(data)
    blocked = text_at(data, "promptFeedback", "blockReason")
    said = blocked or text_at(candidate, "finishReason")
    reason = FinishReason.CONTENT_FILTER if blocked else _REASONS.get(said, FinishReason.OTHER)
    parts = list_at(candidate, "content", "parts")
    if (candidate is None and not blocked) or (reason is FinishReason.STOP and not parts):
        error = Transient(
            "the answer has no candidates" if candidate is None else "the answer has a candidate with nothing in it"
        )
        error.usage = usage
        raise error
    calls = tuple(_tool_call(number, part) for number, part in enumerate(parts) if entry(part, "functionCall"))
    return ModelResponse(
        text="".join(text_at(part, "text") for part in parts if entry(part, "thought") is not True),
        usage=usage,
        finish_reason=FinishReason.TOOL_CALLS if calls and reason is FinishReason.STOP else reason,
        model=text_at(data, "modelVersion"),
        tool_calls=calls,
        logprobs=_logprobs(candidate),
        id=text_at(data, "responseId"),
        limits=limits,
        reason="" if reason in (FinishReason.STOP, FinishReason.LENGTH) else _why(said, candidate),
    )


def usage_of(data: dict[str, Any]) -> Usage:
    """Read what was used; this API counts thoughts apart from the output."""
    thoughts = count_at(data, "usageMetadata", "thoughtsTokenCount")
    details = list_at(data, "usageMetadata", "promptTokensDetails")
    return Usage(
        requests=1,
        input_tokens=count_at(data, "usageMetadata", "promptTokenCount")
        + count_at(data, "usageMetadata", "toolUsePromptTokenCount"),
        output_tokens=count_at(data, "usageMetadata", "candidatesTokenCount") + thoughts,
        reasoning_tokens=thoughts,
        cached_tokens=count_at(data, "usageMetadata", "cachedContentTokenCount"),
        image_tokens=sum(count_at(each, "tokenCount") for each in details if text_at(each, "modality") == "IMAGE"),
    )


def _why(said: str, candidate: Any) -> str:
    return ": ".join(filter(None, [said or "no finishReason", text_at(candidate, "finishMessage")]))


def _tool_call(number: int, part: Any) -> ToolCall:
    call = part["functionCall"]
    return ToolCall(
        id=text_at(call, "id") or f"call-{number}", name=text_at(call, "name"), arguments=entry(call, "args") or {}
    )


def _logprobs(candidate: Any) -> tuple[TokenLogprob, ...] | None:
    chosen = list_at(candidate, "logprobsResult", "chosenCandidates")
    tops = list_at(candidate, "logprobsResult", "topCandidates")
    return tuple(_token(each, top) for each, top in zip_longest(chosen, tops[: len(chosen)])) if chosen else None


def _token(chosen: Any, top: Any) -> TokenLogprob:
    others = tuple((text_at(each, "token"), _number(each)) for each in list_at(top, "candidates"))
    return TokenLogprob(token=text_at(chosen, "token"), logprob=_number(chosen), top=others)


def _number(data: Any) -> float:
    found = entry(data, "logProbability")
    return float(found) if isinstance(found, int | float) else 0.0
