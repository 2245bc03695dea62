"""A workflow file as data, with the position of each part and the files it includes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from graphmill.core.errors import UsageError, WorkflowError
from graphmill.core.json import MOST_LEVELS, decode_text, from_json, is_too_deep, scan
from graphmill.core.positions import FileProblem, TextError, place
from graphmill.core.suggest import file_suggestion
from graphmill.core.yaml import compose_yaml
from graphmill.graph.language.places import At, JsonPlaces, NoPlaces, Place, Places, TextPlaces, YamlPlaces

MOST_BYTES = 10_000_000
NO_TEXTS: Mapping[str, str] = MappingProxyType({})


class Document:
    """The data of one workflow file, or of a workflow given as Python data, with the positions of its parts.

    ``path`` is the file as it was named, ``root`` its folder, None without a file; ``what`` messages call it. ``texts``
    are the file's own text and those of the files it includes, by path.
    """

    def __init__(
        self,
        path: str,
        data: Any,
        *,
        places: Places,
        root: Path | None = None,
        what: str = "workflow",
        texts: Mapping[str, str] = NO_TEXTS,
    ) -> None:
        self.path = path
        self.texts = texts
        self.data = data
        self.root = root
        self.what = what
        self._places = places

    @classmethod
    def read(cls, path: str | Path, *, what: str = "workflow") -> Document:
        """Read a workflow file; UsageError if there is no readable file, WorkflowError if its text is invalid."""
        if Path(path).suffix == ".py":
            raise UsageError(f"{path} is a Python file; a {what} is .yaml or .json. Use gm.batch in Python")
        name, text = str(path), _read(Path(path), what)
        if len(text) > MOST_BYTES:
            raise WorkflowError(name, [FileProblem(name, 0, 0, too_large(what))])
        included = Included(name)
        try:
            if Path(path).suffix.lower() == ".json":
                data, places = _read_json(name, text)
            else:
                data, places = _read_yaml(name, text, included)
        except TextError as error:
            raise WorkflowError(name, [FileProblem(name, error.line, error.column, error.reason)]) from error
        texts = {name: _as_text(text)} | included.texts
        return cls(name, data, places=places, root=Path(path).absolute().parent, what=what, texts=texts)

    @classmethod
    def from_data(cls, data: Any, path: str | Path | None = None) -> Document:
        """Take a workflow given as data; ``path`` is its name, and its own paths are relative to it."""
        name = "workflow" if path is None else str(path)
        if is_too_deep(data):
            problem = FileProblem(name, 0, 0, f"nested deeper than {MOST_LEVELS} levels, or contains itself")
            raise WorkflowError(name, [problem])
        root = None if path is None else Path(path).absolute().parent
        return cls(name, data, places=NoPlaces(name), root=root)

    def get(self, at: At) -> Any:
        """Return the part; None if there is none."""
        value = self.data
        for name in at:
            in_mapping = isinstance(value, Mapping) and name in value
            in_list = isinstance(value, list) and isinstance(name, int) and name < len(value)
            if not in_mapping and not in_list:
                return None
            value = value[name]
        return value

    def place(self, at: At, *, offset: int = 0, is_key: bool = False) -> Place:
        """Return file, line and column of a part, or of its key; of a missing part, those of its nearest parent.

        ``offset`` counts characters of a text's value. Line and column are 0 for data without a text.
        """
        return self._places.place(at, offset=offset, is_key=is_key)

    def at_text(self, at: At) -> str:
        """Name a part as a person would: ``node 'fetch': batch.items``."""
        return ": ".join(filter(None, self._names(at))) or self.what

    def _names(self, at: At) -> Iterator[str]:
        dotted = ""
        for depth, name in enumerate(at):
            plural = at[depth - 1] if depth else ""
            if plural in ("inputs", "outputs") or (plural in _SINGULAR and isinstance(name, int)):
                yield dotted.rpartition(".")[0]
                yield f"{_SINGULAR[str(plural)]} {self._name(at[: depth + 1])}"
                dotted = ""
            elif not dotted:
                dotted = str(name)
            else:
                dotted += f"[{name}]" if isinstance(name, int) else f".{name}"
        yield dotted

    def _name(self, at: At) -> str:
        if not isinstance(at[-1], int) or at[-2] in ("inputs", "outputs"):
            return repr(at[-1])
        part = self.get(at)
        if isinstance(part, Mapping) and part.get("id") is not None:
            return f"{part['id']!r:.80}"
        return f"{at[-1] + 1} in the list"


_SINGULAR = {"nodes": "node", "edges": "edge", "inputs": "input", "outputs": "output", "rules": "rule"}


def _read(path: Path, what: str) -> bytes:
    if "\0" in str(path):
        raise UsageError(f"cannot read the {what} file {str(path)!r}: its name contains a NUL character")
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"no {what} file {str(path)!r}{file_suggestion(path)}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot read the {what} file {str(path)!r}: {reason}") from error


def _read_json(name: str, text: bytes) -> tuple[Any, Places]:
    return json_data(text), JsonPlaces(name, text)


def _read_yaml(name: str, text: bytes, included: Included) -> tuple[Any, Places]:
    data, root = compose_yaml(text, {"!file": included.value})
    if included.problems:
        raise WorkflowError(name, included.problems)
    return data, YamlPlaces(name, text, root, files=included.places)


def too_large(what: str) -> str:
    """Say that a file is too large."""
    return f"the {what} file is larger than {MOST_BYTES // 1_000_000} MB"


def json_data(text: bytes) -> Any:
    """Read JSON without duplicate keys or too many levels; TextError says where the mistake is."""
    try:
        data = from_json(text, unique_keys=True)
    except TextError:
        raise
    except ValueError as error:
        scan(decode_text(text))  # says where, if it is a key or the depth
        raise TextError(f"not JSON: {error.__cause__}", line=1, column=1) from error
    if is_too_deep(data):
        scan(decode_text(text))  # says where
    return data


class Included:
    """Reads the files that a workflow includes, each once, with their places; an unreadable file becomes a problem."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._folder = Path(path).parent.resolve()
        self._read: dict[Path, tuple[Any, Places]] = {}
        self.places: dict[int, Places] = {}
        self.texts: dict[str, str] = {}
        self.problems: list[FileProblem] = []

    def value(self, node: yaml.Node) -> Any:
        """Return the content for a ``!file`` node; None, and a problem, if it cannot be read."""
        try:
            value, self.places[id(node)] = self._find(node)
        except TextError as error:
            self.problems.append(FileProblem(self._beside(str(node.value)), error.line, error.column, error.reason))
        except ValueError as error:
            mark = node.start_mark
            self.problems.append(FileProblem(self._path, mark.line + 1, mark.column + 1, f"!file: {error}"))
        else:
            return value
        return None

    def _find(self, node: yaml.Node) -> tuple[Any, Places]:
        if not isinstance(node, yaml.ScalarNode) or not node.value:
            raise ValueError("must be followed by a file name, as in !file prompt.md")
        file = self._inside(node.value)
        if file not in self._read:
            path, text = self._beside(node.value), _bytes(file, node.value)
            self._read[file] = _data(path, text, file.suffix.lower())
            self.texts[path] = _as_text(text)
        return self._read[file]

    def _inside(self, name: str) -> Path:
        if "\0" in name:
            raise ValueError(f"{name!r:.80} is not a file name: it contains a NUL character")
        try:
            file = (self._folder / name).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise ValueError(f"{name!r:.80} is not a file name: {error}") from error
        if not file.is_relative_to(self._folder):
            raise ValueError(f"{name!r} is outside the workflow's folder; put the file beside the workflow or below it")
        return file

    def _beside(self, name: str) -> str:
        return str(Path(self._path).parent / name)


