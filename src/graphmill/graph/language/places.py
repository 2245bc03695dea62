"""Positions of the parts of a document in its file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Protocol

import yaml

from graphmill.core.json import Part, decode_text, scan
from graphmill.core.positions import text_place

At = tuple[str | int, ...]
Place = tuple[str, int, int]


class Places(Protocol):
    """Finds the positions of the parts of one file."""

    def place(self, at: At, *, offset: int = 0, is_key: bool = False) -> Place:
        """Return file, line and column of a part, or of its key; of a missing part, those of its nearest parent.

        ``offset`` counts characters of a text's value; it is added if the text is written without escapes.
        """


class NoPlaces:
    """Data without a text."""

    def __init__(self, path: str) -> None:
        self._path = path

    def place(self, at: At, *, offset: int = 0, is_key: bool = False) -> Place:
        """Name the file; line and column are 0."""
        del at, offset, is_key
        return self._path, 0, 0


class TextPlaces:
    """A file that is one text."""

    def __init__(self, path: str, text: str) -> None:
        self._path = path
        self._text = text

    def place(self, at: At, *, offset: int = 0, is_key: bool = False) -> Place:
        """Return the position of the character."""
        del at, is_key
        return self._path, *text_place(self._text, offset)


class JsonPlaces:
    """A JSON file, scanned when the first position is needed."""

    def __init__(self, path: str, text: bytes) -> None:
        self._path = path
        self._bytes = text

    @cached_property
    def _text(self) -> str:
        return decode_text(self._bytes)

    @cached_property
    def _root(self) -> Part:
        return scan(self._text)

    def place(self, at: At, *, offset: int = 0, is_key: bool = False) -> Place:
        """Walk down to the part, or to its nearest parent."""
        part, is_whole = self._root, True
        for name in at:
            if name not in part.parts:
                is_whole = False
                break
            part = part.parts[name]
        if is_key and is_whole and part.key is not None:
            return self._path, *text_place(self._text, part.key)
        return self._path, *text_place(self._text, part.start + self._inside(part, offset))

    def _inside(self, part: Part, offset: int) -> int:
        text = self._text[part.start : part.end]
        if offset and text.startswith('"') and "\\" not in text:
            return offset + 1
        return 0


class YamlPlaces:
    """A YAML file; ``files`` are the places of the files that its ``!file`` nodes include, by the node's id."""

    def __init__(self, path: str, text: bytes, root: yaml.Node | None, *, files: Mapping[int, Places]) -> None:
        self._path = path
        self._bytes = text
        self._root = root
        self._files = files

    def place(self, at: At, *, offset: int = 0, is_key: bool = False) -> Place:
        """Walk down to the part, into included files, or to its nearest parent."""
        node, key = self._root, None
        for depth, name in enumerate(at):
            if node is not None and id(node) in self._files:
                return self._files[id(node)].place(at[depth:], offset=offset, is_key=is_key)
            found = _child(node, name)
            if found is None:
                return self._path, *_start(node)
            key, node = found
        if is_key and key is not None:
            return self._path, *_start(key)
        if node is not None and id(node) in self._files:
            return self._files[id(node)].place((), offset=offset)
        return self._path, *self._inside(node, offset)

    def _inside(self, node: yaml.Node | None, offset: int) -> tuple[int, int]:
        line, column = _start(node)
        if not offset or not isinstance(node, yaml.ScalarNode):
            return line, column
        if node.style == "|":
            return self._inside_block(node, offset)
        quote = 1 if node.style in ("'", '"') else 0
        width = node.end_mark.column - node.start_mark.column
        if node.start_mark.line != node.end_mark.line or len(node.value) + 2 * quote != width:
            return line, column  # it is written with escapes or line breaks
        return line, column + quote + offset

    def _inside_block(self, node: yaml.ScalarNode, offset: int) -> tuple[int, int]:
        row, column = text_place(node.value, offset)
        lines = self._bytes.decode(errors="replace").split("\n")
        line = node.start_mark.line + 1 + row
        written = lines[line - 1] if line <= len(lines) else ""
        return line, max(written.find(node.value.split("\n")[row - 1]), 0) + column


def _start(node: yaml.Node | None) -> tuple[int, int]:
    if node is None:
        return 1, 1
    return node.start_mark.line + 1, node.start_mark.column + 1


def _child(node: yaml.Node | None, name: str | int) -> tuple[yaml.Node | None, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in reversed(node.value) if key.value == _written(name)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(name, int) and 0 <= name < len(node.value):
        return None, node.value[name]
    return None


def _written(name: object) -> str:
    if name is None:
        return "null"
    if isinstance(name, bool):
        return str(name).lower()
    return str(name)
