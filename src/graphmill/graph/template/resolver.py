"""Values with templates, compiled once and resolved often: text, and lists and mappings that contain it.

References look mappings up by name and lists by index, also in JSON text; a missing one is explained.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from graphmill.core.errors import Permanent, cut, message_of
from graphmill.core.json import to_json
from graphmill.core.suggest import suggestion
from graphmill.graph.template.parser import Literal, Placeholder, Reference, parse, written_index


class CompiledValue(Protocol):
    """A JSON-like value, compiled."""

    @property
    def references(self) -> tuple[Reference, ...]:
        """All references in it, each once, including those in an index and after ``??``."""

    @property
    def is_constant(self) -> bool:
        """Whether it is the same in every scope."""

    def resolve(self, scope: Mapping[str, Any]) -> Any:
        """Return the value with each template replaced; Missing if nothing is found. Other parts are not copied."""


def compile_value(value: Any) -> CompiledValue:
    """Compile a text, a list, the values of a mapping, or a scalar; TemplateError for a malformed template."""
    return _compiled(value)


def compile_params(params: Mapping[str, Any], in_pieces: Collection[str]) -> CompiledValue:
    """Compile a mapping; ``in_pieces`` texts resolve to lists: written text as it is, each value in its own list."""
    return _container(params, dict(params), params, in_pieces)


def entries_of(value: CompiledValue) -> tuple[CompiledValue, ...] | None:
    """Return the entries of a list that contains templates, to be resolved one by one; None for any other value."""
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


# A step is (dict, name), (list, index), or (None, steps) where an index is itself looked up.
Step = tuple[Any, Any]
Steps = tuple[Step, ...]
Texts = dict[str, Any]

_CONTAINER_TEXT = re.compile(r"[ \t\r\n]*[\[{]")
ABSENT = "#absent"  # a key that no template can name: it maps names that are not there to the reason
_MAX_NAMES = 20
_MAX_CHARS = 40
_MAX_PLACEHOLDER_CHARS = 200
_MAX_CANDIDATES = 200


def steps_of(reference: Reference) -> Steps:
    """Flatten a reference into steps."""
    return tuple(_steps(reference))


def _steps(reference: Reference) -> Iterator[Step]:
    for segment in reference.segments:
        yield dict, segment.name
        for index in segment.indices:
            yield (None, steps_of(index)) if isinstance(index, Reference) else (list, index)


def walk(steps: Steps, scope: Mapping[str, Any], texts: Texts) -> Any:
    """Follow the steps from a scope; LookupError if nothing is there. ``texts`` caches data read from JSON text."""
    value: Any = scope
    for kind, step in steps:
        value = value[step] if type(value) is kind else _entry(open_text(value, texts), _key(step, scope, texts))
    return value


def open_text(value: Any, texts: Texts) -> Any:
    """Return the object or list that a JSON text holds, read once; any other value as it is."""
    if not isinstance(value, str):
        return value
    if value not in texts:
        texts[value] = data_in(value)
    return value if texts[value] is None else texts[value]


def data_in(text: str) -> dict[str, Any] | list[Any] | None:
    """Read a text that is a JSON object or list; None for any other text."""
    if not _CONTAINER_TEXT.match(text):
        return None
    try:
        found: dict[str, Any] | list[Any] = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found


def is_sequence(value: Any) -> bool:
    """Return whether a value is a list or like one, and not text."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview)


def is_index(value: Any) -> bool:
    """Return whether a value is an integer, and not a bool, or text."""
    return isinstance(value, int | str) and not isinstance(value, bool)


def _key(step: Any, scope: Mapping[str, Any], texts: Texts) -> str | int:
    if not isinstance(step, tuple):
        return step  # type: ignore[no-any-return]
    index = walk(step, scope, texts)
    if not is_index(index):
        raise LookupError
    return index  # type: ignore[no-any-return]


def _entry(value: Any, key: str | int) -> Any:
    """Return one entry. A mapping is asked with ``in`` first, since some make up missing entries."""
    if isinstance(key, str):
        if isinstance(value, Mapping) and key in value:
            return value[key]
    elif is_sequence(value) and -len(value) <= key < len(value):
        return value[key % len(value)]
    raise LookupError


