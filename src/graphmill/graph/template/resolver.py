"""Values compiled once and resolved often: text with templates, and lists and mappings that hold such."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from graphmill.core.errors import Permanent, message_of
from graphmill.core.json import to_json
from graphmill.graph.template.lookup import Steps, Texts, is_sequence, missing, steps_of, walk
from graphmill.graph.template.parser import Literal, Lookup, Reference, parse


class Value(Protocol):
    """A JSON-like value, compiled."""

    @property
    def references(self) -> tuple[Reference, ...]:
        """All references in it, each once: those in an index and behind ``??`` too."""

    @property
    def is_constant(self) -> bool:
        """Whether it is the same in every scope."""

    def resolve(self, scope: Mapping[str, Any]) -> Any:
        """Give the value with each template replaced; Missing where there is nothing. What holds no template is not copied."""


def compile_value(value: Any) -> Value:
    """Compile a text, a list, a mapping (its values, not its keys) or a scalar; TemplateError of a text that is no template."""
    return _compiled(value)


def compile_params(params: Mapping[str, Any], in_pieces: Collection[str]) -> Value:
    """Compile a mapping of which some texts resolve to their pieces: what is written as it is, and each value in a list of its own."""
    return _container(params, dict(params), params, in_pieces)


def entries_of(value: Value) -> tuple[Value, ...] | None:
    """Give the entries of a list with templates in it, each to be resolved by itself; None for any other value."""
    if not isinstance(value, _Container) or not isinstance(value.base, list):
        return None
    changing = dict(value.changing)
    return tuple(
        [changing[number] if number in changing else _Constant(entry) for number, entry in enumerate(value.base)]
    )


def look_up(reference: Reference, scope: Mapping[str, Any]) -> Any:
    """Give what a reference leads to, or raise Missing."""
    return _whole(Lookup((reference,))).resolve(scope)


class _Compiled(ABC):
    """What a container asks of its entries; ``texts`` is what one resolve has read from JSON text."""

    __slots__ = ()
    references: tuple[Reference, ...]

    @property
    def is_constant(self) -> bool:
        return False

    @abstractmethod
    def fill(self, scope: Mapping[str, Any], texts: Texts) -> Any: ...

    def resolve(self, scope: Mapping[str, Any]) -> Any:
        return self.fill(scope, {})


@dataclass(frozen=True, slots=True)
class _Constant(_Compiled):
    value: Any
    references: tuple[Reference, ...] = ()

    @property
    def is_constant(self) -> bool:
        return True

    def fill(self, scope: Mapping[str, Any], texts: Texts) -> Any:
        del scope, texts
        return self.value


@dataclass(frozen=True, slots=True)
class _Whole(_Compiled):
    """A lookup that is a whole text, and so keeps the type of what it finds."""

    lookup: Lookup
    ways: tuple[Steps, ...]
    default: Literal | None
    references: tuple[Reference, ...]

    def fill(self, scope: Mapping[str, Any], texts: Texts) -> Any:
        for steps in self.ways:
            try:
                return walk(steps, scope, texts)
            except LookupError:
                pass
        if self.default is None:
            raise missing(self.lookup, scope, texts)
        return self.default.value


@dataclass(frozen=True, slots=True)
class _Mixed(_Compiled):
    """A text in which lookups become text."""

    parts: tuple[str | _Whole, ...]
    references: tuple[Reference, ...]

    def fill(self, scope: Mapping[str, Any], texts: Texts) -> str:
        return "".join([part if isinstance(part, str) else _text(part, part.fill(scope, texts)) for part in self.parts])


@dataclass(frozen=True, slots=True)
class _Pieces(_Compiled):
    """A text whose lookups are kept apart from what is written."""

    parts: tuple[str | _Whole, ...]
    references: tuple[Reference, ...]

    def fill(self, scope: Mapping[str, Any], texts: Texts) -> list[Any]:
        return [part if isinstance(part, str) else [part.fill(scope, texts)] for part in self.parts]


@dataclass(frozen=True, slots=True)
class _Container(_Compiled):
    """A list or dict of which some entries change; what resolves of it is a new one, with the others in it as they are."""

    base: Any
    changing: tuple[tuple[Any, _Compiled], ...]
    references: tuple[Reference, ...]

    def fill(self, scope: Mapping[str, Any], texts: Texts) -> Any:
        made = self.base.copy()
        for key, entry in self.changing:
            made[key] = entry.fill(scope, texts)
        return made


def _compiled(value: Any) -> _Compiled:
    if isinstance(value, str):
        return _text_value(value)
    if isinstance(value, Mapping):
        return _container(value, dict(value), value)
    if isinstance(value, list | tuple):
        return _container(value, list(value), range(len(value)))
    return _Constant(value)


def _text_value(text: str) -> _Compiled:
    if "${" not in text:
        return _Constant(text)
    template = parse(text)
    if template.sole:
        return _whole(template.sole)
    parts = tuple([part if isinstance(part, str) else _whole(part) for part in template.parts])
    references = _merged(part for part in parts if isinstance(part, _Whole))
    return _Mixed(parts, references) if references else _Constant("".join(map(str, parts)))


def _in_pieces(value: Any) -> _Compiled:
    compiled = _compiled(value)
    if isinstance(value, str) and isinstance(compiled, _Whole | _Mixed):
        return _Pieces((compiled,) if isinstance(compiled, _Whole) else compiled.parts, compiled.references)
    return compiled


def _whole(lookup: Lookup) -> _Whole:
    found = [entry for entry in lookup.alternatives if isinstance(entry, Reference)]
    default = next((entry for entry in lookup.alternatives if isinstance(entry, Literal)), None)
    references = tuple(dict.fromkeys(inner for reference in found for inner in _with_inner(reference)))
    return _Whole(lookup, tuple(map(steps_of, found)), default, references)


def _container(written: Any, base: Any, keys: Iterable[Any], in_pieces: Collection[str] = ()) -> _Compiled:
    entries = [(key, _in_pieces(base[key]) if key in in_pieces else _compiled(base[key])) for key in keys]
    changing = tuple([(key, entry) for key, entry in entries if not isinstance(entry, _Constant)])
    unescaped = [
        (key, entry.value) for key, entry in entries if isinstance(entry, _Constant) and entry.value is not base[key]
    ]
    for key, value in unescaped:
        base[key] = value
    if changing:
        return _Container(base, changing, _merged(entry for _, entry in changing))
    return _Constant(base if unescaped else written)


def _merged(entries: Iterable[_Compiled]) -> tuple[Reference, ...]:
    return tuple(dict.fromkeys(reference for entry in entries for reference in entry.references))


def _with_inner(reference: Reference) -> Iterator[Reference]:
    yield reference
    for segment in reference.segments:
        for index in segment.indices:
            if isinstance(index, Reference):
                yield from _with_inner(index)


def text_of(value: Any) -> str:
    """Give a value as it stands in a text: null is empty, anything else but text is JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else _json(value)


def _text(part: _Whole, value: Any) -> str:
    try:
        return text_of(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise Permanent(f"{part.lookup} can not stand in a text: {message_of(error)}") from error


def _json(value: Any) -> str:
    try:
        return to_json(value)
    except TypeError:  # a sequence that is no list may be in it
        return to_json(_plain(value))


def _plain(value: Any) -> Any:
    """Give what is like a dict or a list as one, to any depth, where it is not one already."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if is_sequence(value) else value
