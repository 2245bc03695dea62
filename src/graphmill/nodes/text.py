"""A value as the text, and the bytes, that a node hands to the world; Permanent names the param that can not be such."""

from __future__ import annotations

from typing import Any

from graphmill.core.errors import Permanent, message_of
from graphmill.graph.template import text_of


def param_text(value: Any, at: str) -> str:
    """Give a value as it stands in a text."""
    try:
        return text_of(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise Permanent(f"{at}: the value can not stand in a text: {message_of(error)}") from error


def param_bytes(text: str, at: str) -> bytes:
    """Give a text as UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Permanent(
            f"{at}: half of a surrogate pair stands at position {error.start}, and is no text that can be sent"
        ) from error
