"""The provider ``openai``: chat completions, from OpenAI or any server that offers them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from graphmill.core.errors import AttemptError, Permanent, Unavailable
from graphmill.core.json import text_or_json
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
from graphmill.core.usage import LOST, RateLimits, Usage, to_nano
from graphmill.http.failures import kind_of_words
from graphmill.http.headers import read_openai_limits
from graphmill.providers.anthropic import close_schema
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

_OPENAI_HOSTS = ("openai.com", "azure.com", "microsoft.com")
_COPIED = ("temperature", "top_p", "seed", "reasoning_effort")
_REASONS = {
    **dict.fromkeys(("stop", "eos", "eos_token", "stop_sequence", "end_turn"), FinishReason.STOP),
    **dict.fromkeys(("length", "max_tokens", "model_length"), FinishReason.LENGTH),
    **dict.fromkeys(("tool_calls", "function_call"), FinishReason.TOOL_CALLS),
    "content_filter": FinishReason.CONTENT_FILTER,
}
_TOO_LARGE = re.compile(r"request too large|must be reduced|maximum context length|context window", re.IGNORECASE)
_NO_MODEL = re.compile(
    r"is not a valid model id|the model `?[^`]*`? does not exist|no endpoints found for", re.IGNORECASE
)


class OpenAI(HttpProvider):
    """OpenAI, Azure, OpenRouter, vLLM, SGLang, llama.cpp, Ollama: by address and headers."""

    name = "openai"
    default_address = "https://api.openai.com/v1"
    address_variable = "OPENAI_BASE_URL"
    key_variable = "OPENAI_API_KEY"

    def build_url(self, address: str, model: str | None) -> str:
        """Return the URL of the completions, or of the list of models."""
        base = address.removesuffix("/chat/completions")
        if model is None:
            return join_url(base, "models")
        return join_url(base, "chat", "completions")

    def build_credentials(self, key: str) -> Mapping[str, str]:
        """Return the key as a bearer token."""
        return {"authorization": f"Bearer {key}"}

    def build_body(self, request: ModelRequest, address: str) -> dict[str, Any]:
        """Write a request; what is not set is left out."""
        body: dict[str, Any] = {
            "model": request.model,
            "messages": [_write_message(message) for message in request.messages],
        }
        for name in _COPIED:
            if (value := getattr(request, name)) is not None:
                body[name] = value
        if request.max_tokens is not None and not {"max_tokens", "max_completion_tokens"} & set(request.extra):
            body[_limit_name(address)] = request.max_tokens
        if request.stop:
            body["stop"] = list(request.stop)
        if request.logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": request.logprobs}
        if request.tools:
            body["tools"] = [{"type": "function", "function": _write_tool(tool)} for tool in request.tools]
        if request.schema is not None:
            body["response_format"] = _write_format(request.schema, request.model)
        return body

    def read_response(self, data: dict[str, Any], request: ModelRequest, limits: RateLimits | None) -> ModelResponse:
        """Read the first choice; Transient if there is none, or nothing in it."""
        del request
        choice = value_at(data, "choices", 0)
        message = value_at(choice, "message")
        usage = self.read_usage(data)
        if not isinstance(message, dict):
            raise build_empty_error("response has no choices", usage)
        refusal = text_at(message, "refusal")
        calls = tuple(map(_read_tool_call, list_at(message, "tool_calls")))
        finish = text_at(choice, "finish_reason")
        reason = _REASONS.get(finish, FinishReason.OTHER)
        if refusal:
            reason = FinishReason.REFUSAL
        if reason is FinishReason.STOP and calls:
            reason = FinishReason.TOOL_CALLS
        text = _read_text(message.get("content"))
        if (reason is FinishReason.STOP and text is None) or (reason is FinishReason.TOOL_CALLS and not calls):
            raise build_empty_error("response has an empty choice", usage)
        if reason is FinishReason.OTHER:
            refusal = f"finish_reason is {finish or None!r:.60}"
        return ModelResponse(
            text=text or "",
            usage=usage,
            finish_reason=reason,
            model=text_at(data, "model"),
            tool_calls=calls,
            logprobs=_read_logprobs(choice),
            id=text_at(data, "id"),
            limits=limits,
            reason=refusal,
            reasoning=_read_reasoning(message),
            system_fingerprint=text_at(data, "system_fingerprint"),
            service_tier=text_at(data, "service_tier"),
        )

    def read_usage(self, data: dict[str, Any]) -> Usage:
        """Read what was used."""
        used = data.get("usage")
        if type(used) is not dict:
            return LOST
        cost_nano = _read_cost(used)
        if cost_nano is None and not (has_count(used, "prompt_tokens") and has_count(used, "completion_tokens")):
            return LOST
        prompt, completion = used.get("prompt_tokens_details"), used.get("completion_tokens_details")
        read, written = count_at(used, "prompt_tokens"), count_at(used, "completion_tokens")
        reasoning = count_at(completion, "reasoning_tokens")
        if reasoning and count_at(used, "total_tokens") == read + written + reasoning:  # xAI counts it apart
            written += reasoning
        return Usage(
            requests=1,
            unpriced=int(cost_nano is None),
            reported=int(cost_nano is not None),
            cost_nano=cost_nano or 0,
            input_tokens=read,
            output_tokens=written,
            reasoning_tokens=reasoning,
            cached_tokens=count_at(prompt, "cached_tokens"),
            image_tokens=count_at(prompt, "image_tokens"),
        )

    def read_model_names(self, data: dict[str, Any]) -> list[str]:
        """Read a list of models."""
        return [text_at(model, "id") for model in list_at(data, "data")]

    def read_error(self, data: dict[str, Any]) -> ErrorDetails:
        """Read an error object in any of the forms that servers use."""
        found = data.get("error") or value_at(data, "choices", 0, "error") or data
        error = found if isinstance(found, dict) else {"message": found}
        message = text_at(error, "message") or text_at(error, "detail") or text_at(error, "detail", 0, "msg")
        code = error.get("code", "")
        if not isinstance(code, str | int):
            code = ""
        return ErrorDetails(message, text_at(error, "type"), str(code))

    def classify_error(self, status: int, details: ErrorDetails, data: dict[str, Any]) -> type[AttemptError] | None:
        """Return the kind of an error by its code or its words."""
        if status in (400, 413, 422, 429) and _TOO_LARGE.search(details.message):
            return Permanent
        if status == 403 and value_at(data, "error", "metadata", "reasons"):
            return Permanent  # OpenRouter: this input was flagged, others may pass
        if status == 400 and _NO_MODEL.search(details.message):
            return Unavailable
        return kind_of_words((details.code, details.type))

    def find_hidden_status(self, data: dict[str, Any]) -> int | None:
        """Find an error in a successful response, or in its first choice."""
        return _hidden_status(data) or _hidden_status(value_at(data, "choices", 0))

    def read_limits(self, headers: Mapping[str, str], data: dict[str, Any]) -> RateLimits | None:
        """Read ``x-ratelimit-*``."""
        del data
        return read_openai_limits(headers)


# --- writing a request ---


def _write_format(schema: Mapping[str, Any], model: str) -> dict[str, Any]:
    if "claude" in model.lower():  # behind a gateway, which hands the schema on
        schema = close_schema(schema)
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": is_strict(schema)}}


def is_strict(schema: Any) -> bool:
    """Whether a schema has the form that strict answers need: every object closed, all its properties required."""
    if isinstance(schema, list):
        return all(is_strict(entry) for entry in schema)
    if not isinstance(schema, Mapping):
        return True
    properties = schema.get("properties")
    if properties is not None or schema.get("type") == "object":
        is_closed = schema.get("additionalProperties") is False
        if not is_closed or set(properties or ()) != set(schema.get("required", ())):
            return False
    return all(is_strict(entry) for entry in _subschemas(schema))


def _subschemas(schema: Mapping[str, Any]) -> Iterable[Any]:
    for name, value in schema.items():
        if name in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            yield from value.values()
        elif name in ("items", "anyOf", "allOf", "oneOf", "prefixItems"):
            yield value


def _limit_name(address: str) -> str:
    """Name the token limit: OpenAI's newer models accept only the new name, many other servers only the old one."""
    host = urlsplit(address).hostname or ""
    is_openai = any(host == name or host.endswith(f".{name}") for name in _OPENAI_HOSTS)
    return "max_completion_tokens" if is_openai else "max_tokens"


