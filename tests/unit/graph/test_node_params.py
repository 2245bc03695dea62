from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.errors import Permanent
from graphmill.graph.node_params import Filled, is_open, param_problems, pieces_of
from graphmill.graph.node_type import NodeType
from graphmill.graph.registry import find_node_type
from graphmill.graph.run.step import read_params
from graphmill.graph.template import TemplateError, compile_params


class Auth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    user: str
    token: str = ""


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: str
    method: Literal["GET", "POST"] = "GET"
    headers: dict[str, str] = {}
    codes: list[int] = []
    auth: Auth | None = None
    wait: Annotated[float, msgspec.Meta(gt=0)] | None = None
    body: Any = None
    raw: str | None = None


class Http(NodeType):
    name = "http"
    summary = "Asks."
    Params = Params
    outputs = None
    untemplated = frozenset({"raw"})


def problems(**params):
    return [(error.at, str(error)) for error in param_problems(Http(), params)]


def test_right_params_have_no_problem():
    assert problems(url="x", headers={"a": "b"}, codes=[1], auth={"user": "u"}, wait=1, body=[{}], raw="${x}") == []


@pytest.mark.parametrize(
    "params",
    [
        {"url": "${u}", "method": "${m}", "headers": "${h}", "codes": "${c}", "auth": "${a}", "wait": "${w}"},
        {"url": {"env": "URL"}, "headers": {"x": {"env": "TOKEN"}}, "codes": ["${a}", 5], "auth": {"user": "${u}"}},
        {"url": "x", "auth": {"env": "AUTH"}, "body": {"deep": ["${x}"]}},
    ],
)
def test_what_is_known_at_the_attempt_only_passes(params):
    assert problems(**params) == []


@pytest.mark.parametrize(
    ("params", "at", "message"),
    [
        ({}, (), "'url' is missing"),
        (
            {"url": "x", "metod": 1},
            ("metod",),
            "unknown key 'metod' (did you mean 'method'?); known keys: url, method, headers, codes, auth, wait, body, raw",
        ),
        ({"url": 5}, ("url",), "url: must be text, got an integer"),
        ({"url": None}, ("url",), "url: must be text, got null"),
        (
            {"url": "x", "method": "PUST"},
            ("method",),
            "method: must be one of GET, POST, got 'PUST' (did you mean 'POST'?)",
        ),
        ({"url": "x", "headers": []}, ("headers",), "headers: must be a mapping, got a list"),
        ({"url": "x", "headers": ["${a}"]}, ("headers",), "headers: must be a mapping, got a list"),
        (
            {"url": "x", "headers": {"a": 1, "b": "${b}"}},
            ("headers", "a"),
            "headers.a: must be text, got an integer",
        ),
        ({"url": "x", "headers": {5: "a"}}, ("headers",), "headers: a key must be text, got 5"),
        ({"url": "x", "codes": ["${a}", "b"]}, ("codes", 1), "codes.1: must be an integer, got text"),
        ({"url": "x", "codes": {"a": "${a}"}}, ("codes",), "codes: must be a list, got a mapping"),
        (
            {"url": "x", "auth": {"user": "${u}", "tokn": "t"}},
            ("auth", "tokn"),
            "auth: unknown key 'tokn' (did you mean 'token'?); known keys: user, token",
        ),
        ({"url": "x", "auth": {"token": "${t}"}}, ("auth",), "auth: 'user' is missing"),
        ({"url": "x", "wait": True}, ("wait",), "wait: must be a number or null, got true or false"),
        ({"url": "x", "wait": -1}, ("wait",), "wait: must be a number > 0.0"),
        ({"url": "x", "raw": 5}, ("raw",), "raw: must be text or null, got an integer"),
    ],
)
def test_what_is_wrong_as_written_is_told_with_its_place(params, at, message):
    assert problems(**params) == [(at, message)]


def test_all_problems_are_told_at_once():
    assert [at for at, _ in problems(metod=1, wait="x", headers=5)] == [("metod",), ("wait",), ("headers",), ()]


def test_resolved_params_are_read_and_hold_what_they_were_given():
    body = [object()]
    read = read_params(Http(), {"url": "x", "body": body, "headers": MappingProxyType({"a": "b"})})
    assert read == Params(url="x", body=body, headers={"a": "b"})
    assert read.body is body


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"url": 5}, "invalid params for http: url: must be text, got an integer"),
        (
            {"url": "x", "codes": [1, "${literal}"]},
            "invalid params for http: codes.1: must be an integer, got text",
        ),
        (
            {"url": "x", "auth": {"env": "X"}},
            "invalid params for http: auth: unknown key 'env'; known keys: user, token; auth: 'user' is missing",
        ),
    ],
)
def test_resolved_params_that_do_not_fit_fail_for_good_and_name_the_field(params, message):
    with pytest.raises(Permanent) as caught:
        read_params(Http(), params)
    assert str(caught.value) == message


def test_a_type_that_takes_any_mapping_is_given_it_as_it_is():
    given = {5: object()}
    assert read_params(find_node_type("value"), given) is given
    assert param_problems(find_node_type("value"), given) == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["", "GET", "x", "user"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["user", "token", "env", "x"]), inner),
    max_leaves=6,
)
names = st.sampled_from(["url", "method", "headers", "codes", "auth", "wait", "body", "raw", "other"])


@given(st.dictionaries(names, json_values))
def test_without_templates_the_check_and_the_attempt_agree(params):
    if any(is_open(value) for value in params.values()):
        return
    try:
        read_params(Http(), params)
    except Permanent:
        assert param_problems(Http(), params)
    else:
        assert param_problems(Http(), params) == []


class ShellParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    command: str
    other: str = ""


class Shell(NodeType[ShellParams]):
    name = "shell"
    summary = "As a shell would."
    Params = ShellParams
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
    with pytest.raises(Permanent, match="cannot be part of a text"):
        read({"command": "ls ${a}"}, a=object())
