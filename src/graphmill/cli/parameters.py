"""A command's parameters: what is a text, or was not given, is taken as it is; all else is read by typer. None is given twice.

What can not be read is told in our words, with what was given.

Typer would read that too, with a validation library which takes longer to load than a short command takes to run.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from typer import BadParameter
from typer.core import TyperGroup

from graphmill.core.errors import UsageError
from graphmill.core.suggest import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer._click import Command, Context, Parameter

_TEXTS = (str, list[str])
_NUMBERS = {int: "a whole number", float: "a number"}


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
        given = set(args)
        opts, rest, order = read(args=args)
        for parameter in order:
            if given.intersection(parameter.opts) and (other := given.intersection(parameter.secondary_opts)):
                raise UsageError(f"{max(parameter.opts, key=len)} and {other.pop()} are both given; leave one out")
            takes_one = parameter.param_type_name == "option" and not (
                parameter.multiple or parameter.is_flag or parameter.count
            )
            if takes_one and order.count(parameter) > 1:
                raise UsageError(f"{max(parameter.opts, key=len)} is given twice; leave one out")
        return opts, rest, order

    parser.parse_args = parse_args
    return parser


def _value(parameter: Parameter, read: Callable[[Context, Any], Any], context: Context, value: Any) -> Any:
    is_text = bool(value) and _annotation(parameter) in _TEXTS
    is_default = value == parameter.default and not parameter.required
    if not (is_text or is_default):
        return _read(parameter, read, context, value)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


def _read(parameter: Parameter, read: Callable[[Context, Any], Any], context: Context, value: Any) -> Any:
    try:
        return read(context, value)
    except BadParameter:
        wanted = _wanted(parameter, value)
        if value is None or not wanted:  # such as one that is missing
            raise
        raise UsageError(f"{max(parameter.opts, key=len)} is {wanted}") from None


def _wanted(parameter: Parameter, value: Any) -> str:
    """Say what would be right, and what was given instead; nothing where that is not known."""
    choices = getattr(getattr(parameter, "type_descriptor", None), "choices", None)
    if choices:
        names = [str(getattr(choice, "value", choice)) for choice in choices]
        return f"one of {', '.join(names)}, not {value!r:.80}{suggestion(str(value), names)}"
    number = _NUMBERS.get(_annotation(parameter))
    return "" if number is None else f"{number}{_range(parameter)}, not {value!r:.80}"


def _range(parameter: Parameter) -> str:
    least, most = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if least is not None and most is not None:
        return f" from {least:,} to {most:,}"
    return "" if least is None else f" of at least {least:,}"


def _annotation(parameter: Parameter) -> Any:
    return getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
