"""The provider `anthropic`: the messages API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from graphmill.core.errors import AttemptError
from graphmill.core.model_call import ModelRequest, ModelResponse
from graphmill.core.rate_limits import RateLimits
from graphmill.core.usage import Usage
from graphmill.providers.answer import list_at, text_at
from graphmill.providers.anthropic.errors import STATUSES, kind_of
from graphmill.providers.anthropic.request import body_of
from graphmill.providers.anthropic.response import response_of, usage_of
from graphmill.providers.http_provider import HttpProvider, joined
from graphmill.providers.limit_headers import anthropic_limits
from graphmill.providers.verdict import Said

_VERSIONED = re.compile(r"/v1/?(?:\?|\Z)")


class Anthropic(HttpProvider):
    """Claude, from Anthropic or a server that speaks the same."""

    name = "anthropic"
    default_address = "https://api.anthropic.com"
    address_variable = "ANTHROPIC_BASE_URL"
    key_variable = "ANTHROPIC_API_KEY"
    own_headers = MappingProxyType({"anthropic-version": "2023-06-01"})

    def url(self, address: str, model: str | None) -> str:
        """Give the URL of the messages, or of the list of models."""
        base = [] if _VERSIONED.search(address) else ["v1"]
        return (
            joined(address, *base, "models", query="limit=1000")
            if model is None
            else joined(address, *base, "messages")
        )

    def credentials(self, key: str) -> Mapping[str, str]:
        """Give the key as the API wants it."""
        return {"x-api-key": key}

    def body(self, request: ModelRequest, address: str) -> dict[str, Any]:
        """Write a request."""
        del address
        return body_of(request)

    def response(self, data: dict[str, Any], request: ModelRequest, limits: RateLimits | None) -> ModelResponse:
        """Read the blocks of a message."""
        return response_of(data, limits, has_schema=request.schema is not None)

    def usage(self, data: dict[str, Any]) -> Usage:
        """Read what was used."""
        return usage_of(data)

    def model_names(self, data: dict[str, Any]) -> list[str]:
        """Read a list of models."""
        return [text_at(model, "id") for model in list_at(data, "data")]

    def said(self, data: dict[str, Any]) -> Said:
        """Read the body of an error."""
        code = text_at(data, "error", "details", "error_code")
        return Said(text_at(data, "error", "message"), text_at(data, "error", "type"), code)

    def kind(self, status: int, said: Said, data: dict[str, Any]) -> type[AttemptError] | None:
        """Give the kind of an error by its type."""
        del data
        return kind_of(status, said)

    def hidden_error(self, data: dict[str, Any]) -> int | None:
        """Find an error in an answer with success."""
        if data.get("error") is None and data.get("type") != "error":
            return None
        return STATUSES.get(text_at(data, "error", "type"), 500)

    def limits(self, headers: Mapping[str, str], data: dict[str, Any]) -> RateLimits | None:
        """Read ``anthropic-ratelimit-*``."""
        del data
        return anthropic_limits(headers)
