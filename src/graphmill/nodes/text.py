"""Values of params as text and bytes; Permanent names the param that cannot be converted."""

from __future__ import annotations

from typing import Any

from graphmill.core.errors import Permanent, message_of
from graphmill.graph.template import text_of


def param_text(value: Any, at: str) -> str:
    """Return a value as text, as templates write it."""
    try:
        return text_of(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise Permanent(f"{at}: the value cannot be written as text: {message_of(error)}") from error


def param_bytes(text: str, at: str) -> bytes:
    """Encode text as UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Permanent(
            f"{at}: half of a surrogate pair at position {error.start} cannot be encoded as UTF-8"
        ) from error
