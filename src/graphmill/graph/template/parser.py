"""The template language: text with ``${…}`` parsed into frozen values, which print themselves back."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

from graphmill.core.errors import GraphmillError, cut
from graphmill.core.json import to_json

# The lookbehind keeps a long run of dollars linear: only its beginning is tried.
_DOLLARS_BEFORE_A_BRACE = re.compile(r"(?<!\$)\$+(?=\{)")
MAX_INDEX_LEVELS = 8
MAX_LITERAL_LEVELS = 50
_MAX_DIGITS = 1000
_MAX_SHOWN = 60

# str.isidentifier knows which of these are letters and marks of any script; \w is too narrow for that.
_NAME_LIKE = re.compile(r"[\w\u0080-\U0010ffff-]+")
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_OR = re.compile(r"[ \t\r\n]*\?\?[ \t\r\n]*")
_SPACE = " \t\r\n"
_LITERAL_WORDS = {"true": True, "false": False, "null": None}
_LITERAL_BEGINNINGS = tuple('"-0123456789[{')

_A_NAME = "a name consists of letters, digits, _ and -, and starts with a letter or _"
_A_MISSING_NAME = f"expected a name; {_A_NAME}"
_A_LOOKUP = "only names joined by dots, [index] and ?? are allowed; for the text ${ write $${"
_AN_INDEX = (
    "an index must be an integer, as in [0] or [-1], or one reference, as in [${i}]; write a fixed key after a dot, as "
    "in .key"
)
_A_DEFAULT = 'write a default after ??, as in ${name ?? "text"}'
_A_TEXT = "write text in double quotes"
_A_DEEP_LITERAL = f"this JSON literal is nested deeper than {MAX_LITERAL_LEVELS} levels"
_A_RESULT = (
    "a template only looks up values; compute or compare in a code node and look up its result; for the text ${ write "
    "$${"
)
_REMEDIES = {
    **dict.fromkeys("<>=!+*/%&^~", _A_RESULT),
    "(": "a template cannot call functions",
    "|": "templates have no filters",
    ":": _A_DEFAULT,
    "?": _A_DEFAULT,
    "$": "a reference inside another is only allowed as an index, as in ${list[${i}]}",
    "}": "spaces are only allowed around ??",
}


@dataclass(frozen=True, slots=True)
class Segment:
    """One name of a path with its indices: ``results[0]``, ``results[${i}]``."""

    name: str
    indices: tuple[int | Reference, ...] = ()

    def __str__(self) -> str:
        return self.name + "".join([written_index(index) for index in self.indices])


@dataclass(frozen=True, slots=True)
class Reference:
    """A path into the scope: ``fetch.response[0]``."""

    segments: tuple[Segment, ...]

    @property
    def root(self) -> str:
        """The name in the scope where the path starts."""
        return self.segments[0].name

    def __str__(self) -> str:
        return ".".join(map(str, self.segments))


@dataclass(frozen=True, slots=True)
class Literal:
    """A JSON value after ``??``."""

    value: Any = field(hash=False)

    def __str__(self) -> str:
        return to_json(self.value)


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One ``${…}``; its value is the first alternative that is found."""

    alternatives: tuple[Reference | Literal, ...]

    def __str__(self) -> str:
        return f"${{{' ?? '.join(map(str, self.alternatives))}}}"


@dataclass(frozen=True, slots=True)
class Template:
    """Text and placeholders in turn; no text is empty, and no two texts are neighbours."""

    parts: tuple[str | Placeholder, ...]

    @property
    def sole(self) -> Placeholder | None:
        """The placeholder that is the whole template, so that its value keeps its type."""
        if len(self.parts) == 1 and isinstance(self.parts[0], Placeholder):
            return self.parts[0]
        return None

    def __str__(self) -> str:
        following = (*self.parts, "")[1:]
        return "".join([_written(part, after) for part, after in zip(self.parts, following, strict=True)])


def written_index(index: int | Reference) -> str:
    """Print an index with its brackets."""
    if isinstance(index, int):
        return f"[{index}]"
    return f"[${{{index}}}]"


