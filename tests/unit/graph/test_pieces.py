"""A text whose templates are kept apart from what is written."""

from typing import ClassVar

import msgspec
import pytest

from graphmill.core.errors import Permanent
from graphmill.graph.node_params import Filled, pieces_of, read_params
from graphmill.graph.node_type import NodeType
from graphmill.graph.template import TemplateError, compile_params


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    command: str
    other: str = ""


class Shell(NodeType[Params]):
    name = "shell"
    summary = "As a shell would."
    Params = Params
    outputs: ClassVar = {}
    in_pieces = frozenset({"command"})


def read(params, **scope):
    return read_params(Shell(), compile_params(params, Shell.in_pieces).resolve(scope))


@pytest.mark.parametrize(
    ("written", "pieces", "text"),
    [
        ("ls", ("ls",), "ls"),
        ("ls ${a}", ("ls ", Filled("b c")), "ls b c"),
        ("${a}", (Filled("b c"),), "b c"),
        ("${a}${n}", (Filled("b c"), Filled(3)), "b c3"),
        ("$${a} ${n}", ("${a} ", Filled(3)), "${a} 3"),
        ("${gone ?? null}!", (Filled(None), "!"), "!"),
        ("${t}", (Filled("${a}"),), "${a}"),
    ],
)
def test_what_is_written_and_what_a_template_came_to_are_told_apart(written, pieces, text):
    params = read({"command": written, "other": "${n}."}, a="b c", n=3, t="${a}")
    assert pieces_of(params.command) == pieces
    assert (params.command, params.other) == (text, "3.")


def test_two_ways_to_the_same_text_have_different_contents():
    compiled = compile_params({"command": "${a} ${b}"}, {"command"})
    assert compiled.resolve({"a": "1 2", "b": "3"}) != compiled.resolve({"a": "1", "b": "2 3"})


def test_a_text_that_is_no_template_is_refused_in_pieces_too():
    with pytest.raises(TemplateError):
        compile_params({"command": "ls ${"}, {"command"})


def test_a_value_that_no_text_can_hold_is_a_permanent_failure():
    with pytest.raises(Permanent, match="can not stand in a text"):
        read({"command": "ls ${a}"}, a=object())
