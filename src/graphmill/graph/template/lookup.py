"""Looks up references: mappings by name, lists by index, also in JSON text; a missing one is explained."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from graphmill.core.errors import Permanent, cut
from graphmill.core.suggest import suggestion
from graphmill.graph.template.parser import Placeholder, Reference, written_index

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
    """Return whether a value is an integer, and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


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
    return f".{key}" if isinstance(key, str) else written_index(key)


def _stop(key: str | int | Reference, value: Any, *, way: str, scope: Mapping[str, Any], texts: Texts) -> str:
    """Say why a path ends at a value."""
    if not isinstance(key, Reference):
        return _gap(key, value, way=way)
    try:
        index = walk(steps_of(key), scope, texts)
    except LookupError:
        return f"in its index, {_reason(key, scope, texts)}"
    if not is_index(index):
        return f"its index ${{{key}}} must be an integer, got {_kind(index)}"
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
    return "entry" if count == 1 else "entries"
