"""What a template says, as frozen values that print themselves back."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from graphmill.core.json import to_json

# The lookbehind keeps a long run of dollars linear: it is tried at its beginning only.
_DOLLARS_BEFORE_A_BRACE = re.compile(r"(?<!\$)\$+(?=\{)")


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
