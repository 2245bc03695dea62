"""Looks a reference up in a scope; where nothing is found, says why."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from graphmill.core.errors import Permanent, cut
from graphmill.core.suggest import suggestion
from graphmill.graph.template.parser import Lookup, Reference, written_index

# A step is a name for a dict, a number for a list, or the steps that lead to a number, with no type that is met at once.
Step = tuple[Any, Any]
Steps = tuple[Step, ...]
Texts = dict[str, Any]

_CONTAINER_TEXT = re.compile(r"[ \t\r\n]*[\[{]")
ABSENT = "#absent"  # in a scope, where no template can look it up: of names that are not there, why
_MOST_NAMES = 20
_MOST_LETTERS = 40
_MOST_LOOKUP_LETTERS = 200
_MOST_CANDIDATES = 200


def steps_of(reference: Reference) -> Steps:
    """Flatten a reference into what a walk follows."""
    return tuple(_steps(reference))


def _steps(reference: Reference) -> Iterator[Step]:
    for segment in reference.segments:
        yield dict, segment.name
        for index in segment.indices:
            yield (None, steps_of(index)) if isinstance(index, Reference) else (list, index)


def walk(steps: Steps, scope: Mapping[str, Any], texts: Texts) -> Any:
    """Follow the steps from the scope; LookupError where there is nothing. ``texts`` keeps what was read from JSON text."""
    value: Any = scope
    for kind, step in steps:
        value = value[step] if type(value) is kind else _entry(opened(value, texts), _key(step, scope, texts))
    return value


def opened(value: Any, texts: Texts) -> Any:
    """Give what a text holds, if that is a JSON object or list, read once for all of ``texts``; any other value as it is."""
    if not isinstance(value, str):
        return value
    if value not in texts:
        texts[value] = data_in(value)
    return value if texts[value] is None else texts[value]


def data_in(text: str) -> dict[str, Any] | list[Any] | None:
    """Read a text that is a JSON object or list, with spaces and line ends around it or none; None for any other text."""
    if not _CONTAINER_TEXT.match(text):
        return None
    try:
        found: dict[str, Any] | list[Any] = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found


def is_sequence(value: Any) -> bool:
    """Tell a list, or what is like one, from a text."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview)


def is_index(value: Any) -> bool:
    """Tell a whole number from all else, the truth values too."""
    return isinstance(value, int) and not isinstance(value, bool)


def _key(step: Any, scope: Mapping[str, Any], texts: Texts) -> str | int:
    if not isinstance(step, tuple):
        return step  # type: ignore[no-any-return]
    index = walk(step, scope, texts)
    if not is_index(index):
        raise LookupError
    return index  # type: ignore[no-any-return]


def _entry(value: Any, key: str | int) -> Any:
    """Take one entry; a mapping is asked first, since some make up what they lack."""
    if isinstance(key, str):
        if isinstance(value, Mapping) and key in value:
            return value[key]
    elif is_sequence(value) and -len(value) <= key < len(value):
        return value[key % len(value)]
    raise LookupError


class Missing(Permanent):
    """A reference that leads to nothing; the message says where it ends and what is available there."""


def missing(lookup: Lookup, scope: Mapping[str, Any], texts: Texts) -> Missing:
    """Explain of each reference why it is missing, by going its way again."""
    reasons = [
        _reason(reference, scope, texts) for reference in lookup.alternatives if isinstance(reference, Reference)
    ]
    return Missing(f"{cut(str(lookup), _MOST_LOOKUP_LETTERS)} is missing: {'; '.join(reasons)}")


def _reason(reference: Reference, scope: Mapping[str, Any], texts: Texts) -> str:
    value: Any = scope
    keys = _keys(reference)
    steps = steps_of(reference)
    for number, key in enumerate(keys):
        try:
            reached = walk(steps[: number + 1], scope, texts)
        except LookupError:
            way = "".join(map(_written, keys[:number])).removeprefix(".")
            return _stop(key, opened(value, texts), way=way, scope=scope, texts=texts)
        value = reached
    return "it was not there when it was asked for"


def _keys(reference: Reference) -> list[str | int | Reference]:
    return [key for segment in reference.segments for key in (segment.name, *segment.indices)]


def _written(key: str | int | Reference) -> str:
    return f".{key}" if isinstance(key, str) else written_index(key)


def _stop(key: str | int | Reference, value: Any, *, way: str, scope: Mapping[str, Any], texts: Texts) -> str:
    """Say why no way leads on from a value."""
    if not isinstance(key, Reference):
        return _gap(key, value, way=way)
    try:
        index = walk(steps_of(key), scope, texts)
    except LookupError:
        return f"of its index, {_reason(key, scope, texts)}"
    return (
        _gap(index, value, way=way)
        if is_index(index)
        else f"its index ${{{key}}} is {_kind(index)}, not a whole number"
    )


def _gap(key: str | int, value: Any, *, way: str) -> str:
    if not way and isinstance(value, Mapping):
        if key in value.get(ABSENT, ()):
            return str(value[ABSENT][key])
        value = {name: entry for name, entry in value.items() if name != ABSENT}
    label = f"[{key}]" if isinstance(key, int) else repr(cut(key, _MOST_LETTERS))
    absent = f"no {label} in {cut(way, _MOST_LOOKUP_LETTERS)}" if way else f"no {label}"
    if isinstance(key, int) and is_sequence(value):
        return f"{absent}; it has {len(value)} {'entry' if len(value) == 1 else 'entries'}"
    if isinstance(value, Mapping):
        return f"{absent}{_nearest(key, value)}; {'it has' if way else 'there is'} {_names(value)}"
    return f"{absent}, which is {_kind(value)}{', with no JSON object or list in it' if isinstance(value, str) else ''}"


def _names(value: Mapping[Any, Any]) -> str:
    shown = [_shown(key) for key in islice(value, _MOST_NAMES)]
    more = f" and {len(value) - len(shown)} more" if len(value) > len(shown) else ""
    return ", ".join(shown) + more or "nothing"


def _shown(key: Any) -> str:
    if not isinstance(key, str):
        return f"{cut(repr(key), _MOST_LETTERS)} ({type(key).__name__})"
    name = cut(key, _MOST_LETTERS)
    return name if name.isprintable() and name else repr(name)


def _nearest(key: str | int, value: Mapping[Any, Any]) -> str:
    """Suggest a name; to compare many or long ones would take longer than anyone waits for an error."""
    if not isinstance(key, str) or len(key) > _MOST_LETTERS:
        return ""
    return suggestion(
        key, [name for name in islice(value, _MOST_CANDIDATES) if isinstance(name, str) and len(name) <= _MOST_LETTERS]
    )


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if is_sequence(value):
        return "a list"
    kinds = ((bool, "a boolean"), (int | float, "a number"), (str, "text"), (Mapping, "an object"))
    return next((word for kind, word in kinds if isinstance(value, kind)), f"of type {type(value).__name__}")
