"""A workflow's inputs as a person gives them: NAME=VALUE, or a file that holds several."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from graphmill.core.errors import UsageError
from graphmill.core.json import from_json
from graphmill.core.suggest import file_suggestion
from graphmill.core.yaml import from_yaml
from graphmill.graph.graph import Graph

_READERS = {".json": lambda text: from_json(text, unique_keys=True), ".yaml": from_yaml, ".yml": from_yaml}

InputsFile = Annotated[
    str | None,
    typer.Option(
        "--inputs",
        metavar="FILE",
        help="Inputs by name, as .json or .yaml; NAME=VALUE wins over them.",
        show_default=False,
    ),
]


def inputs_given(graph: Graph, texts: Iterable[str], file: str | None) -> dict[str, Any]:
    """Give the inputs by name; where an input is declared as a string, its text is not read as a number or a truth."""
    found = (
        {}
        if file is None
        else mapping_in(Path(file), option="--inputs", holds="inputs are a mapping from names to values")
    )
    return {**found, **dict(_input(graph, text) for text in texts)}


def _input(graph: Graph, text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"an input is written name=value, not {text!r}")
    try:
        data = json.loads(value)
    except (ValueError, RecursionError):
        return name, value
    is_text = name in graph.inputs and graph.inputs[name].type == "string"
    return name, value if is_text and not isinstance(data, str) else data


def mapping_in(path: Path, *, option: str, holds: str) -> dict[str, Any]:
    """Read the mapping that a .json or .yaml file holds; UsageError if it can not be, or is none."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise UsageError(f"{option} is a .json or .yaml file, not {str(path)!r}")
    text = _bytes_of(path)
    try:
        found = reader(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: {error}") from error
    if not isinstance(found, Mapping):
        raise UsageError(f"{path} holds {'nothing' if found is None else f'a {type(found).__name__}'}; {holds}")
    return dict(found)


def text_in(path: Path) -> str:
    """Read a file of text, without what ends its last line; UsageError if it can not be."""
    try:
        return _bytes_of(path).decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not text in UTF-8") from None


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"there is no file {str(path)!r}{file_suggestion(path)}") from None
    except OSError as error:
        raise UsageError(f"can not read {str(path)!r}: {error.strerror}") from error
