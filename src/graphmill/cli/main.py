"""The entry point: finds the command, runs it, and exits with an honest status."""

from __future__ import annotations

import os
import re
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from graphmill.cli.signals import exit_at_once, on_signals
from graphmill.cli.terminal import ExitCode, StderrPrinter, print_error
from graphmill.core.errors import (
    ChangedError,
    DamagedError,
    ExportError,
    JournalError,
    OwnedError,
    SandboxError,
    SourceError,
    UnknownRunError,
    UsageError,
    WorkflowError,
)
from graphmill.core.suggest import suggestion
from graphmill.core.version import __version__

# Command: where it is defined (a module of cli/commands), and the first line of its docstring. A command is imported
# when it is asked for, so that `graphmill --help` and shell scripts need not wait for what the others import.
COMMANDS = {
    "run": ("run", "Run a workflow once and print its outputs."),
    "batch": ("batch", "Run a workflow over the items of a source."),
    "runs": ("runs", "List runs, newest last."),
    "status": ("status", "Show a run's progress."),
    "results": ("results", "List the items of a run: how each ended, what went in and what came out."),
    "show": ("show", "Show a run in short, or one of its items in full."),
    "score": ("score", "Score the stored results of a run."),
    "errors": ("errors", "List the items that failed, and why."),
    "resume": ("resume", "Resume a run: run its unfinished items."),
    "retry": ("retry", "Run the failed items of a run again."),
    "pause": ("control", "Pause a run: start nothing new until it is resumed."),
    "cancel": ("control", "Cancel a run, or one of its items."),
    "limits": ("control", "Change the concurrency of a run."),
    "export": ("export", "Write a run's results to a file, in input order."),
    "validate": ("validate", "Check workflow files and report every problem."),
    "new": ("new", "Copy an installed workflow with its prompts to edit it."),
    "convert": ("convert", "Convert a workflow of the older JSON form (ir_version)."),
    "nodes": ("nodes", "List the node types, or describe one."),
    "models": ("models", "List models and providers, or describe one model."),
    "models pull": ("models_pull", "Download a model that runs on this machine, as local/NAME."),
    "datasets": ("datasets", "List the datasets that are known by name, with size, licence and source."),
    "cache": ("cache", "List, prune or clear cached model responses."),
}

# What other tools call it, or what a person may look for.
_MEANT = {
    "check": "validate",
    "continue": "resume",
    "create": "new",
    "download": "models pull",
    "delete": "runs delete",
    "evaluate": "score",
    "failures": "errors",
    "grade": "score",
    "init": "new",
    "kill": "cancel",
    "lint": "validate",
    "list": "runs",
    "log": "show",
    "logs": "show",
    "items": "results",
    "ls": "runs",
    "output": "results' or 'export",
    "outputs": "results' or 'export",
    "progress": "status",
    "prune": "runs prune",
    "pull": "models pull",
    "rerun": "retry",
    "restart": "resume",
    "result": "results",
    "rm": "runs delete",
    "stop": "pause' or 'cancel",
    "trace": "show",
    "types": "nodes",
    "unpause": "resume",
    "watch": "status --watch",
}

# The first match counts: damage of the journal is also an error of the journal.
_EXIT_CODES: tuple[tuple[type[Exception], ExitCode], ...] = (
    (UsageError, ExitCode.USAGE),
    (WorkflowError, ExitCode.USAGE),
    (UnknownRunError, ExitCode.USAGE),
    (ChangedError, ExitCode.USAGE),
    (SourceError, ExitCode.DATA),
    (DamagedError, ExitCode.DATA),
    (JournalError, ExitCode.OUTPUT),
    (ExportError, ExitCode.OUTPUT),
    (OSError, ExitCode.OUTPUT),
    (SandboxError, ExitCode.SERVICE),
    (OwnedError, ExitCode.OWNED),
)


_REHEARSE = "--rehearse"
_SCRIPT = re.compile(r"[^-=].*\.(ya?ml|json)|[^\W\d][\w.]*:[\w.]+", re.IGNORECASE)


