"""A text in pieces: what was written and, apart from it, what its templates came to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from graphmill.core.errors import Permanent, message_of
from graphmill.graph.template import text_of


class Filled(NamedTuple):
    """What a template came to."""

    value: Any

    @property
    def text(self) -> str:
        """As it stands in a text; Permanent if it can not."""
        try:
            return text_of(self.value)
        except (TypeError, ValueError, RecursionError) as error:
            raise Permanent(f"a value can not stand in a text: {message_of(error)}") from error


class PiecedText(str):
    """A text that still knows its pieces."""

    __slots__ = ("pieces",)
    pieces: tuple[str | Filled, ...]


def pieced(resolved: Iterable[str | list[Any]]) -> PiecedText:
    """Put together what a template resolves to in pieces: text as written, and each value in a list of its own."""
    pieces = tuple([piece if isinstance(piece, str) else Filled(piece[0]) for piece in resolved])
    text = PiecedText("".join([piece if isinstance(piece, str) else piece.text for piece in pieces]))
    text.pieces = pieces
    return text


def pieces_of(text: str) -> tuple[str | Filled, ...]:
    """Give the pieces of a param that comes in such; a text without templates is one."""
    return text.pieces if isinstance(text, PiecedText) else (text,)
