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
    """Tells where the parts of one file stand."""

    def place(self, at: At, *, offset: int = 0, is_key: bool = False) -> Place:
        """Give file, line and column of a part, or of its key; of one that is not there, its nearest parent's.

        ``offset`` counts characters of a text's value; it is added where the text is written as it is.
        """


class NoPlaces:
    """Data that came without a text."""

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
        """Give the place of the character."""
        del at, is_key
        return self._path, *text_place(self._text, offset)


class JsonPlaces:
    """A JSON file, scanned when the first place is asked for."""

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
        """Walk down the parts as far as they go."""
        part, is_whole = self._root, True
        for name in at:
            if name not in part.parts:
                is_whole = False
                break
            part = part.parts[name]
        start = part.key if is_key and is_whole and part.key is not None else part.start + self._inside(part, offset)
        return self._path, *text_place(self._text, start)

    def _inside(self, part: Part, offset: int) -> int:
        is_as_it_is = self._text[part.start : part.start + 1] == '"' and "\\" not in self._text[part.start : part.end]
        return offset + 1 if offset and is_as_it_is else 0


class YamlPlaces:
    """A YAML file; ``files`` are the places of what its ``!file`` nodes brought in, by the node's id."""

    def __init__(self, path: str, text: bytes, root: yaml.Node | None, *, files: Mapping[int, Places]) -> None:
        self._path = path
        self._bytes = text
        self._root = root
        self._files = files

    def place(self, at: At, *, offset: int = 0, is_key: bool = False) -> Place:
        """Walk down the nodes as far as they go, and on in the file that one stands for."""
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
        is_as_it_is = node.start_mark.line == node.end_mark.line and len(node.value) + 2 * quote == (
            node.end_mark.column - node.start_mark.column
        )
        return line, column + quote + offset if is_as_it_is else column

    def _inside_block(self, node: yaml.ScalarNode, offset: int) -> tuple[int, int]:
        row, column = text_place(node.value, offset)
        lines = self._bytes.decode(errors="replace").split("\n")
        line = node.start_mark.line + 1 + row
        written = lines[line - 1] if line <= len(lines) else ""
        return line, max(written.find(node.value.split("\n")[row - 1]), 0) + column


def _start(node: yaml.Node | None) -> tuple[int, int]:
    return (1, 1) if node is None else (node.start_mark.line + 1, node.start_mark.column + 1)


def _child(node: yaml.Node | None, name: str | int) -> tuple[yaml.Node | None, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        return next(((key, value) for key, value in reversed(node.value) if key.value == _written(name)), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(name, int) and 0 <= name < len(node.value):
        return None, node.value[name]
    return None


def _written(name: object) -> str:
    return "null" if name is None else str(name).lower() if isinstance(name, bool) else str(name)