def _write_message(message: Message) -> dict[str, Any]:
    written: dict[str, Any] = {"role": message.role, "content": _write_content(message)}
    if message.tool_calls:
        written["tool_calls"] = [_write_tool_call(call) for call in message.tool_calls]
        written["content"] = written["content"] or None
    if message.tool_call_id is not None:
        written["tool_call_id"] = message.tool_call_id
    return written


def _write_content(message: Message) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return message.content
    return [_write_part(part) for part in message.content]


def _write_part(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": part.url or f"data:{part.media_type};base64,{part.data}"}}


def _write_tool_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": text_or_json(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _write_tool(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters) or {"type": "object", "properties": {}},
    }


# --- reading a response ---


def _read_text(content: Any) -> str | None:
    if isinstance(content, list):
        return "".join(text_at(part, "text") for part in content)
    return content if isinstance(content, str) else None


def _read_reasoning(message: Mapping[str, Any]) -> str:
    """Read the reasoning: ``reasoning_content`` (DeepSeek, vLLM, SGLang) or ``reasoning`` (OpenRouter, newer vLLM)."""
    for name in ("reasoning_content", "reasoning"):
        if found := text_at(message, name):
            return found
    return ""


def _read_tool_call(data: Any) -> ToolCall:
    arguments = _read_arguments(value_at(data, "function", "arguments"))
    return ToolCall(id=text_at(data, "id"), name=text_at(data, "function", "name"), arguments=arguments)


