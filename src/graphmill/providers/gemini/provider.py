"""The provider `gemini`: generateContent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from graphmill.core.errors import AttemptError
from graphmill.core.model_call import ModelRequest, ModelResponse
from graphmill.core.rate_limits import RateLimits
from graphmill.core.usage import Usage
from graphmill.providers.answer import entry, list_at, text_at
from graphmill.providers.gemini.errors import kind_of, retry_delay_s
from graphmill.providers.gemini.request import body_of
from graphmill.providers.gemini.response import response_of, usage_of
from graphmill.providers.http_provider import HttpProvider, joined
from graphmill.providers.limit_headers import plain_limits
from graphmill.providers.verdict import Said


class Gemini(HttpProvider):
    """Gemini, by the key of Google AI; the key goes in a header, never in the URL."""

    name = "gemini"
    default_address = "https://generativelanguage.googleapis.com/v1beta"
    address_variable = "GEMINI_BASE_URL"
    key_variable = "GEMINI_API_KEY"

    def url(self, address: str, model: str | None) -> str:
        """Give the URL of a model, or of the list of models."""
        if model is None:
            return joined(address, "models", query="pageSize=1000")
        path = model if model.startswith(("models/", "tunedModels/")) else f"models/{model}"
        return joined(address, f"{quote(path, safe='/')}:generateContent")

    def credentials(self, key: str) -> Mapping[str, str]:
        """Give the key as the API wants it."""
        return {"x-goog-api-key": key}

    def body(self, request: ModelRequest, address: str) -> dict[str, Any]:
        """Write a request."""
        del address
        return body_of(request)

    def response(self, data: dict[str, Any], request: ModelRequest, limits: RateLimits | None) -> ModelResponse:
        """Read the first candidate."""
        del request
        return response_of(data, limits)

    def usage(self, data: dict[str, Any]) -> Usage:
        """Read what was used."""
        return usage_of(data)

    def model_names(self, data: dict[str, Any]) -> list[str]:
        """Read a list of models."""
        return [text_at(model, "name").removeprefix("models/") for model in list_at(data, "models")]

    def said(self, data: dict[str, Any]) -> Said:
        """Read the body of an error."""
        return Said(text_at(data, "error", "message"), text_at(data, "error", "status"))

    def kind(self, status: int, said: Said, data: dict[str, Any]) -> type[AttemptError] | None:
        """Give the kind of an error by its status in words, and its details."""
        return kind_of(status, said, data)

    def hidden_error(self, data: dict[str, Any]) -> int | None:
        """Find an error in an answer with success."""
        if data.get("error") is None:
            return None
        code = entry(data, "error", "code")
        return code if isinstance(code, int) and 400 <= code < 600 else 500

    def limits(self, headers: Mapping[str, str], data: dict[str, Any]) -> RateLimits | None:
        """Read the wait that is asked for, in a header or in the error's details."""
        found, delay_s = plain_limits(headers), retry_delay_s(data)
        return found if delay_s is None else replace(found or RateLimits(), retry_after_s=delay_s)
