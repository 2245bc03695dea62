"""Texts that an error message must not repeat: keys and their like, and what the prompt says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from graphmill.core.model_call import Image, ModelRequest

_HIDDEN = "…"
_KEY_PART_CHARS = 8
_PROMPT_PART_CHARS = 12
_LEAST_CHARS = 4
_MOST_IMAGE_CHARS = 2000  # more than a message shows of it
_MOST_SEARCHED_CHARS = 1_000_000
_ESCAPED = re.compile(
    r"\\(?:u(?P<u>[0-9a-fA-F]{4})|x(?P<x>[0-9a-fA-F]{2})|(?P<space>[nrt])|(?P<mark>.))|(?P<letter>.)", re.DOTALL
)
_MARKS = "\\\"'"


def without_secrets(text: str, secrets: Iterable[str], request: ModelRequest | None = None) -> str:
    """Put ``…`` wherever a message repeats a secret, whole or a part of it that is long enough to be no accident.

    It is known as well where it is written with escapes, as inside JSON, or with other spaces.
    """
    text = _without(text, secrets, _KEY_PART_CHARS)
    return text if request is None else _without(text, _said(request), _PROMPT_PART_CHARS)


def _said(request: ModelRequest) -> Iterator[str]:
    for message in request.messages:
        yield message.text
        for part in () if isinstance(message.content, str) else message.content:
            if isinstance(part, Image):
                yield part.url or (part.data or "")[:_MOST_IMAGE_CHARS]


def _without(text: str, secrets: Iterable[str], part_chars: int) -> str:
    known = [core for secret in dict.fromkeys(secrets) if len(core := _core(secret)) >= _LEAST_CHARS]
    if sum(map(len, known)) > _MOST_SEARCHED_CHARS:
        return f"{text.partition(':')[0]} (what was said is left out: the prompt is too long to be searched for it)"
    is_hidden = bytearray(len(text))
    for core, spans in _readings(text):
        for secret in known:
            width = min(part_chars, len(secret))
            for start in _starts(core, secret, width):
                first, last = spans[start][0], spans[start + width - 1][1]
                is_hidden[first:last] = b"\1" * (last - first)
    return _written(text, is_hidden) if any(is_hidden) else text


def _core(text: str) -> str:
    """Give a text without what may be written in several ways."""
    core = "".join(text.split())
    for mark in _MARKS:
        core = core.replace(mark, "")
    return core


def _readings(text: str) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Give the core of a message, and of each of its characters where it stands: as it is, and with its escapes undone."""
    yield _reading((letter, (at, at + 1)) for at, letter in enumerate(text))
    if "\\" in text:
        yield _reading((_letter(found), found.span()) for found in _ESCAPED.finditer(text))


def _reading(letters: Iterable[tuple[str, tuple[int, int]]]) -> tuple[str, list[tuple[int, int]]]:
    kept = [pair for pair in letters if not pair[0].isspace() and pair[0] not in _MARKS]
    return "".join(letter for letter, _ in kept), [span for _, span in kept]


def _letter(found: re.Match[str]) -> str:
    kind, said = found.lastgroup, found[found.lastgroup or 0]
    return chr(int(said, 16)) if kind in ("u", "x") else " " if kind == "space" else said


def _starts(text: str, secret: str, width: int) -> Iterator[int]:
    """Find where so many characters of a text stand in a secret, too; every such run covers one block of half as many."""
    half = (width + 1) // 2
    for at in range(0, len(text) - half + 1, half):
        if text[at : at + half] in secret:
            for start in range(max(0, at + half - width), min(at, len(text) - width) + 1):
                if text[start : start + width] in secret:
                    yield start


def _written(text: str, is_hidden: bytearray) -> str:
    letters = []
    for at, letter in enumerate(text):
        if not is_hidden[at]:
            letters.append(letter)
        elif not at or not is_hidden[at - 1]:
            letters.append(_HIDDEN)
    return "".join(letters)
