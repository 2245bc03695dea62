"""Values with templates, compiled once and resolved often: text, and lists and mappings that contain it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from graphmill.core.errors import Permanent, message_of
from graphmill.core.json import to_json
from graphmill.graph.template.lookup import Steps, Texts, is_sequence, missing, steps_of, walk
from graphmill.graph.template.parser import Literal, Placeholder, Reference, parse


class CompiledValue(Protocol):
    """A JSON-like value, compiled."""

    @property
    def references(self) -> tuple[Reference, ...]:
        """All references in it, each once, including those in an index and after ``??``."""

    @property
    def is_constant(self) -> bool:
        """Whether it is the same in every scope."""

    def resolve(self, scope: Mapping[str, Any]) -> Any:
        """Return the value with each template replaced; Missing if nothing is found. Parts without templates are not copied."""


def compile_value(value: Any) -> CompiledValue:
    """Compile a text, a list, the values of a mapping, or a scalar; TemplateError for a malformed template."""
    return _compiled(value)


def compile_params(params: Mapping[str, Any], in_pieces: Collection[str]) -> CompiledValue:
    """Compile a mapping in which some texts resolve to their pieces: written text as it is, and each value in a list of its own."""
    return _container(params, dict(params), params, in_pieces)


def entries_of(value: CompiledValue) -> tuple[CompiledValue, ...] | None:
    """Return the entries of a list that contains templates, each to be resolved on its own; None for any other value."""
    if not isinstance(value, _Container) or not isinstance(value.base, list):
        return None
    changing = dict(value.changing)
    return tuple([changing.get(number) or _Constant(entry) for number, entry in enumerate(value.base)])


def look_up(reference: Reference, scope: Mapping[str, Any]) -> Any:
    """Return what a reference leads to; Missing if that is nothing."""
    return _whole(Placeholder((reference,))).resolve(scope)


class _Compiled(ABC):
    """Any compiled value; ``texts`` caches the JSON text that one resolve has read."""

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
    """A placeholder that is a whole text, so that its value keeps its type."""

    placeholder: Placeholder
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
            raise missing(self.placeholder, scope, texts)
        return self.default.value


@dataclass(frozen=True, slots=True)
class _Mixed(_Compiled):
    """A text in which placeholders become text."""

    parts: tuple[str | _Whole, ...]
    references: tuple[Reference, ...]

    def fill(self, scope: Mapping[str, Any], texts: Texts) -> str:
        return "".join([part if isinstance(part, str) else _text(part, part.fill(scope, texts)) for part in self.parts])


@dataclass(frozen=True, slots=True)
class _Pieces(_Compiled):
    """A text whose values are kept apart from the written text."""

    parts: tuple[str | _Whole, ...]
    references: tuple[Reference, ...]

    def fill(self, scope: Mapping[str, Any], texts: Texts) -> list[Any]:
        return [part if isinstance(part, str) else [part.fill(scope, texts)] for part in self.parts]


@dataclass(frozen=True, slots=True)
class _Container(_Compiled):
    """A list or dict with changing entries; it resolves to a copy in which the other entries are the same objects."""

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
    if isinstance(compiled, _Whole) and isinstance(value, str):
        return _Pieces((compiled,), compiled.references)
    if isinstance(compiled, _Mixed):
        return _Pieces(compiled.parts, compiled.references)
    return compiled


def _whole(placeholder: Placeholder) -> _Whole:
    found = [entry for entry in placeholder.alternatives if isinstance(entry, Reference)]
    default = next((entry for entry in placeholder.alternatives if isinstance(entry, Literal)), None)
    references = tuple(dict.fromkeys(inner for reference in found for inner in _with_inner(reference)))
    return _Whole(placeholder, tuple(map(steps_of, found)), default, references)


def _container(written: Any, base: Any, keys: Iterable[Any], in_pieces: Collection[str] = ()) -> _Compiled:
    entries = []
    for key in keys:
        compile_entry = _in_pieces if key in in_pieces else _compiled
        entries.append((key, compile_entry(base[key])))
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
    """Return a value as part of a text: null is empty, anything else but text is JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return _json(value)


def _text(part: _Whole, value: Any) -> str:
    try:
        return text_of(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise Permanent(f"{part.placeholder} cannot be part of a text: {message_of(error)}") from error


def _json(value: Any) -> str:
    try:
        return to_json(value)
    except TypeError:  # it may contain a sequence that is not a list
        return to_json(_plain(value))


def _plain(value: Any) -> Any:
    """Convert what is like a dict or a list to one, at any depth."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if is_sequence(value):
        return [_plain(entry) for entry in value]
    return value