class LazyCommands(TyperGroup):
    """A group that knows its commands by name and imports only the one that is run."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Name the commands in the order in which help shows them."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        command = get_command(_app_of(cmd_name))
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, which may have two words; suggest one if the name is wrong."""
        if (both := " ".join(args[:2])) in COMMANDS:
            args = [both, *args[2:]]
        if args[0] not in COMMANDS:
            ctx.fail(f"no command {args[0]!r}{_suggest(args[0])}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; report a value that an option does not take in the words of the other errors."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if text := _value_error(error):
                raise UsageError(text) from error
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Show the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


class _Command(TyperCommand):
    """A command whose option ``--rehearse`` may stand alone or have a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the arguments."""
        return super().parse_args(ctx, _with_bare_rehearse(args))


def _with_bare_rehearse(args: list[str]) -> list[str]:
    """Give ``--rehearse`` an empty value unless a file of rules or module:function follows."""
    made: list[str] = []
    for number, arg in enumerate(args):
        after = args[number + 1] if number + 1 < len(args) else ""
        is_bare = arg == _REHEARSE and "--" not in made and not _SCRIPT.fullmatch(after)
        made.append(f"{_REHEARSE}=" if is_bare else arg)
    return made


def _app_of(name: str) -> typer.Typer:
    """Import a command as an application of its own; one that has subcommands is one already."""
    module, _ = COMMANDS[name]
    command = getattr(import_module(f"graphmill.cli.commands.{module}"), name.replace(" ", "_"))
    if isinstance(command, typer.Typer):
        return command
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(cls=_Command)(command)
    return app


def _value_error(error: typer.BadParameter) -> str:
    """Say what the value of an option must be; empty for an error that is not about a value."""
    read: Any = getattr(error.__cause__, "errors", None)  # what pydantic found, which converts values for Typer
    param: Any = error.param
    if read is None or param is None:
        return ""
    name, given = max(param.opts, key=len), f"got {str(read()[0]['input'])!r:.80}"
    _, _, choices = error.message.partition(" is not one of ")
    if choices:
        return f"{name} must be one of {choices.rstrip('.')}, {given}"
    what = "an integer" if "integer" in error.message else "a number"
    lowest, highest = getattr(param, "min", None), getattr(param, "max", None)
    if lowest is not None and highest is not None:
        what += f" from {lowest} to {highest}"
    elif lowest is not None:
        what += f" >= {lowest}"
    return f"{name} must be {what}, {given}"


def _suggest(name: str) -> str:
    meant = _MEANT.get(name.lower())
    return suggestion(name, COMMANDS) if meant is None else f" (did you mean '{meant}'?)"


app = typer.Typer(
    name="graphmill",
    cls=LazyCommands,
    help="Run a workflow or a prompt over a dataset.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _root(
    *,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if show_version:
        typer.echo(f"graphmill {__version__}")
        raise typer.Exit


def main() -> NoReturn:
    """Run one command and exit, without joining threads: those stuck in user code must not delay the exit."""
    _require_descriptors()
    printer = StderrPrinter()
    sys.stderr = printer.open(encoding=sys.stderr.encoding if sys.stderr else "utf-8")
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115  closed by whoever started us
    on_signals(exit_at_once)
    code = _run()
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        code = code or ExitCode.OUTPUT  # the output pipe is closed
    printer.settle()
    os._exit(code)


def _require_descriptors() -> None:
    """Open standard descriptors that are closed: otherwise the next file that is opened would become standard error."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one


def _run() -> int:
    try:
        app()
    except SystemExit as leaving:
        return int(leaving.code or ExitCode.SUCCESS)
    except Exception as error:  # noqa: BLE001  the front end: whatever is not caught below becomes an exit status here
        code = exit_code_of(error)
        if code is ExitCode.CRASH:
            traceback.print_exc()
        else:
            print_error(error)
        return code
    return ExitCode.SUCCESS


def exit_code_of(error: Exception) -> ExitCode:
    """Return the exit status for an error that ended a command."""
    if isinstance(error, SourceError) and error.position == 0 and isinstance(error.__cause__, UsageError):
        return ExitCode.USAGE  # such as an --id that no item has
    return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), ExitCode.CRASH)
