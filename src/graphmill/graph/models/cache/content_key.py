"""The content key of a call: all that decides its answer, and nothing that lets it in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from graphmill.core.json import canonical, digest
from graphmill.core.model_call import ModelRequest
from graphmill.graph.models.answer_schema import AnswerSchema
from graphmill.graph.models.target import Target
from graphmill.graph.secrets import Secret

_FORMAT = 2
_TEMPERATURE = "temperature"
_REAL = (_TEMPERATURE, "top_p")


def is_cacheable(target: Target, request: ModelRequest, cache: bool | None) -> bool:  # noqa: FBT001
    """Tell whether an answer may be used again: where that is asked for, or where the same is to be expected, at temperature 0."""
    if cache is False or not getattr(target.provider, "is_cached", True):
        return False
    return cache is True or (request.temperature == 0 and all(value == 0 for value in _temperatures(request.extra)))


def content_key(target: Target, request: ModelRequest, schema: AnswerSchema | None) -> bytes | None:
    """Give the key; None for a call that can not be made, which says so itself."""
    try:
        return digest(canonical([_FORMAT, *_where(target), asked(request, schema), max(1, request.origin.sample)]))
    except (TypeError, ValueError, RecursionError, KeyError):
        return None


def asked(request: ModelRequest, schema: AnswerSchema | None) -> list[Any]:
    """Give as data what is asked, whoever is; a temperature of 0 is one of 0.0."""
    sent: dict[str, Any] = msgspec.to_builtins(request)
    del sent["origin"]
    for name in _REAL:
        if isinstance(sent[name], int):
            sent[name] = float(sent[name])
    return [sent, None if schema is None else schema.json]


def _where(target: Target) -> list[Any]:
    """Tell who is asked: secrets by their names, and of an address that may hold one, host and path alone."""
    setting, parts = target.setting, urlsplit(target.address)
    query = parts.query if isinstance(setting.address, str) else ""
    headers = {
        name: {"env": value.name} if isinstance(value, Secret) else value for name, value in setting.headers.items()
    }
    return [target.provider.name, parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, headers]


def _temperatures(extra: Mapping[str, Any]) -> Iterator[Any]:
    """Find what is put over the temperature, at any depth."""
    for name, value in extra.items():
        if name == _TEMPERATURE:
            yield value
        elif isinstance(value, Mapping):
            yield from _temperatures(value)