class Missing(Permanent):
    """A reference that leads to nothing; the message says where it ends and what is there."""


def missing(placeholder: Placeholder, scope: Mapping[str, Any], texts: Texts) -> Missing:
    """Explain for each reference why it is missing, by following it again."""
    references = [each for each in placeholder.alternatives if isinstance(each, Reference)]
    reasons = [_reason(reference, scope, texts) for reference in references]
    return Missing(f"{cut(str(placeholder), _MAX_PLACEHOLDER_CHARS)} is missing: {'; '.join(reasons)}")


def _reason(reference: Reference, scope: Mapping[str, Any], texts: Texts) -> str:
    value: Any = scope
    keys = _keys(reference)
    steps = steps_of(reference)
    for number, key in enumerate(keys):
        try:
            reached = walk(steps[: number + 1], scope, texts)
        except LookupError:
            way = "".join(map(_written, keys[:number])).removeprefix(".")
            return _stop(key, open_text(value, texts), way=way, scope=scope, texts=texts)
        value = reached
    return "it was not there when it was looked up"


def _keys(reference: Reference) -> list[str | int | Reference]:
    return [key for segment in reference.segments for key in (segment.name, *segment.indices)]


def _written(key: str | int | Reference) -> str:
    if isinstance(key, str):
        return f".{key}"
    return written_index(key)


def _stop(key: str | int | Reference, value: Any, *, way: str, scope: Mapping[str, Any], texts: Texts) -> str:
    """Say why a path ends at a value."""
    if not isinstance(key, Reference):
        return _gap(key, value, way=way)
    try:
        index = walk(steps_of(key), scope, texts)
    except LookupError:
        return f"in its index, {_reason(key, scope, texts)}"
    if not is_index(index):
        return f"its index ${{{key}}} must be an integer or text, got {_kind(index)}"
    return _gap(index, value, way=way)


def _gap(key: str | int, value: Any, *, way: str) -> str:
    if not way and isinstance(value, Mapping):
        if key in value.get(ABSENT, ()):
            return str(value[ABSENT][key])
        value = {name: entry for name, entry in value.items() if name != ABSENT}
    if isinstance(key, int):
        absent = f"no [{key}]"
    else:
        absent = f"no {cut(key, _MAX_CHARS)!r}"
    if way:
        absent = f"{absent} in {cut(way, _MAX_PLACEHOLDER_CHARS)}"
    if isinstance(key, int) and is_sequence(value):
        return f"{absent}, which has {len(value)} {_entries(len(value))}"
    if isinstance(value, Mapping):
        return f"{absent}{_nearest(key, value)}; available: {_names(value)}"
    if isinstance(value, str):
        return f"{absent}, which is text without a JSON object or list"
    return f"{absent}, which is {_kind(value)}"


def _names(value: Mapping[Any, Any]) -> str:
    shown = [_shown(key) for key in islice(value, _MAX_NAMES)]
    if len(value) > len(shown):
        return f"{', '.join(shown)} and {len(value) - len(shown)} more"
    return ", ".join(shown) or "nothing"


def _shown(key: Any) -> str:
    if not isinstance(key, str):
        return f"{cut(repr(key), _MAX_CHARS)} ({type(key).__name__})"
    name = cut(key, _MAX_CHARS)
    is_plain = name != "" and name.isprintable()
    return name if is_plain else repr(name)


def _nearest(key: str | int, value: Mapping[Any, Any]) -> str:
    """Suggest a name; comparing many or long ones would take too long."""
    if not isinstance(key, str) or len(key) > _MAX_CHARS:
        return ""
    candidates = islice(value, _MAX_CANDIDATES)
    return suggestion(key, [name for name in candidates if isinstance(name, str) and len(name) <= _MAX_CHARS])


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if is_sequence(value):
        return "a list"
    kinds = ((bool, "a boolean"), (int | float, "a number"), (str, "text"), (Mapping, "an object"))
    return next((word for kind, word in kinds if isinstance(value, kind)), f"of type {type(value).__name__}")


def _entries(count: int) -> str:
    if count == 1:
        return "entry"
    return "entries"
