"""The walk along a reference through the scope: mappings by name, sequences by index, and text that holds such as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphmill.graph.template.syntax import Reference

# A step is a name for a dict, a number for a list, or the steps that lead to a number, with no type that is met at once.
Step = tuple[Any, Any]
Steps = tuple[Step, ...]
Texts = dict[str, Any]

_CONTAINER_TEXT = re.compile(r"[ \t\r\n]*[\[{]")


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
