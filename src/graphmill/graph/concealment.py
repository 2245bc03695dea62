"""Concealment: texts that repeat a secret, whole, in part or cut short, with its name in its place."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from graphmill.core.result import Failure

_LEAST_CHARS = 4  # what is shorter is no secret, and would be found in any text
_PART_CHARS = (
    9  # a part of a secret counts from so many on, which is more than "https://": fewer stand in any text by chance
)
_TOLD = re.compile(r"\{env: [A-Za-z_][A-Za-z0-9_]*\}")
_CUT = re.compile(r"…|\n|\Z")
_AS_IT_IS = ""


def concealed(names: Iterable[str], failure: Failure) -> Failure:
    """Put ``{env: NAME}`` wherever a failure repeats the value of one of these variables, or a part of it."""
    secrets = _secrets(names)
    if not secrets:
        return failure
    message, traceback, answer = (
        _without(secrets, text) for text in (failure.message, failure.traceback, failure.answer)
    )
    return replace(failure, message=message, traceback=traceback, answer=answer)


def concealed_text(names: Iterable[str], text: str) -> str:
    """Do the same to a text."""
    secrets = _secrets(names)
    return _without(secrets, text) if secrets else text


@dataclass(frozen=True, slots=True)
class Concealment:
    """Conceals the secrets of a workflow, and of all workflows inside it, by the names of their variables."""

    names: tuple[str, ...]

    def __call__(self, failure: Failure) -> Failure:
        """Give a failure as it may be kept."""
        return concealed(self.names, failure) if self.names else failure

    def output(self, values: Any) -> Any:
        """Put ``{env: NAME}`` wherever a text of a JSON-like value repeats a secret in whole."""
        secrets = _secrets(self.names)
        return _replaced(secrets, values) if secrets else values


def _replaced(secrets: list[tuple[str, _Forms]], value: Any) -> Any:
    if isinstance(value, str):
        for name, forms in secrets:
            for form in forms.whole:
                value = value.replace(form, f"{{env: {name}}}")
        return value
    if isinstance(value, Mapping):
        return {key: _replaced(secrets, entry) for key, entry in value.items()}
    return [_replaced(secrets, entry) for entry in value] if isinstance(value, list | tuple) else value


class _Forms(NamedTuple):
    """How a value is written in messages, longest first, and every part of it that is long enough."""

    whole: tuple[str, ...]
    parts: frozenset[str]


@lru_cache(maxsize=64)
def _forms(value: str) -> _Forms:
    written = (value, repr(value)[1:-1], json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    whole = sorted(dict.fromkeys(written), key=len, reverse=True)
    parts = (form[start : start + _PART_CHARS] for form in whole for start in range(len(form) - _PART_CHARS + 1))
    return _Forms(tuple(whole), frozenset(parts))


def _secrets(names: Iterable[str]) -> list[tuple[str, _Forms]]:
    """Give the secrets with their forms, the longest first: one may begin with another."""
    values = [(name, os.environ.get(name, "")) for name in names]
    known = sorted(
        (pair for pair in values if len(pair[1]) >= _LEAST_CHARS), key=lambda pair: len(pair[1]), reverse=True
    )
    return [(name, _forms(value)) for name, value in known]


def _without(secrets: list[tuple[str, _Forms]], text: str) -> str:
    owners: list[str | None] = [None] * len(text)  # of each character, the secret that it belongs to
    for told in _TOLD.finditer(text):
        _claim(owners, told.start(), told.end(), _AS_IT_IS)
    for find in (_whole, _parts, _beginnings):
        for name, forms in secrets:
            for start, end in find(forms, text):
                _claim(owners, start, end, name)
    return text if all(owner in (None, _AS_IT_IS) for owner in owners) else "".join(_written(text, owners))


def _claim(owners: list[str | None], start: int, end: int, name: str) -> None:
    for at in range(start, end):
        if owners[at] is None:
            owners[at] = name


def _whole(forms: _Forms, text: str) -> Iterator[tuple[int, int]]:
    for form in forms.whole:
        start = text.find(form)
        while start >= 0:
            yield start, start + len(form)
            start = text.find(form, start + 1)


def _parts(forms: _Forms, text: str) -> Iterator[tuple[int, int]]:
    for start in range(len(text) - _PART_CHARS + 1):
        if text[start : start + _PART_CHARS] in forms.parts:
            yield start, start + _PART_CHARS


def _beginnings(forms: _Forms, text: str) -> Iterator[tuple[int, int]]:
    """Find what is left of a secret where a text was cut, too short to be known as a part."""
    for cut in _CUT.finditer(text):
        end = cut.start()
        for form in forms.whole:
            for count in range(min(_PART_CHARS, len(form)), _LEAST_CHARS - 1, -1):
                if text.endswith(form[:count], 0, end):
                    yield end - count, end
                    break


def _written(text: str, owners: list[str | None]) -> Iterator[str]:
    last: str | None = None
    for letter, owner in zip(text, owners, strict=True):
        if not owner:
            yield letter
        elif owner != last:
            yield f"{{env: {owner}}}"
        last = owner
