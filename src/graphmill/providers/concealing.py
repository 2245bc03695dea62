"""Texts that an error message must not repeat: the key, other headers' values, and what the prompt says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from graphmill.core.model_call import ModelRequest

_HIDDEN = "…"
_KEY_PART_CHARS = 8
_PROMPT_PART_CHARS = 16
_LEAST_CHARS = 4
_MOST_SEARCHED_CHARS = 4_000_000


def without_secrets(text: str, *, key: str | None, headers: Mapping[str, str], request: ModelRequest | None = None) -> str:
    """Put ``…`` wherever a message repeats a secret, whole or a part of it that is long enough to be no accident."""
    values = [key or "", *headers.values(), *(word for value in headers.values() for word in value.split())]
    text = _without(text, values, _KEY_PART_CHARS)
    return text if request is None else _without(text, _prompts(request), _PROMPT_PART_CHARS)


def _prompts(request: ModelRequest) -> list[str]:
    return [message.text for message in request.messages]


def _without(text: str, secrets: Iterable[str], part_chars: int) -> str:
    known = [form for secret in dict.fromkeys(secrets) if len(secret) >= _LEAST_CHARS for form in _forms(secret)]
    if sum(map(len, known)) > _MOST_SEARCHED_CHARS:
        return f"{text.partition(':')[0]} (what was said is left out: it would have to be searched for the prompt)"
    is_hidden = bytearray(len(text))
    for form in known:
        width = min(part_chars, len(form))
        for start in range(len(text) - width + 1):
            if text[start : start + width] in form:
                is_hidden[start : start + width] = b"\1" * width
    return _written(text, is_hidden) if any(is_hidden) else text


def _forms(secret: str) -> set[str]:
    """Give a secret as it may be written inside JSON or Python, too."""
    return {secret, " ".join(secret.split()), json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]}


def _written(text: str, is_hidden: bytearray) -> str:
    letters = []
    for at, letter in enumerate(text):
        if not is_hidden[at]:
            letters.append(letter)
        elif not at or not is_hidden[at - 1]:
            letters.append(_HIDDEN)
    return "".join(letters)
