"""Where the parts of a JSON text stand, found only when somebody asks: the reader itself does not tell."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from graphmill.core.levels import MOST_LEVELS
from graphmill.core.place import TextError, text_place

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


@dataclass(slots=True)
class Part:
    """One value: where it begins and ends, where its key begins, and its parts by key or position."""

    start: int
    end: int = 0
    key: int | None = None
    parts: dict[str | int, Part] = field(default_factory=dict)


def decoded(text: bytes) -> str:
    """Give the text as the JSON reader sees it, in whichever encoding it detects."""
    return text.decode(json.detect_encoding(text), "surrogatepass")


def scan(text: str) -> Part:
    """Find every part of a text that is JSON; TextError for a key that stands twice in one object, and for too many levels."""
    root: Part | None = None
    open_parts: list[tuple[Part, bool]] = []
    key: tuple[str, int] | None = None
    tokens = list(_TOKEN.finditer(text))
    for index, token in enumerate(tokens):
        mark = token[0]
        if mark in "]}":
            open_parts.pop()[0].end = token.end()
        elif mark[0] == '"' and index + 1 < len(tokens) and tokens[index + 1][0] == ":":
            key = (json.loads(mark), token.start())
        elif mark not in ",:":
            part = Part(token.start(), token.end(), key[1] if key else None)
            if open_parts:
                _put(open_parts[-1], part, key, text)
            root, key = root or part, None
            if mark in "[{":
                open_parts.append((part, mark == "{"))
                _require_levels(len(open_parts), part, text)
    return root or Part(0)


def _put(parent: tuple[Part, bool], part: Part, key: tuple[str, int] | None, text: str) -> None:
    holder, is_object = parent
    name = key[0] if is_object and key else len(holder.parts)
    if name in holder.parts:
        raise _error(f"the key {name!r} stands twice in one object", part.key or part.start, text)
    holder.parts[name] = part


def _require_levels(levels: int, part: Part, text: str) -> None:
    if levels > MOST_LEVELS:
        raise _error(f"nested deeper than {MOST_LEVELS} levels", part.start, text)


def _error(reason: str, offset: int, text: str) -> TextError:
    line, column = text_place(text, offset)
    return TextError(reason, line=line, column=column)
