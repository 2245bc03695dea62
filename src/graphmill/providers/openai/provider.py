"""The provider `openai`: chat completions, from OpenAI or any server that speaks them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphmill.core.errors import AttemptError
from graphmill.core.model_call import ModelRequest, ModelResponse
from graphmill.core.rate_limits import RateLimits
from graphmill.core.usage import Usage
from graphmill.providers.answer import entry, list_at, text_at
from graphmill.providers.http_provider import HttpProvider, joined
from graphmill.providers.limit_headers import openai_limits
from graphmill.providers.openai.errors import hidden_status, kind_of, said_in
from graphmill.providers.openai.request import body_of
from graphmill.providers.openai.response import response_of, usage_of
from graphmill.providers.verdict import Said


class OpenAI(HttpProvider):
    """OpenAI, Azure, OpenRouter, vLLM, SGLang, llama.cpp, Ollama: by address and headers."""

    name = "openai"
    default_address = "https://api.openai.com/v1"
    address_variable = "OPENAI_BASE_URL"
    key_variable = "OPENAI_API_KEY"

    def url(self, address: str, model: str | None) -> str:
        """Give the URL of the completions, or of the list of models."""
        base = address.removesuffix("/chat/completions")
        return joined(base, "models") if model is None else joined(base, "chat", "completions")

    def credentials(self, key: str) -> Mapping[str, str]:
        """Give the key as a bearer's."""
        return {"authorization": f"Bearer {key}"}

    def body(self, request: ModelRequest, address: str) -> dict[str, Any]:
        """Write a request."""
        return body_of(request, address)

    def response(self, data: dict[str, Any], request: ModelRequest, limits: RateLimits | None) -> ModelResponse:
        """Read the first choice."""
        del request
        return response_of(data, limits)

    def usage(self, data: dict[str, Any]) -> Usage:
        """Read what was used."""
        return usage_of(data)

    def model_names(self, data: dict[str, Any]) -> list[str]:
        """Read a list of models."""
        return [text_at(model, "id") for model in list_at(data, "data")]

    def said(self, data: dict[str, Any]) -> Said:
        """Read the body of an error."""
        return said_in(data)

    def kind(self, status: int, said: Said, data: dict[str, Any]) -> type[AttemptError] | None:
        """Give the kind of an error by its code."""
        return kind_of(status, said, data)

    def hidden_error(self, data: dict[str, Any]) -> int | None:
        """Find an error in an answer with success, be it in a choice."""
        return hidden_status(data) or hidden_status(entry(data, "choices", 0))

    def limits(self, headers: Mapping[str, str], data: dict[str, Any]) -> RateLimits | None:
        """Read ``x-ratelimit-*``."""
        del data
        return openai_limits(headers)
