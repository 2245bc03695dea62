"""The provider ``gemini``: generateContent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any
from urllib.parse import quote

from graphmill.core.errors import AttemptError, Throttled, Unavailable
from graphmill.core.model_call import (
    FinishReason,
    Image,
    Message,
    ModelRequest,
    ModelResponse,
    Text,
    TokenLogprob,
    Tool,
    ToolCall,
)
from graphmill.core.usage import LOST, RateLimits, Usage
from graphmill.http.headers import parse_duration, read_plain_limits
from graphmill.providers.http_provider import (
    ErrorDetails,
    HttpProvider,
    build_empty_error,
    count_at,
    has_count,
    join_url,
    list_at,
    logprob_at,
    text_at,
    value_at,
)

_THINKING_TOKENS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576}
_FILTERED = ("BLOCKLIST", "IMAGE_SAFETY", "LANGUAGE", "PROHIBITED_CONTENT", "RECITATION", "SAFETY", "SPII")
_REASONS = {
    "STOP": FinishReason.STOP,
    "MAX_TOKENS": FinishReason.LENGTH,
    **dict.fromkeys(_FILTERED, FinishReason.CONTENT_FILTER),
}
_BY_STATUS_WORD: dict[str, type[AttemptError]] = {
    "FAILED_PRECONDITION": Unavailable,
    "NOT_FOUND": Unavailable,
    "PERMISSION_DENIED": Unavailable,
    "UNAUTHENTICATED": Unavailable,
    "UNAVAILABLE": Throttled,
}
_KEY_REASONS = frozenset(
    {"API_KEY_INVALID", "API_KEY_EXPIRED", "API_KEY_SERVICE_BLOCKED", "BILLING_DISABLED", "SERVICE_DISABLED"}
)


class Gemini(HttpProvider):
    """Gemini, with a key of Google AI; the key goes in a header, never in the URL."""

    name = "gemini"
    default_address = "https://generativelanguage.googleapis.com/v1beta"
    address_variable = "GEMINI_BASE_URL"
    key_variable = "GEMINI_API_KEY"

    def build_url(self, address: str, model: str | None) -> str:
        """Return the URL of a model, or of the list of models."""
        if model is None:
            return join_url(address, "models", query="pageSize=1000")
        if not model.startswith(("models/", "tunedModels/")):
            model = f"models/{model}"
        return join_url(address, f"{quote(model, safe='/')}:generateContent")

    def build_credentials(self, key: str) -> Mapping[str, str]:
        """Return the key in this API's own header."""
        return {"x-goog-api-key": key}

    def build_body(self, request: ModelRequest, address: str) -> dict[str, Any]:
        """Write a request; what is not set is left out."""
        del address
        names = {call.id: call.name for message in request.messages for call in message.tool_calls}
        body: dict[str, Any] = {
            "contents": [_write_message(message, names) for message in request.messages if message.role != "system"]
        }
        if system := [{"text": message.text} for message in request.messages if message.role == "system"]:
            body["systemInstruction"] = {"parts": system}
        if config := _write_config(request):
            body["generationConfig"] = config
        if request.tools:
            body["tools"] = [{"functionDeclarations": [_write_tool(tool) for tool in request.tools]}]
        return body

    def read_response(self, data: dict[str, Any], request: ModelRequest, limits: RateLimits | None) -> ModelResponse:
        """Read the first candidate, or why the prompt was blocked; Transient if there is nothing."""
        del request
        candidate, usage = value_at(data, "candidates", 0), self.read_usage(data)
        blocked = text_at(data, "promptFeedback", "blockReason")
        finish = blocked or text_at(candidate, "finishReason")
        reason = _REASONS.get(finish, FinishReason.OTHER)
        if blocked:
            reason = FinishReason.CONTENT_FILTER
        parts = list_at(candidate, "content", "parts")
        if candidate is None and not blocked:
            raise build_empty_error("response has no candidates", usage)
        if reason is FinishReason.STOP and not parts:
            raise build_empty_error("response has an empty candidate", usage)
        calls = tuple(
            _read_tool_call(number, part) for number, part in enumerate(parts) if value_at(part, "functionCall")
        )
        if calls and reason is FinishReason.STOP:
            reason = FinishReason.TOOL_CALLS
        return ModelResponse(
            text="".join(text_at(part, "text") for part in parts if value_at(part, "thought") is not True),
            reasoning="".join(text_at(part, "text") for part in parts if value_at(part, "thought") is True),
            service_tier=text_at(data, "usageMetadata", "trafficType"),
            usage=usage,
            finish_reason=reason,
            model=text_at(data, "modelVersion"),
            tool_calls=calls,
            logprobs=_read_logprobs(candidate),
            id=text_at(data, "responseId"),
            limits=limits,
            reason=_explain(finish, candidate, reason),
        )

    def read_usage(self, data: dict[str, Any]) -> Usage:
        """Read what was used; this API counts thoughts apart from the output."""
        used = data.get("usageMetadata")
        if not has_count(used, "promptTokenCount"):
            return LOST
        thoughts = count_at(used, "thoughtsTokenCount")
        images = [each for each in list_at(used, "promptTokensDetails") if text_at(each, "modality") == "IMAGE"]
        return Usage(
            requests=1,
            unpriced=1,
            input_tokens=count_at(used, "promptTokenCount") + count_at(used, "toolUsePromptTokenCount"),
            output_tokens=count_at(used, "candidatesTokenCount") + thoughts,
            reasoning_tokens=thoughts,
            cached_tokens=count_at(used, "cachedContentTokenCount"),
            image_tokens=sum(count_at(each, "tokenCount") for each in images),
        )

    def read_model_names(self, data: dict[str, Any]) -> list[str]:
        """Read a list of models."""
        return [text_at(model, "name").removeprefix("models/") for model in list_at(data, "models")]

    def read_error(self, data: dict[str, Any]) -> ErrorDetails:
        """Read the body of an error."""
        return ErrorDetails(text_at(data, "error", "message"), text_at(data, "error", "status"))

    def classify_error(self, status: int, details: ErrorDetails, data: dict[str, Any]) -> type[AttemptError] | None:
        """Return the kind of an error; a refused key comes as a bad request, and a day's quota as a throttle."""
        found = list_at(data, "error", "details")
        if any(text_at(each, "reason") in _KEY_REASONS for each in found) or "API key not valid" in details.message:
            return Unavailable
        quotas = [text_at(violation, "quotaId") for each in found for violation in list_at(each, "violations")]
        if status == 429 and any("PerDay" in quota for quota in quotas):
            return Unavailable
        return _BY_STATUS_WORD.get(details.type)

    def find_hidden_status(self, data: dict[str, Any]) -> int | None:
        """Find an error in a successful response."""
        if data.get("error") is None:
            return None
        code = value_at(data, "error", "code")
        return code if isinstance(code, int) and 400 <= code < 600 else 500

    def read_limits(self, headers: Mapping[str, str], data: dict[str, Any]) -> RateLimits | None:
        """Read the wait that is asked for, in a header or in the error's details."""
        found, delay_s = read_plain_limits(headers), _read_retry_delay(data)
        if delay_s is None:
            return found
        return replace(found or RateLimits(), retry_after_s=delay_s)


