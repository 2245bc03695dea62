"""The script: a command with its values taken out into variables, each named where its template stood."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from graphmill.nodes.shell.grammar import places_in
from graphmill.nodes.shell.lexer import Place
from graphmill.nodes.shell.word import VALUE

VARIABLE = "GRAPHMILL_VALUE_"
_FORMS = {
    Place.BARE: '"${{{}}}"',
    Place.DOUBLE: "${{{}}}",
    Place.SINGLE: "'\"${{{}}}\"'",
    Place.HERE: "${{{}}}",
    Place.COMMENT: "",
}


@lru_cache(maxsize=512)
def script_of(written: Sequence[str]) -> str:
    """Put a variable between each two texts of a command; RefusedError if the shell would parse one of the values."""
    if len(written) == 1:
        return written[0]
    places = places_in(VALUE.join(written))
    forms = [_FORMS[place].format(variable(number)) for number, place in enumerate(places)]
    return "".join([text + form for text, form in zip(written, [*forms, ""], strict=True)])


def with_arguments(script: str, count: int) -> str:
    """Let a script begin with so many arguments, which come in variables."""
    if not count:
        return script
    names = [argument(number) for number in range(count)]
    given = " ".join(f'"${{{name}}}"' for name in names)
    return f"set -- {given}; unset {' '.join(names)}; {script}"


def argument(number: int) -> str:
    """Name the variable of an argument by its place, counted from 0."""
    return f"{VARIABLE}ARG_{number + 1}"


def variable(number: int) -> str:
    """Name the variable of a value by its place, counted from 0."""
    return f"{VARIABLE}{number + 1}"
