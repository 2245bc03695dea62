"""Where the parts of a JSON text stand, found only when somebody asks: the reader itself does not tell."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from itertools import zip_longest

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
    scanner = _Scanner(text)
    tokens = list(_TOKEN.finditer(text))
    for token, after in zip_longest(tokens, tokens[1:]):
        mark = token[0]
        if mark in "]}":
            scanner.close(token.end())
        elif mark[0] == '"' and after is not None and after[0] == ":":
            scanner.key = (json.loads(mark), token.start())
        elif mark not in ",:":
            scanner.add(Part(token.start(), token.end()))
    return scanner.root or Part(0)


class _Scanner:
    """The parts found so far: the outermost, those that are open, and the key whose value comes next."""

    def __init__(self, text: str) -> None:
        self.root: Part | None = None
        self.key: tuple[str, int] | None = None
        self._text = text
        self._open: list[Part] = []

    def add(self, part: Part) -> None:
        if self.key is not None:
            part.key = self.key[1]
        if self._open:
            self._put(part, self._open[-1])
        self.root, self.key = self.root or part, None
        if self._text[part.start] in "[{":
            self._open.append(part)
            if len(self._open) > MOST_LEVELS:
                raise _error(f"nested deeper than {MOST_LEVELS} levels", part.start, self._text)

    def close(self, end: int) -> None:
        self._open.pop().end = end

    def _put(self, part: Part, holder: Part) -> None:
        name = self.key[0] if self.key is not None and self._text[holder.start] == "{" else len(holder.parts)
        if name in holder.parts:
            raise _error(f"the key {name!r} stands twice in one object", part.key or part.start, self._text)
        holder.parts[name] = part


def _error(reason: str, offset: int, text: str) -> TextError:
    line, column = text_place(text, offset)
    return TextError(reason, line=line, column=column)