# --- writing a request ---


def _write_config(request: ModelRequest) -> dict[str, Any]:
    config: dict[str, Any] = {
        "temperature": request.temperature,
        "topP": request.top_p,
        "maxOutputTokens": request.max_tokens,
        "stopSequences": list(request.stop) or None,
        "seed": request.seed,
        "responseLogprobs": None if request.logprobs is None else True,
        "logprobs": request.logprobs or None,
        "thinkingConfig": _write_thinking(request.model, request.reasoning_effort),
    }
    if request.schema is not None:
        config |= {"responseMimeType": "application/json", "responseJsonSchema": request.schema}
    return {name: value for name, value in config.items() if value is not None}


def _write_thinking(model: str, effort: str | None) -> dict[str, Any] | None:
    """Say how hard to think: in tokens up to Gemini 2.5, in words from 3 on."""
    if effort is None:
        return None
    if "gemini-2" in model and effort in _THINKING_TOKENS:
        return {"thinkingBudget": _THINKING_TOKENS[effort]}
    return {"thinkingLevel": effort}


def _write_message(message: Message, names: dict[str, str]) -> dict[str, Any]:
    if message.role == "tool":
        name = names.get(message.tool_call_id or "", message.tool_call_id)
        return {"role": "user", "parts": [{"functionResponse": {"name": name, "response": {"result": message.text}}}]}
    calls = [{"functionCall": {"name": call.name, "args": call.arguments}} for call in message.tool_calls]
    if isinstance(message.content, str):
        parts = [{"text": message.content}]
    else:
        parts = [_write_part(part) for part in message.content]
    if calls:
        parts = [part for part in parts if part != {"text": ""}]
    return {"role": "model" if message.role == "assistant" else "user", "parts": parts + calls}


def _write_part(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"text": part.text}
    if part.url is not None:
        return {"fileData": {"mimeType": part.media_type, "fileUri": part.url}}
    return {"inlineData": {"mimeType": part.media_type, "data": part.data}}


def _write_tool(tool: Tool) -> dict[str, Any]:
    written: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if tool.parameters:
        written["parametersJsonSchema"] = dict(tool.parameters)
    return written


# --- reading a response ---


def _explain(finish: str, candidate: Any, reason: FinishReason) -> str:
    if reason in (FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.LENGTH):
        return ""
    return ": ".join(filter(None, [finish or "no finishReason", text_at(candidate, "finishMessage")]))


def _read_tool_call(number: int, part: Any) -> ToolCall:
    call = part["functionCall"]
    return ToolCall(
        id=text_at(call, "id") or f"call-{number}", name=text_at(call, "name"), arguments=value_at(call, "args") or {}
    )


def _read_logprobs(candidate: Any) -> tuple[TokenLogprob, ...] | None:
    chosen = list_at(candidate, "logprobsResult", "chosenCandidates")
    tops = list_at(candidate, "logprobsResult", "topCandidates")[: len(chosen)]
    return tuple(_read_token(each, top) for each, top in zip_longest(chosen, tops)) or None


def _read_token(chosen: Any, top: Any) -> TokenLogprob:
    others = tuple((text_at(each, "token"), logprob_at(each, "logProbability")) for each in list_at(top, "candidates"))
    return TokenLogprob(token=text_at(chosen, "token"), logprob=logprob_at(chosen, "logProbability"), top=others)


def _read_retry_delay(data: dict[str, Any]) -> float | None:
    """Read the wait that the details of an error ask for."""
    for detail in list_at(data, "error", "details"):
        if (delay := text_at(detail, "retryDelay")) and (seconds := parse_duration(delay)) is not None:
            return seconds
    return None
