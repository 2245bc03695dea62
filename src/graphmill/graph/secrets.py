"""Secrets: values named as ``{env: NAME}``, and the redactor that keeps them out of messages and records."""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from graphmill.core.errors import Permanent
from graphmill.core.result import Failure

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MIN_CHARS = 4  # a shorter value is not treated as a secret: it would be found in any text
_PART_CHARS = 9  # a part of this length is redacted; "https://" is shorter, so ordinary text is left alone
_LABEL = re.compile(r"\{env: [A-Za-z_][A-Za-z0-9_]*\}")
_CUT = re.compile(r"…|\n|\Z")
_UNTOUCHED = ""
_QUOTING = "\\\"'"
_ESCAPE = re.compile(
    r"\\u(?P<pair>[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\u(?P<u>[0-9a-fA-F]{4})|\\x(?P<x>[0-9a-fA-F]{2})|\\(?P<space>[nrt])|\\(?P<mark>.)|(?P<letter>.)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Secret:
    """The name of an environment variable, read at each attempt; it holds no value."""

    name: str

    @property
    def is_valid(self) -> bool:
        """Whether an environment variable can have this name."""
        return _VARIABLE.fullmatch(self.name) is not None


def names_secret(value: Mapping[Any, Any]) -> bool:
    """Return whether a mapping is ``{env: NAME}``."""
    return len(value) == 1 and isinstance(value.get("env"), str)


def mark_secrets(value: Any) -> Any:
    """Replace each ``{env: NAME}`` by a Secret, at any depth; a value without one is returned as it is."""
    if isinstance(value, Mapping):
        if names_secret(value):
            return Secret(value["env"])
        made = {key: mark_secrets(entry) for key, entry in value.items()}
        is_changed = any(made[key] is not entry for key, entry in value.items())
        return made if is_changed else value
    if isinstance(value, list | tuple):
        entries = [mark_secrets(entry) for entry in value]
        is_changed = any(new is not old for new, old in zip(entries, value, strict=True))
        return entries if is_changed else value
    return value


def reveal_secrets(value: Any) -> Any:
    """Replace each Secret by its value in the environment; Permanent names a variable that is not set."""
    if isinstance(value, Secret):
        found = os.environ.get(value.name)
        if found is None:
            raise Permanent(f"environment variable {value.name} is not set; set it before the run")
        return found
    if isinstance(value, Mapping):
        return {key: reveal_secrets(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [reveal_secrets(entry) for entry in value]
    return value


def find_secrets(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Secret]]:
    """Yield each Secret in a value with its path."""
    if isinstance(value, Secret):
        yield at, value
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from find_secrets(entry, (*at, key))
    elif isinstance(value, list | tuple):
        for number, entry in enumerate(value):
            yield from find_secrets(entry, (*at, number))


@dataclass(frozen=True, slots=True)
class Redactor:
    """Replaces secrets in texts that are shown or stored: whole, in part, cut short, or written with escapes.

    ``names`` are environment variables, read at each use and replaced by ``{env: NAME}``; ``values`` are replaced by
    ``…``.
    """

    names: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    def __call__(self, failure: Failure) -> Failure:
        """Return a failure without secrets."""
        secrets = self._secrets()
        if not secrets:
            return failure
        return replace(
            failure,
            message=_redact(failure.message, secrets),
            traceback=_redact(failure.traceback, secrets),
            answer=_redact(failure.answer, secrets),
        )

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        secrets = self._secrets()
        return _redact(text, secrets) if secrets else text

    def data(self, value: Any) -> Any:
        """Replace only whole secrets in the texts of data: a part of one may be there by chance."""
        secrets = self._secrets()
        return _redact_data(value, secrets) if secrets else value

    def may_be_in(self, body: bytes) -> bool:
        """Return False only if no whole secret is in this JSON; a look that costs little."""
        for secret in self._secrets():
            is_plain = secret.value.isascii() and secret.value.isprintable() and not set(secret.value) & set(_QUOTING)
            if not is_plain or secret.value.encode() in body:  # other values can be written in many ways
                return True
        return False

    def _secrets(self) -> list[_Secret]:
        """Return all secrets, the longest first, since one may begin with another."""
        known = [(f"{{env: {name}}}", os.environ.get(name, "")) for name in self.names]
        known += [("…", value) for value in self.values]
        secrets = [_Secret(label, value, _loose(value)) for label, value in known if len(value) >= _MIN_CHARS]
        return sorted(secrets, key=lambda secret: len(secret.value), reverse=True)


class _Secret(NamedTuple):
    """A value to hide. A long one is found without regard to spaces and quotes, a short one only as it is."""

    label: str
    value: str
    loose: str

    @property
    def is_long(self) -> bool:
        return len(self.loose) >= _PART_CHARS

    @property
    def needle(self) -> str:
        return self.loose if self.is_long else self.value


class _Reading(NamedTuple):
    """One way to read a text: its letters, where each is in the text, and where the text may have been cut."""

    letters: str
    spans: list[tuple[int, int]]
    cuts: list[int]

    @classmethod
    def of(cls, letters: Iterable[tuple[str, tuple[int, int]]], cuts: list[int]) -> _Reading:
        pairs = list(letters)
        spans = [span for _, span in pairs]
        ends = [end for _, end in spans]
        return cls("".join(letter for letter, _ in pairs), spans, [bisect_right(ends, cut) for cut in cuts])

    def loosened(self, cuts: list[int]) -> _Reading:
        pairs = zip(self.letters, self.spans, strict=True)
        return _Reading.of((pair for pair in pairs if not _is_filler(pair[0])), cuts)


def _redact(text: str, secrets: list[_Secret]) -> str:
    cuts = [found.start() for found in _CUT.finditer(text)]
    exact = [_Reading.of(((letter, (at, at + 1)) for at, letter in enumerate(text)), cuts)]
    if "\\" in text:
        exact.append(_Reading.of(((_letter(found), found.span()) for found in _ESCAPE.finditer(text)), cuts))
    loose = [reading.loosened(cuts) for reading in exact]
    owners: list[str | None] = [None] * len(text)  # the label of the secret that each character belongs to
    for found in _LABEL.finditer(text):
        _claim(owners, found.start(), found.end(), _UNTOUCHED)
    for find in (_find_whole, _find_parts, _find_beginnings):
        for secret in secrets:
            for reading in loose if secret.is_long else exact:
                for first, end in find(secret.needle, reading):
                    _claim(owners, reading.spans[first][0], reading.spans[end - 1][1], secret.label)
    return "".join(_written(text, owners)) if any(owners) else text


def _claim(owners: list[str | None], start: int, end: int, label: str) -> None:
    for at in range(start, end):
        if owners[at] is None:
            owners[at] = label


def _find_whole(secret: str, reading: _Reading) -> Iterator[tuple[int, int]]:
    start = reading.letters.find(secret)
    while start >= 0:
        yield start, start + len(secret)
        start = reading.letters.find(secret, start + 1)


def _find_parts(secret: str, reading: _Reading) -> Iterator[tuple[int, int]]:
    parts = _parts(secret)
    if not parts:
        return
    for start in range(len(reading.letters) - _PART_CHARS + 1):
        if reading.letters[start : start + _PART_CHARS] in parts:
            yield start, start + _PART_CHARS


def _find_beginnings(secret: str, reading: _Reading) -> Iterator[tuple[int, int]]:
    """Find what is left of a secret where a text was cut, too short to be recognised as a part."""
    for end in reading.cuts:
        for count in range(min(_PART_CHARS, len(secret)), _MIN_CHARS - 1, -1):
            if reading.letters.endswith(secret[:count], 0, end):
                yield end - count, end
                break


@lru_cache(maxsize=64)
def _parts(secret: str) -> frozenset[str]:
    return frozenset(secret[start : start + _PART_CHARS] for start in range(len(secret) - _PART_CHARS + 1))


@lru_cache(maxsize=64)
def _loose(value: str) -> str:
    return "".join(letter for letter in value if not _is_filler(letter))


def _is_filler(letter: str) -> bool:
    return letter.isspace() or letter in _QUOTING


def _letter(found: re.Match[str]) -> str:
    kind, text = found.lastgroup, found[found.lastgroup or 0]
    if kind == "pair":
        high, low = int(text[:4], 16), int(text[6:], 16)
        return chr(0x10000 + ((high - 0xD800) << 10) + low - 0xDC00)
    if kind in ("u", "x"):
        return chr(int(text, 16))
    return " " if kind == "space" else text


def _written(text: str, owners: list[str | None]) -> Iterator[str]:
    last: str | None = None
    for letter, owner in zip(text, owners, strict=True):
        if not owner:
            yield letter
        elif owner != last:
            yield owner
        last = owner


def _redact_data(value: Any, secrets: list[_Secret]) -> Any:
    if isinstance(value, str):
        for secret in secrets:
            for form in (
                secret.value,
                json.dumps(secret.value)[1:-1],
                json.dumps(secret.value, ensure_ascii=False)[1:-1],
            ):
                value = value.replace(form, secret.label)
        return value
    if isinstance(value, Mapping):
        return {key: _redact_data(entry, secrets) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_redact_data(entry, secrets) for entry in value]
    return value
