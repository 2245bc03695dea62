"""A command's parameters: what is a text, or was not given, is taken as it is; all else is read by typer. None is given twice.

Typer would read that too, with a validation library which takes longer to load than a short command takes to run.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from typer.core import TyperGroup

from graphmill.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer._click import Command, Context, Parameter

_TEXTS = (str, list[str])


def take_as_given(command: Command, context: Context) -> None:
    """Let the parameters of a command, and of those below it, take what needs no reading, and refuse what is given twice."""
    command.make_parser = partial(_parser, command.make_parser)  # type: ignore[method-assign]
    for parameter in command.get_params(context):
        parameter.process_value = partial(_value, parameter, parameter.process_value)  # type: ignore[method-assign]
    for below in command.commands.values() if isinstance(command, TyperGroup) else ():
        take_as_given(below, context)


def _parser(make: Callable[[Context], Any], context: Context) -> Any:
    """Make a parser that refuses an option which is given twice: of two values the last would count, in silence."""
    parser = make(context)
    read = parser.parse_args

    def parse_args(args: list[str]) -> Any:
        opts, rest, order = read(args=args)
        for parameter in order:
            takes_one = parameter.param_type_name == "option" and not (parameter.multiple or parameter.is_flag or parameter.count)
            if takes_one and order.count(parameter) > 1:
                raise UsageError(f"{max(parameter.opts, key=len)} is given twice; leave one out")
        return opts, rest, order

    parser.parse_args = parse_args
    return parser


def _value(parameter: Parameter, read: Callable[[Context, Any], Any], context: Context, value: Any) -> Any:
    is_text = bool(value) and _annotation(parameter) in _TEXTS
    is_default = value == parameter.default and not parameter.required
    if not (is_text or is_default):
        return read(context, value)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


def _annotation(parameter: Parameter) -> Any:
    return getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
