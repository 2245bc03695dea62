"""The way in: builds the command line, runs a command, leaves with an honest status."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from graphmill.cli.commands import Commands
from graphmill.cli.exit_code import ExitCode
from graphmill.cli.signals import leave_at_once, listen
from graphmill.cli.stderr import Stderr, tell_error
from graphmill.core.errors import (
    ChangedError,
    DamagedError,
    ExportError,
    JournalError,
    OwnedError,
    SourceError,
    UnknownRunError,
    UsageError,
    WorkflowError,
)
from graphmill.core.telemetry import flush
from graphmill.core.version import __version__

app = typer.Typer(
    name="graphmill",
    cls=Commands,
    help="Run a graph over a dataset.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _root(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,  # noqa: FBT002
) -> None:
    if show_version:
        _answer_version()
        raise typer.Exit


def _answer_version() -> None:
    """Answer scripts and prompts at once: typer would first load what it parses values with."""
    typer.echo(f"graphmill {__version__}")


def main() -> NoReturn:
    """Run one command and leave. Threads that are stuck in user code must not hold the exit, so it does not wait for them."""
    _require_descriptors()
    sys.stderr = stderr = Stderr(encoding=sys.stderr.encoding if sys.stderr else "utf-8")
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115  closed by whoever started us
    listen(leave_at_once)
    code = _run()
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        code = code or ExitCode.OUTPUT  # the reader of our pipe is gone
    flush()
    stderr.settle()
    os._exit(code)


def _require_descriptors() -> None:
    """Leave none of the standard descriptors closed: the next file that is opened would be standard error to whoever writes there."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free, which is this one


def _run() -> int:
    try:
        _answer_version() if sys.argv[1:] == ["--version"] else app()
    except SystemExit as leaving:
        return int(leaving.code or ExitCode.DONE)
    except Exception as error:  # noqa: BLE001  the last door
        code = _code(error)
        traceback.print_exc() if code is ExitCode.CRASH else tell_error(error)
        return code
    return ExitCode.DONE


def _code(error: Exception) -> ExitCode:
    if isinstance(error, SourceError) and error.position == 0 and isinstance(error.__cause__, UsageError):
        return ExitCode.USAGE  # such as an --id that no item has
    return next((code for kind, code in _CODES if isinstance(error, kind)), ExitCode.CRASH)


# The first that fits counts: damage of the journal is also an error of the journal.
_CODES: tuple[tuple[type[Exception], ExitCode], ...] = (
    (UsageError, ExitCode.USAGE),
    (WorkflowError, ExitCode.USAGE),
    (UnknownRunError, ExitCode.USAGE),
    (ChangedError, ExitCode.USAGE),
    (SourceError, ExitCode.DATA),
    (DamagedError, ExitCode.DATA),
    (JournalError, ExitCode.OUTPUT),
    (ExportError, ExitCode.OUTPUT),
    (OSError, ExitCode.OUTPUT),
    (OwnedError, ExitCode.OWNED),
)
