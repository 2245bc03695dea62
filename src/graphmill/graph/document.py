"""A workflow as it was written: its data, and where in which file each part of it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from graphmill.core.errors import UsageError, WorkflowError
from graphmill.core.json import MOST_LEVELS, is_too_deep
from graphmill.core.positions import Problem, TextError
from graphmill.core.suggest import file_suggestion
from graphmill.core.yaml import compose_yaml
from graphmill.graph.included import MOST_BYTES, Included, json_data, too_large
from graphmill.graph.places import At, JsonPlaces, NoPlaces, Place, Places, YamlPlaces

__all__ = ["At", "Document", "Place"]


class Document:
    """The data of one workflow file, or of a workflow given as Python data, with places.

    ``path`` is the file as it was named; ``root`` its folder, None where there is no file; ``what`` is in it stands in messages.
    """

    def __init__(
        self, path: str, data: Any, *, places: Places, root: Path | None = None, what: str = "workflow"
    ) -> None:
        self.path = path
        self.data = data
        self.root = root
        self.what = what
        self._places = places

    @classmethod
    def read(cls, path: str | Path, *, what: str = "workflow") -> Document:
        """Read a workflow file; UsageError if there is none that can be read, WorkflowError if its text can not be."""
        name, text = str(path), _read(Path(path), what)
        if len(text) > MOST_BYTES:
            raise WorkflowError(
                name, [Problem(name, 0, 0, too_large(f"a {what} file" if what != "workflow" else "a workflow"))]
            )
        read = _read_json if Path(path).suffix.lower() == ".json" else _read_yaml
        try:
            data, places = read(name, text)
        except TextError as error:
            raise WorkflowError(name, [Problem(name, error.line, error.column, error.reason)]) from error
        return cls(name, data, places=places, root=Path(path).absolute().parent, what=what)

    @classmethod
    def from_data(cls, data: Any, path: str | Path | None = None) -> Document:
        """Take a workflow given as data; ``path`` says what to call it and what its own paths are relative to."""
        name = "workflow" if path is None else str(path)
        if is_too_deep(data):
            raise WorkflowError(
                name, [Problem(name, 0, 0, f"nested deeper than {MOST_LEVELS} levels, or it holds itself")]
            )
        return cls(name, data, places=NoPlaces(name), root=None if path is None else Path(path).absolute().parent)

    def get(self, at: At) -> Any:
        """Give the part; None if there is none."""
        value = self.data
        for name in at:
            is_there = (
                name in value
                if isinstance(value, Mapping)
                else isinstance(value, list) and isinstance(name, int) and name < len(value)
            )
            if not is_there:
                return None
            value = value[name]
        return value

    def place(self, at: At, *, offset: int = 0, is_key: bool = False) -> Place:
        """Give file, line and column of a part, or of its key; of one that is not there, its nearest parent's; 0, 0 without a text.

        ``offset`` counts characters of a text's value, and is added as far as the text is written as it is.
        """
        return self._places.place(at, offset=offset, is_key=is_key)

    def at_text(self, at: At) -> str:
        """Name a part as a person would: node 'fetch': batch.items."""
        return ": ".join(filter(None, self._names(at))) or self.what

    def _names(self, at: At) -> Iterator[str]:
        dotted = ""
        for depth, name in enumerate(at):
            plural = at[depth - 1] if depth else ""
            if plural in ("inputs", "outputs") or (plural in _SINGULAR and isinstance(name, int)):
                yield dotted.rpartition(".")[0]
                yield f"{_SINGULAR[str(plural)]} {self._name(at[: depth + 1])}"
                dotted = ""
            else:
                dotted += f"[{name}]" if isinstance(name, int) and dotted else f".{name}" if dotted else str(name)
        yield dotted

    def _name(self, at: At) -> str:
        if not isinstance(at[-1], int) or at[-2] in ("inputs", "outputs"):
            return repr(at[-1])
        part = self.get(at)
        node_id = part.get("id") if isinstance(part, Mapping) else None
        return f"{at[-1] + 1} in the list" if node_id is None else f"{node_id!r:.80}"


_SINGULAR = {"nodes": "node", "edges": "edge", "inputs": "input", "outputs": "output"}


def _read(path: Path, what: str) -> bytes:
    if "\0" in str(path):
        raise UsageError(f"can not read the {what} file {str(path)!r}: its name holds a NUL character")
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"there is no {what} file {str(path)!r}{file_suggestion(path)}") from None
    except (OSError, ValueError) as error:
        raise UsageError(
            f"can not read the {what} file {str(path)!r}: {getattr(error, 'strerror', None) or error}"
        ) from error


def _read_json(name: str, text: bytes) -> tuple[Any, Places]:
    return json_data(text), JsonPlaces(name, text)


def _read_yaml(name: str, text: bytes) -> tuple[Any, Places]:
    included = Included(name)
    data, root = compose_yaml(text, {"!file": included.value})
    if included.problems:
        raise WorkflowError(name, included.problems)
    return data, YamlPlaces(name, text, root, files=included.places)
