"""What ``!file`` brings into a workflow: the text of a file beside it, or its data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from graphmill.core.json import decoded, from_json, is_too_deep, scan
from graphmill.core.positions import Problem, TextError, place
from graphmill.core.suggest import file_suggestion
from graphmill.core.yaml import compose_yaml
from graphmill.graph.places import JsonPlaces, Places, TextPlaces, YamlPlaces

MOST_BYTES = 10_000_000


def too_large(what: str) -> str:
    """Say that a file is larger than we take."""
    return f"the file is larger than {MOST_BYTES // 1_000_000} MB, the most {what} may have"


def json_data(text: bytes) -> Any:
    """Read JSON as workflows have it: no key twice, not too many levels; TextError says where."""
    try:
        data = from_json(text, unique_keys=True)
    except TextError:
        raise
    except ValueError as error:
        scan(decoded(text))  # says where, if it is a key or the depth
        raise TextError(f"not JSON: {error.__cause__}", line=1, column=1) from error
    if is_too_deep(data):
        scan(decoded(text))  # says where
    return data


class Included:
    """Reads the files that a workflow names, each once, and keeps their places; what can not be read becomes a problem."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._folder = Path(path).parent.resolve()
        self._read: dict[Path, tuple[Any, Places]] = {}
        self.places: dict[int, Places] = {}
        self.problems: list[Problem] = []

    def value(self, node: yaml.Node) -> Any:
        """Give what a ``!file`` node stands for; None, and a problem, if there is nothing to give."""
        try:
            value, self.places[id(node)] = self._find(node)
        except TextError as error:
            self.problems.append(Problem(self._beside(str(node.value)), error.line, error.column, error.reason))
        except ValueError as error:
            self.problems.append(
                Problem(self._path, node.start_mark.line + 1, node.start_mark.column + 1, f"!file: {error}")
            )
        else:
            return value
        return None

    def _find(self, node: yaml.Node) -> tuple[Any, Places]:
        if not isinstance(node, yaml.ScalarNode) or not node.value:
            raise ValueError("the name of a file is wanted, as in !file prompt.md")
        file = self._inside(node.value)
        if file not in self._read:
            self._read[file] = _data(self._beside(node.value), _bytes(file, node.value), file.suffix.lower())
        return self._read[file]

    def _inside(self, name: str) -> Path:
        if "\0" in name:
            raise ValueError(f"{name!r:.80} is no name of a file: it holds a NUL character")
        try:
            file = (self._folder / name).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise ValueError(f"{name!r:.80} is no name of a file: {error}") from error
        if not file.is_relative_to(self._folder):
            raise ValueError(f"{name!r} is outside the workflow's folder; put the file beside the workflow or below it")
        return file

    def _beside(self, name: str) -> str:
        return str(Path(self._path).parent / name)


def _bytes(file: Path, name: str) -> bytes:
    try:
        if not file.exists():
            raise ValueError(f"there is no file {name!r}{file_suggestion(file)}")
        if not file.is_file():
            raise ValueError(
                f"{name!r} is a folder, not a file" if file.is_dir() else f"{name!r} is not a regular file"
            )
        with file.open("rb") as opened:
            text = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"can not read {name!r}: {error.strerror}") from error
    if len(text) > MOST_BYTES:
        raise ValueError(f"{name!r}: {too_large('a file of a workflow')}")
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
    problem = "!file stands in workflow files only, not in files that they bring in"
    raise TextError(problem, line=node.start_mark.line + 1, column=node.start_mark.column + 1)


def _plain_text(text: bytes) -> str:
    bad = text.find(b"\0")
    try:
        plain = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        bad = error.start
    if bad >= 0:
        line, column = place(text, bad)
        raise TextError("the file is not text in UTF-8", line=line, column=column)
    return plain
