"""A command's parameters: what is a text, or was not given, is taken as it is; all else is read by typer.

Typer would read that too, with a validation library which takes longer to load than a short command takes to run.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from typer.core import TyperGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer._click import Command, Context, Parameter

_TEXTS = (str, list[str])


def take_as_given(command: Command, context: Context) -> None:
    """Let the parameters of a command, and of those below it, take what needs no reading."""
    for parameter in command.get_params(context):
        parameter.process_value = partial(_value, parameter, parameter.process_value)  # type: ignore[method-assign]
    for below in command.commands.values() if isinstance(command, TyperGroup) else ():
        take_as_given(below, context)


def _value(parameter: Parameter, read: Callable[[Context, Any], Any], context: Context, value: Any) -> Any:
    is_text = bool(value) and _annotation(parameter) in _TEXTS
    is_default = value == parameter.default and not parameter.required
    if not (is_text or is_default):
        return read(context, value)
    return value if parameter.callback is None else parameter.callback(context, parameter, value)


def _annotation(parameter: Parameter) -> Any:
    return getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