def _as_text(text: bytes) -> str:
    return text.decode(errors="replace")


def _bytes(file: Path, name: str) -> bytes:
    try:
        if not file.exists():
            raise ValueError(f"no file {name!r}{file_suggestion(file)}")
        if not file.is_file():
            raise ValueError(f"{name!r} is a folder" if file.is_dir() else f"{name!r} is not a regular file")
        with file.open("rb") as opened:
            text = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"cannot read {name!r}: {error.strerror}") from error
    if len(text) > MOST_BYTES:
        raise ValueError(f"{name!r}: {too_large('included')}")
    return text


def _data(path: str, text: bytes, suffix: str) -> tuple[Any, Places]:
    if suffix == ".json":
        return json_data(text), JsonPlaces(path, text)
    if suffix in (".yaml", ".yml"):
        data, root = compose_yaml(text, {"!file": _refuse})
        return data, YamlPlaces(path, text, root, files={})
    plain = _plain_text(text)
    return plain, TextPlaces(path, plain)


def _refuse(node: yaml.Node) -> None:
    problem = "!file is only allowed in workflow files, not in included files"
    raise TextError(problem, line=node.start_mark.line + 1, column=node.start_mark.column + 1)


def _plain_text(text: bytes) -> str:
    bad = text.find(b"\0")
    try:
        plain = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        bad = error.start
    if bad >= 0:
        line, column = place(text, bad)
        raise TextError("the file is not UTF-8 text", line=line, column=column)
    return plain
