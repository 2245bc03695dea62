"""Templates parsed into frozen values that print themselves back."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

from graphmill.core.errors import GraphmillError
from graphmill.core.json import to_json

# The lookbehind keeps a long run of dollars linear: it is tried at its beginning only.
_DOLLARS_BEFORE_A_BRACE = re.compile(r"(?<!\$)\$+(?=\{)")
MOST_INDEX_LEVELS = 8
MOST_LITERAL_LEVELS = 50
_MOST_DIGITS = 1000
_MOST_SHOWN = 60

# Which of these are letters and their marks, of any script, str.isidentifier knows; \w is too narrow for it.
_NAME_LIKE = re.compile(r"[\w\u0080-\U0010ffff-]+")
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_OR = re.compile(r"[ \t\r\n]*\?\?[ \t\r\n]*")
_SPACE = " \t\r\n"
_LITERAL_WORDS = {"true": True, "false": False, "null": None}
_LITERAL_BEGINNINGS = tuple('"-0123456789[{')

_A_NAME = "a name has letters, digits, _ and -, and begins with a letter or _"
_A_MISSING_NAME = "a name is wanted, of letters, digits, _ and -, that begins with a letter or _"
_A_LOOKUP = "names joined by dots, [index] and ?? are all that can stand in it; for the text ${ write $${"
_AN_INDEX = (
    "an index is a whole number, as [0] or [-1], or one reference, as [${i}]; a key is written behind a dot, as .key"
)
_A_DEFAULT = 'a default is written behind ??, as ${name ?? "text"}'
_A_TEXT = "a text stands in double quotes"
_A_DEEP_LITERAL = f"this JSON literal is nested deeper than {MOST_LITERAL_LEVELS} levels"
_A_RESULT = (
    "a template only looks up; let a code node compare or compute, and look up its result; for the text ${ write $${"
)
_REMEDIES = {
    **dict.fromkeys("<>=!+*/%&^~", _A_RESULT),
    "(": "nothing can be called",
    "|": "there are no filters",
    ":": _A_DEFAULT,
    "?": _A_DEFAULT,
    "$": "a reference inside another stands only as an index, as ${list[${i}]}",
    "}": "spaces stand only around ??",
}


@dataclass(frozen=True, slots=True)
class Segment:
    """One name of a path with the indices behind it: ``results[0]``, ``results[${i}]``."""

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
        """The name in the scope at which the path begins."""
        return self.segments[0].name

    def __str__(self) -> str:
        return ".".join(map(str, self.segments))


@dataclass(frozen=True, slots=True)
class Literal:
    """A JSON value that stands behind ``??``."""

    value: Any = field(hash=False)

    def __str__(self) -> str:
        return to_json(self.value)


@dataclass(frozen=True, slots=True)
class Lookup:
    """The inside of one ``${…}``: the first alternative that is found is its value."""

    alternatives: tuple[Reference | Literal, ...]

    def __str__(self) -> str:
        return f"${{{' ?? '.join(map(str, self.alternatives))}}}"


@dataclass(frozen=True, slots=True)
class Template:
    """Text and lookups in turn; no text is empty and no two stand side by side."""

    parts: tuple[str | Lookup, ...]

    @property
    def sole(self) -> Lookup | None:
        """The lookup that is the whole template, whose value keeps its type."""
        return self.parts[0] if len(self.parts) == 1 and isinstance(self.parts[0], Lookup) else None

    def __str__(self) -> str:
        following = (*self.parts, "")[1:]
        return "".join([_written(part, after) for part, after in zip(self.parts, following, strict=True)])


def written_index(index: int | Reference) -> str:
    """Print an index with its brackets."""
    return f"[{index}]" if isinstance(index, int) else f"[${{{index}}}]"


def _written(part: str | Lookup, following: str | Lookup) -> str:
    """Print a part; dollars that stand before a brace, or before what begins with one, are doubled."""
    if isinstance(part, Lookup):
        return str(part)
    if isinstance(following, Lookup):
        return _doubled(part + "{")[:-1]
    return _doubled(part)


def _doubled(text: str) -> str:
    return _DOLLARS_BEFORE_A_BRACE.sub(lambda dollars: dollars[0] * 2, text)


class TemplateError(GraphmillError, ValueError):
    """A text that begins a lookup and is none; ``position`` is where in it the mistake stands, counted from 0."""

    def __init__(self, message: str, *, position: int) -> None:
        self.position = position
        super().__init__(message)


def parse(text: str) -> Template:
    """Read a text with templates; TemplateError says what is wrong, where, and what would be right.

    Dollars directly before a brace are doubled to be text: ``$${x}`` is the text ``${x}``, ``$$${x}`` a dollar and a lookup.
    """
    parts: list[str | Lookup] = []
    plain: list[str] = []
    at = 0
    while (opening := text.find("${", at)) >= 0:
        before = text[at:opening]
        kept = before.rstrip("$")
        dollars, is_lookup = divmod(len(before) - len(kept) + 1, 2)
        plain += (kept, "$" * dollars)
        if is_lookup:
            lookup, at = _Reader(text, opening).lookup()
            parts += (*_joined(plain), lookup)
            plain = []
        else:
            plain.append("{")
            at = opening + 2
    return Template((*parts, *_joined([*plain, text[at:]])))


def is_name(text: str) -> bool:
    """Tell whether a root can have this name; ``true``, ``false`` and ``null`` are literals instead."""
    return _misfit(text) is None and text not in _LITERAL_WORDS


def _joined(texts: list[str]) -> tuple[str, ...]:
    whole = "".join(texts)
    return (whole,) if whole else ()


def _misfit(name: str) -> int | None:
    """Find the first character that keeps this from being a name."""
    if not name.startswith("-") and name.replace("-", "_").isidentifier():
        return None
    fits = [letter == "-" or f"_{letter}".isidentifier() for letter in name]
    return 0 if all(fits) or not name[0].isidentifier() else fits.index(False)


class _Reader:
    """Reads one lookup, whose dollar stands at ``opening``."""

    def __init__(self, text: str, opening: int) -> None:
        self._text = text
        self._opening = opening
        self._at = opening + 2

    def lookup(self) -> tuple[Lookup, int]:
        alternatives: list[Reference | Literal] = [self._first()]
        while found := _OR.match(self._text, self._at):
            if isinstance(alternatives[-1], Literal):
                raise self._mistake("a literal is always found, so nothing can stand behind it", self._at)
            self._at = found.end()
            alternatives.append(self._alternative())
        self._close()
        return Lookup(tuple(alternatives)), self._at

    def _first(self) -> Reference:
        if self._text.startswith(('"', "'", "[", "{"), self._at):
            raise self._mistake(f"a literal can not come first; {_A_DEFAULT}", self._at)
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
            raise self._mistake(f"{segments[0].name} is a literal, no name; {_A_DEFAULT}", start)
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
            raise self._unexpected(_REMEDIES["$"] if self._text.startswith("$", self._at) else _A_MISSING_NAME)
        misfit = _misfit(found[0])
        if misfit is not None:
            hint = "; an index is written [0]" if misfit == 0 and found[0].lstrip("-").isdecimal() else ""
            raise self._mistake(f"{found[0][misfit]!r} can not stand here: {_A_NAME}{hint}", self._at + misfit)
        self._at = found.end()
        return found[0]

    def _index(self, level: int) -> int | Reference:
        if number := _NUMBER.match(self._text, self._at):
            self._at = number.end()
            return int(number[0])
        if not self._skip("${"):
            raise self._unexpected(_AN_INDEX)
        if level == MOST_INDEX_LEVELS:
            raise self._mistake(
                f"indices are nested deeper than {MOST_INDEX_LEVELS} levels; split it with a value node", self._at
            )
        reference = self._reference(level + 1)
        self._take("}", _AN_INDEX)
        return reference

    def _literal(self) -> Any:
        start = self._at
        try:
            value, self._at = _DECODER.raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            raise self._mistake(
                f"behind ?? stands a reference or a JSON literal, and this is neither: {error.msg}", error.pos
            ) from None
        except ValueError as error:
            raise self._mistake(f"this JSON literal can not be read: {error}", start) from None
        except RecursionError:
            raise self._mistake(_A_DEEP_LITERAL, start) from None
        if _is_deeper(value, MOST_LITERAL_LEVELS):
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
            return self._mistake("it is not closed: a } is wanted; for the text ${ write $${", self._opening)
        position = len(self._text) - len(ahead)
        if position > self._at and _NAME_LIKE.match(ahead):
            return self._mistake(f"a space can not stand here: {_A_NAME}", self._at)
        return self._mistake(f"{ahead[0]!r} can not stand here: {rule}", position)

    def _mistake(self, what: str, position: int) -> TemplateError:
        closing = self._text.find("}", position)
        shown = self._text[self._opening : closing + 1 if closing >= 0 else None]
        shown = shown if len(shown) <= _MOST_SHOWN else shown[: _MOST_SHOWN - 1] + "…"
        return TemplateError(f"{shown!r}: {what} ({_place(self._text, position)})", position=position)


def _place(text: str, position: int) -> str:
    lines = text[:position].split("\n")
    return f"line {len(lines)}, column {len(lines[-1]) + 1}" if "\n" in text else f"character {position + 1}"


def _is_deeper(value: Any, levels: int) -> bool:
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return entries is not None and (not levels or any(_is_deeper(entry, levels - 1) for entry in entries))


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError(f"the number {digits[:20]} is too large")
    return number


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"the number {digits[:20]}… is too large")
    return int(digits)


def _refuse(word: str) -> None:
    raise ValueError(f"JSON has no {word}")


_DECODER = json.JSONDecoder(parse_float=_finite, parse_int=_integer, parse_constant=_refuse)