def _written(part: str | Placeholder, following: str | Placeholder) -> str:
    """Print a part; dollars before a brace are doubled."""
    if isinstance(part, Placeholder):
        return str(part)
    if isinstance(following, Placeholder):
        return _doubled(part + "{")[:-1]
    return _doubled(part)


def _doubled(text: str) -> str:
    return _DOLLARS_BEFORE_A_BRACE.sub(lambda dollars: dollars[0] * 2, text)


class TemplateError(GraphmillError, ValueError):
    """A malformed template; ``position`` is the offset of the mistake in the text."""

    def __init__(self, message: str, *, position: int) -> None:
        self.position = position
        super().__init__(message)


def parse(text: str) -> Template:
    """Parse a text with templates; TemplateError says what is wrong, where, and what to write instead.

    A doubled dollar before a brace is text: ``$${x}`` is the text ``${x}``, ``$$${x}`` a dollar and a placeholder.
    """
    parts: list[str | Placeholder] = []
    plain: list[str] = []
    at = 0
    while (opening := text.find("${", at)) >= 0:
        before = text[at:opening]
        text_before = before.rstrip("$")
        dollars, is_placeholder = divmod(len(before) - len(text_before) + 1, 2)
        plain += (text_before, "$" * dollars)
        if is_placeholder:
            placeholder, at = _PlaceholderReader(text, opening).read()
            parts += (*_joined(plain), placeholder)
            plain = []
        else:
            plain.append("{")
            at = opening + 2
    return Template((*parts, *_joined([*plain, text[at:]])))


def is_name(text: str) -> bool:
    """Return whether a root can have this name; ``true``, ``false`` and ``null`` are literals."""
    return _misfit(text) is None and text not in _LITERAL_WORDS


def _joined(texts: list[str]) -> tuple[str, ...]:
    whole = "".join(texts)
    return (whole,) if whole else ()


def _misfit(name: str) -> int | None:
    """Return the position of the first character that is not allowed in a name; None for a name."""
    if not name.startswith("-") and name.replace("-", "_").isidentifier():
        return None
    fits = [letter == "-" or f"_{letter}".isidentifier() for letter in name]
    if all(fits) or not name[0].isidentifier():
        return 0
    return fits.index(False)


