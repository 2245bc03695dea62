"""What a command answers on standard output: lines or JSON, in which nothing can write on the terminal what it likes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from graphmill.cli.exit_code import ExitCode
from graphmill.cli.width import fitted
from graphmill.core.errors import ExportError
from graphmill.core.json import to_json

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON: one object, on one line.")]


def tell(lines: Iterable[str]) -> None:
    """Print lines, which fit the terminal if there is one."""
    plain = ("".join(char if char.isprintable() else " " for char in line) for line in lines)
    _print("\n".join(fitted(plain)))


def tell_json(value: Any) -> None:
    """Print one line of JSON."""
    _print(json_line(value))


def json_line(value: Any) -> str:
    """Write one line of JSON; what a terminal might obey stands there escaped."""
    return "".join(char if char.isprintable() else _escaped(char) for char in to_json(value))


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _print(text: str) -> None:
    try:
        typer.echo(text)
    except BrokenPipeError:  # a reader that is gone knows why
        raise typer.Exit(ExitCode.OUTPUT) from None
    except OSError as error:
        raise unwritable(error) from error


def unwritable(error: OSError) -> ExportError:
    """Say that standard output can not be written, and why."""
    return ExportError(f"can not write standard output: {error.strerror or error}")


def require_stdout() -> None:
    """Raise ExportError if standard output was closed by whoever started us: what is written there is lost."""
    if sys.__stdout__ is None:
        raise ExportError("can not write standard output: it is closed")
