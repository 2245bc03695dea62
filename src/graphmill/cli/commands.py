"""The commands by name. One is imported when it is asked for: a prompt or a script must not wait for what the others need."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command as click_command

from graphmill.cli.parameters import take_as_given
from graphmill.core.suggest import suggestion

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter

# Each is the function of its name in the module of its name. The line is the first of its docstring.
COMMANDS = {
    "run": "Run a workflow once and print its outputs.",
    "batch": "Run a workflow over the items of a source.",
    "runs": "List the runs, newest last.",
    "status": "Tell where a run stands.",
    "show": "Show a run in short, or one of its items in full.",
    "errors": "Tell which items failed, and why.",
    "resume": "Go on with a run: do what is not done.",
    "retry": "Run the failed items of a run again.",
    "pause": "Let a run start nothing new until it is resumed.",
    "cancel": "End a run, or one of its items.",
    "limits": "Change how many attempts a run makes at once.",
    "export": "Write a run's results to a file, in input order.",
    "validate": "Check workflow files and tell everything that is wrong with them.",
    "convert": "Convert a workflow of the older JSON form (ir_version).",
    "nodes": "List the node types, or show one in full.",
    "models": "List the models that are named and the providers that are there, or show one.",
    "cache": "List, prune or clear the answers of models that are kept.",
}


# What others call it, or what a person may look for.
_MEANT = {
    "check": "validate",
    "continue": "resume",
    "delete": "runs prune",
    "failures": "errors",
    "kill": "cancel",
    "lint": "validate",
    "list": "runs",
    "log": "show",
    "logs": "show",
    "ls": "runs",
    "output": "export",
    "outputs": "export",
    "progress": "status",
    "prune": "runs prune",
    "rerun": "retry",
    "restart": "resume",
    "result": "export' or 'show",
    "results": "export' or 'show",
    "rm": "runs prune",
    "stop": "pause' or 'cancel",
    "trace": "show",
    "types": "nodes",
    "unpause": "resume",
    "watch": "status --watch",
}


class Commands(TyperGroup):
    """A group that knows its commands by name and imports the one that is run."""

    def list_commands(self, _context: Context) -> list[str]:
        """Name the commands, in the order in which help shows them."""
        return list(COMMANDS)

    def parse_args(self, context: Context, args: list[str]) -> list[str]:
        """Read what stands before the command."""
        take_as_given(self, context)
        return super().parse_args(context, args)

    def resolve_command(self, context: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """Find the command that is meant; for a wrong name, say which is near."""
        if args[0] not in COMMANDS:
            context.fail(f"No such command {args[0]!r}{_suggested(args[0])}")
        return super().resolve_command(context, args)

    def get_command(self, context: Context, name: str) -> Command | None:
        """Import one command."""
        if name not in COMMANDS:
            return None
        command = click_command(_app(getattr(import_module(f"graphmill.cli.{name}"), name)))
        command.name = name
        take_as_given(command, context)
        return command

    def format_commands(self, _context: Context, formatter: HelpFormatter) -> None:
        """Show the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _suggested(name: str) -> str:
    meant = _MEANT.get(name.lower())
    return suggestion(name, COMMANDS) if meant is None else f" (did you mean '{meant}'?)"


def _app(command: Any) -> typer.Typer:
    """Make an application of one command; a command with commands below it is one already."""
    if isinstance(command, typer.Typer):
        return command
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(command)
    return app