def _read_arguments(written: Any) -> Any:
    """Return the object that the model wrote, or its text if that is not a JSON object."""
    if not isinstance(written, str):
        return written
    try:
        read = json.loads(written or "{}")
    except (ValueError, RecursionError):
        return written
    return read if isinstance(read, dict) else written


def _read_logprobs(choice: dict[str, Any]) -> tuple[TokenLogprob, ...] | None:
    if choice.get("logprobs") is None:
        return None
    return tuple(map(_read_token, list_at(choice, "logprobs", "content"))) or None


def _read_token(data: Any) -> TokenLogprob:
    top = tuple((text_at(each, "token"), logprob_at(each, "logprob")) for each in list_at(data, "top_logprobs"))
    return TokenLogprob(token=text_at(data, "token"), logprob=logprob_at(data, "logprob"), top=top)


def _read_cost(used: dict[str, Any]) -> int | None:
    """Read the cost that OpenRouter and Perplexity report; OpenRouter adds the provider's share for own keys."""
    cost: Any = used.get("cost")
    if cost is None:
        return None
    if isinstance(cost, dict):
        cost = cost.get("total_cost")
    upstream = value_at(used, "cost_details", "upstream_inference_cost") if used.get("is_byok") is True else 0
    try:
        return to_nano(cost) + to_nano(upstream or 0)
    except ValueError:
        return None


def _hidden_status(data: Any) -> int | None:
    if not isinstance(data, dict):
        return None
    error = data if data.get("object") == "error" else data.get("error")
    if error is None:
        return None
    code = value_at(error, "code")
    if isinstance(code, str) and re.fullmatch("[0-9]{3}", code):
        code = int(code)
    return code if isinstance(code, int) and 400 <= code < 600 else 500