class _PlaceholderReader:
    """Reads one placeholder, whose dollar is at ``opening``."""

    def __init__(self, text: str, opening: int) -> None:
        self._text = text
        self._opening = opening
        self._at = opening + 2

    def read(self) -> tuple[Placeholder, int]:
        alternatives: list[Reference | Literal] = [self._first()]
        while found := _OR.match(self._text, self._at):
            if isinstance(alternatives[-1], Literal):
                raise self._mistake("nothing may follow a literal, since it is always found", self._at)
            self._at = found.end()
            alternatives.append(self._alternative())
        self._close()
        return Placeholder(tuple(alternatives)), self._at

    def _first(self) -> Reference:
        if self._text.startswith(('"', "'", "[", "{"), self._at):
            raise self._mistake(f"a literal cannot come first; {_A_DEFAULT}", self._at)
        return self._reference(0)

    def _alternative(self) -> Reference | Literal:
        if self._text.startswith(_LITERAL_BEGINNINGS, self._at):
            return Literal(self._literal())
        word = _NAME_LIKE.match(self._text, self._at)
        if word and word[0] in _LITERAL_WORDS:
            self._at = word.end()
            return Literal(_LITERAL_WORDS[word[0]])
        if self._text.startswith("'", self._at):
            raise self._mistake(_A_TEXT, self._at)
        return self._reference(0)

    def _reference(self, level: int) -> Reference:
        start = self._at
        segments = [self._segment(level)]
        if segments[0].name in _LITERAL_WORDS:
            raise self._mistake(f"{segments[0].name} is a literal, not a name; {_A_DEFAULT}", start)
        while self._skip("."):
            segments.append(self._segment(level))
        return Reference(tuple(segments))

    def _segment(self, level: int) -> Segment:
        name = self._name()
        indices: list[int | Reference] = []
        while self._skip("["):
            indices.append(self._index(level))
            self._take("]", _AN_INDEX)
        return Segment(name, tuple(indices))

    def _name(self) -> str:
        found = _NAME_LIKE.match(self._text, self._at)
        if not found:
            if self._text.startswith("$", self._at):
                raise self._unexpected(_REMEDIES["$"])
            raise self._unexpected(_A_MISSING_NAME)
        misfit = _misfit(found[0])
        if misfit is not None:
            is_number = misfit == 0 and found[0].lstrip("-").isdecimal()
            rule = f"{_A_NAME}; write an index as [0]" if is_number else _A_NAME
            raise self._mistake(f"unexpected {found[0][misfit]!r}: {rule}", self._at + misfit)
        self._at = found.end()
        return found[0]

    def _index(self, level: int) -> int | Reference:
        if number := _NUMBER.match(self._text, self._at):
            self._at = number.end()
            return int(number[0])
        if not self._skip("${"):
            raise self._unexpected(_AN_INDEX)
        if level == MAX_INDEX_LEVELS:
            raise self._mistake(
                f"indices are nested deeper than {MAX_INDEX_LEVELS} levels; look up the inner value in a value node "
                "first",
                self._at,
            )
        reference = self._reference(level + 1)
        self._take("}", _AN_INDEX)
        return reference

    def _literal(self) -> Any:
        start = self._at
        try:
            value, self._at = _DECODER.raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            raise self._mistake(f"expected a reference or a JSON literal after ??: {error.msg}", error.pos) from None
        except ValueError as error:
            raise self._mistake(f"invalid JSON literal: {error}", start) from None
        except RecursionError:
            raise self._mistake(_A_DEEP_LITERAL, start) from None
        if _is_deeper(value, MAX_LITERAL_LEVELS):
            raise self._mistake(_A_DEEP_LITERAL, start)
        return value

    def _close(self) -> None:
        if not self._skip("}"):
            raise self._unexpected(_REMEDIES.get(self._ahead()[:1], _A_LOOKUP))

    def _take(self, mark: str, rule: str) -> None:
        if not self._skip(mark):
            raise self._unexpected(rule)

    def _skip(self, mark: str) -> bool:
        is_there = self._text.startswith(mark, self._at)
        self._at += len(mark) * is_there
        return is_there

    def _ahead(self) -> str:
        return self._text[self._at :].lstrip(_SPACE)

    def _unexpected(self, rule: str) -> TemplateError:
        ahead = self._ahead()
        if not ahead:
            return self._mistake("missing closing }; for the text ${ write $${", self._opening)
        position = len(self._text) - len(ahead)
        if position > self._at and _NAME_LIKE.match(ahead):
            return self._mistake(f"unexpected space: {_A_NAME}", self._at)
        return self._mistake(f"unexpected {ahead[0]!r}: {rule}", position)

    def _mistake(self, what: str, position: int) -> TemplateError:
        closing = self._text.find("}", position)
        end = closing + 1 if closing >= 0 else None
        shown = cut(self._text[self._opening : end], _MAX_SHOWN)
        return TemplateError(f"{shown!r}: {what} ({_place(self._text, position)})", position=position)


def _place(text: str, position: int) -> str:
    if "\n" not in text:
        return f"character {position + 1}"
    lines = text[:position].split("\n")
    return f"line {len(lines)}, column {len(lines[-1]) + 1}"


def _is_deeper(value: Any, levels: int) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return False
    return not levels or any(_is_deeper(entry, levels - 1) for entry in value)


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError(f"the number {digits[:20]} is too large")
    return number


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"the number {digits[:20]}… is too large")
    return int(digits)


def _refuse(word: str) -> None:
    raise ValueError(f"JSON has no {word}")


_DECODER = json.JSONDecoder(parse_float=_finite, parse_int=_integer, parse_constant=_refuse)
