"""The way in: builds the command line, runs a command, leaves with an honest status."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from graphmill.cli.batch import batch
from graphmill.cli.exit_code import ExitCode
from graphmill.core.errors import ExportError, GraphmillError, InternalError, SourceError, UsageError
from graphmill.core.version import __version__

app = typer.Typer(
    name="graphmill",
    help="Run a graph over a dataset.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)
app.command()(batch)


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
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115
    code = _run()
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        code = code or ExitCode.OUTPUT  # the reader of our pipe is gone
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)


def _run() -> int:
    try:
        _answer_version() if sys.argv[1:] == ["--version"] else app()
    except SystemExit as leaving:
        return int(leaving.code or ExitCode.DONE)
    except SourceError as error:
        is_usage = error.position == 0 and isinstance(error.__cause__, UsageError)  # such as an --id that no item has
        return _say(error, ExitCode.USAGE if is_usage else ExitCode.DATA)
    except (ExportError, OSError) as error:
        return _say(error, ExitCode.OUTPUT)
    except InternalError:
        traceback.print_exc()
        return ExitCode.CRASH
    except GraphmillError as error:
        return _say(error, ExitCode.USAGE)
    except Exception:  # noqa: BLE001  the last door
        traceback.print_exc()
        return ExitCode.CRASH
    return ExitCode.DONE


def _say(error: Exception, code: ExitCode) -> ExitCode:
    text = "".join(char if char.isprintable() or char == "\n" else " " for char in str(error))
    with suppress(OSError):
        typer.echo(f"error: {text}", err=True)
    return code
