import ast
import asyncio
import functools
import importlib
import linecache
import math
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import count
from operator import attrgetter, itemgetter, methodcaller
from pathlib import Path
from textwrap import dedent
from types import MethodType
from unittest.mock import MagicMock, Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.fingerprint import callable_name, changed, function_fingerprint, value_fingerprint
from support.odd_texts import json_values

_numbers = count()


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write a module and give its ``f``, always under the same name."""
    monkeypatch.syspath_prepend(tmp_path)
    made = []

    def write(text, name="f"):
        module = f"module_of_a_fingerprint_{next(_numbers)}"
        (tmp_path / f"{module}.py").write_text(dedent(text), encoding="utf-8")
        made.append(module)
        return getattr(importlib.import_module(module), name)

    yield write
    for module in made:
        del sys.modules[module]


PLAIN = """
def f(item):
    return item + 1
"""


def test_a_fingerprint_is_a_short_hex_text_and_the_same_each_time(written):
    f = written(PLAIN)
    assert re.fullmatch("[0-9a-f]{16}", function_fingerprint(f))
    assert function_fingerprint(f) == function_fingerprint(f)


# --- what does not count ---


@pytest.mark.parametrize(
    "text",
    [
        "def f(item): return item + 1",
        "# a comment\n\n\ndef f( item ):\n\n  # another\n  return (item\n    + 1)  # third\n",
        'def f(item):\n    """Add one."""\n    return item + 1',
        "x = 5\nif x:\n    def f(item):\n        return item + 1",
        "import os\ndef f(item):\n\treturn item + 0x1\n",
    ],
)
def test_comments_layout_docstrings_and_the_module_do_not_count(written, text):
    assert function_fingerprint(written(text)) == function_fingerprint(written(PLAIN))


def test_docstrings_inside_do_not_count_and_other_texts_do(written):
    text = "def f(item):\n    def g():\n        {}\n        return {}\n    class C:\n        {}\n    return g, C"
    bare = function_fingerprint(written(text.format("pass;", "'x'", "pass")))
    documented = function_fingerprint(written(text.format("'doc'; pass;", "'x'", "'doc'")))
    assert bare == documented
    assert function_fingerprint(written(text.format("pass;", "'y'", "pass"))) != bare


# --- what counts ---


@pytest.mark.parametrize(
    "text",
    [
        "def f(item):\n    return item + 2",
        "def f(item):\n    return item - 1",
        "def f(it):\n    return it + 1",
        "def f(item, more=1):\n    return item + 1",
        "def f(item: int):\n    return item + 1",
        "async def f(item):\n    return item + 1",
        "def g(item):\n    return item + 1\nf = g",
        "def make():\n    def f(item):\n        return item + 1\n    return f\nf = make()",
        "def same(f): return f\n@same\ndef f(item):\n    return item + 1",
        "def f(item):\n    return item + True",
        "def f(item):\n    return item + 1.0",
        "def f(item):\n    return item + None",
        "def f(item):\n    return item + '1'",
        "def f(item):\n    return item + b'1'",
    ],
)
def test_the_name_the_code_and_the_decorators_count(written, text):
    assert function_fingerprint(written(text)) != function_fingerprint(written(PLAIN))


def test_the_author_s_version_counts(written):
    f = written(PLAIN)
    prints = [
        function_fingerprint(f),
        function_fingerprint(f, "1"),
        function_fingerprint(f, version="2"),
        function_fingerprint(f, ""),
    ]
    assert len(set(prints)) == 4


def test_helpers_are_not_seen(written):
    text = "def helper(): return {}\ndef f(item): return helper()"
    assert function_fingerprint(written(text.format(1))) == function_fingerprint(written(text.format(2)))


expressions = st.recursive(
    st.sampled_from(["item", "1", "2.5", "'ä'", '"it\'s"', "None", "...", "b'x'", "{1, 2}", "[]", "f'{item!r:>{1}}'"]),
    lambda inner: st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds("g({}, k={})".format, inner, inner),
        st.builds("(lambda x: {})".format, inner),
    ),
    max_leaves=8,
)


def defined(text):
    """Make a function whose source is known, without a file."""
    filename = f"<fingerprint {next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    scope = {}
    exec(compile(text, filename, "exec"), scope)
    return scope["f"]


@given(expressions, expressions)
def test_two_functions_have_one_fingerprint_if_and_only_if_their_trees_are_the_same(one, other):
    first, second = (f"def f(item):\n    return {each}\n" for each in (one, other))
    are_same = ast.dump(ast.parse(first)) == ast.dump(ast.parse(second))
    assert (function_fingerprint(defined(first)) == function_fingerprint(defined(second))) == are_same


# --- lambdas, and functions without source ---


def test_two_lambdas_on_one_line_are_told_apart(written):
    pair = written("f = (lambda item: item + 1, lambda item: item + 2)")
    assert function_fingerprint(pair[0]) != function_fingerprint(pair[1])


@pytest.mark.parametrize(
    ("text", "are_same"),
    [
        ("f = sorted([1], key=abs) and (\n    lambda   item:  # comment\n    item + 1)", True),
        ("f = lambda item: item + 2", False),
        ("f = lambda it: it + 1", False),
        ("f = lambda item, more=1: item + 1", False),
        ("f = lambda item, more=2: item + 1", False),
        ("f = lambda item: item - 1", False),
        ("f = lambda item: len(item)", False),
        ("f = lambda item: item.x", False),
        ("f = lambda item: item.y", False),
    ],
)
def test_a_lambda_goes_by_its_compiled_code(written, text, are_same):
    assert (
        function_fingerprint(written(text)) == function_fingerprint(written("f = lambda item: item + 1"))
    ) == are_same


def executed(text):
    scope = {}
    exec(text, scope)
    return scope["f"]


def test_a_function_without_source_goes_by_its_compiled_code():
    f = function_fingerprint(executed("def f(item): return [x + 1 for x in item]"))
    assert f == function_fingerprint(executed("\n\n# comment\ndef f(item):\n    return [x + 1 for x in item]"))
    assert f != function_fingerprint(executed("def f(item): return [x + 2 for x in item]"))
    assert f != function_fingerprint(executed("async def f(item): return [x + 1 for x in item]"))
    assert f != function_fingerprint(
        executed("def f(item):\n  try: return [x + 1 for x in item]\n  except OSError: pass")
    )


def test_a_file_that_was_changed_after_it_was_imported_does_not_give_another_function_s_source(written):
    f = written("def f(item):\n    return 1\n")
    before = function_fingerprint(executed("def f(item): return 1"))
    Path(f.__code__.co_filename).write_text("def other(item):\n    return 2\n")
    linecache.clearcache()
    assert function_fingerprint(f) == before


# --- what wraps ---

WRAPPED = """
import functools
def deco(g):
    {wraps}
    def wrapper(item):
        return g(item) {outer}
    return wrapper
@deco
def f(item):
    return item {inner}
"""


@pytest.mark.parametrize("wraps", ["@functools.wraps(g)", "pass"])
def test_of_a_wrapped_function_both_count(written, wraps):
    variants = [("", ""), ("+ 1", ""), ("", "+ 1")]
    prints = {
        function_fingerprint(written(WRAPPED.format(wraps=wraps, outer=outer, inner=inner)))
        for outer, inner in variants
    }
    assert len(prints) == 3


def test_of_a_cached_function_the_function_counts(written):
    text = "import functools\n@functools.lru_cache\ndef f(item): return {}"
    assert function_fingerprint(written(text.format(1))) != function_fingerprint(written(text.format(2)))
    assert function_fingerprint(written(text.format(1))) == function_fingerprint(written(text.format(1)))


def test_values_that_a_function_closes_over_are_not_seen(written):
    text = "def make(model):\n    def f(item): return model\n    return f\nf = make('{}')"
    assert function_fingerprint(written(text.format("a"))) == function_fingerprint(written(text.format("b")))


def test_functions_that_close_over_themselves_and_each_other_are_no_obstacle(written):
    text = (
        "def make():\n    def f(item): return g(item)\n    def g(item): return f(item) + {}\n    return f\nf = make()"
    )
    assert function_fingerprint(written(text.format(1))) == function_fingerprint(written(text.format(1)))
    assert function_fingerprint(written(text.format(1))) != function_fingerprint(written(text.format(2)))


# --- partials, methods, objects, classes, built-ins ---


class Mode(Enum):
    FAST = 1
    GOOD = 2


@dataclass
class Options:
    model: str
    client: object = None


def grade(item, *more, **named):
    return item, more, named


ARGUMENTS = [
    (1, 2),
    (True, 1),
    ("a", "b"),
    (b"a", "a"),
    (1.5, 2.5),
    (None, ...),
    ([1, 2], [2, 1]),
    ((1,), [1]),
    ({"a": 1}, {"a": 2}),
    ({1, 2}, {1, 3}),
    (Mode.FAST, Mode.GOOD),
    (Options("a"), Options("b")),
    (grade, len),
    (Options, Mode),
]


@pytest.mark.parametrize(("one", "other"), ARGUMENTS)
def test_a_partial_s_plain_arguments_count(one, other):
    partial = functools.partial
    assert function_fingerprint(partial(grade, one)) == function_fingerprint(partial(grade, one))
    assert function_fingerprint(partial(grade, one)) != function_fingerprint(partial(grade, other))
    assert function_fingerprint(partial(grade, key=one)) != function_fingerprint(partial(grade, key=other))
    assert function_fingerprint(partial(grade, key=one)) != function_fingerprint(partial(grade, one))
    assert function_fingerprint(partial(grade, one)) != function_fingerprint(grade)


def test_of_an_argument_that_is_not_plain_only_the_type_counts():
    one, other = (functools.partial(grade, Options("a", client=object())) for _ in range(2))
    assert function_fingerprint(one) == function_fingerprint(other)
    assert function_fingerprint(functools.partial(grade, object())) != function_fingerprint(
        functools.partial(grade, Path())
    )


OBJECTS = """
class Base:
    def grade(self, item):
        return item {grade}
    @classmethod
    def made(cls, item):
        return item
    def __call__(self, item):
        return item {call}
class Judge(Base):
    pass
{f}
"""


@pytest.mark.parametrize(
    ("f", "counts"), [("f = Judge().grade", "grade"), ("f = Judge()", "call"), ("f = Base", "grade")]
)
def test_a_method_an_object_and_a_class_go_by_their_code(written, f, counts):
    code = {"grade": "", "call": ""}
    before = function_fingerprint(written(OBJECTS.format(f=f, **code)))
    assert function_fingerprint(written(OBJECTS.format(f=f, **code))) == before
    assert function_fingerprint(written(OBJECTS.format(f=f, **(code | {counts: "+ 1"})))) != before


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (len, abs),
        (math.sqrt, math.floor),
        (str.upper, str.lower),
        ("a".upper, "a".lower),
        ("a".upper, b"a".upper),
        (int, float),
        (itemgetter("a"), itemgetter("b")),
        (attrgetter("a.b"), attrgetter("a")),
        (methodcaller("a", 1), methodcaller("a", 2)),
        (methodcaller("a", k=1), methodcaller("a", k=2)),
        (asyncio.sleep, asyncio.wait),
        ("a".__len__, "a".__repr__),
    ],
)
def test_built_ins_are_told_apart_and_are_the_same_each_time(one, other):
    assert function_fingerprint(one) == function_fingerprint(one)
    assert function_fingerprint(one) != function_fingerprint(other)


class Hostile:
    def __getattribute__(self, name):
        raise RuntimeError(name)

    def __call__(self, item):
        return item


class Endless:
    def __getattr__(self, name):
        return Endless()

    def __call__(self, item):
        return item


class Slotted:
    __slots__ = ()

    def __call__(self, item):
        return item


def looped():
    loop = []
    loop.append(loop)
    return functools.partial(grade, loop)


ODD = {
    "hostile": Hostile,
    "endless": Endless,
    "slotted": Slotted,
    "mock": Mock,
    "magic mock": MagicMock,
    "what says that it is a partial": lambda: Mock(spec=functools.partial),
    "a partial of what holds itself": looped,
    "a method that is an object": lambda: MethodType(Slotted(), 5),
    "a method that is built in": lambda: MethodType(len, []),
    "a static method": lambda: staticmethod(grade),
    "a dispatcher": lambda: functools.singledispatch(grade),
    "a class without source": lambda: type("Made", (), {"__call__": len}),
    "an object without source": type("Made", (), {"__call__": len}),
    "no callable": lambda: 5,
    "none": lambda: None,
}


@pytest.mark.parametrize("make", ODD.values(), ids=list(ODD))
def test_an_odd_callable_has_a_fingerprint_too(make):
    assert function_fingerprint(make()) == function_fingerprint(make())


# --- everywhere the same ---


def test_the_fingerprints_of_sources_are_these_in_every_version_of_python(written):
    text = '''
    class C:
        @staticmethod
        async def f(item: "int", /, *more, key=frozenset({1}), **named) -> None:
            """Documented."""
            global x
            x = f"{item!r:>{10}} {key}" 'ä' if item else [*more, {**named}, -1.5e300, 0xff, b"\\xff", ..., None]
            async with item as a, b():
                try:
                    return await (lambda y=1: y)()
                except (OSError, ValueError) as error:
                    raise KeyError from error
            match item:
                case {"a": [1, *_], **rest} if rest: pass
    '''
    assert function_fingerprint(written(text, "C").f) == "65c4a6d53e20c138"
    assert function_fingerprint(written(PLAIN)) == "60fa189605d93d56"


CHILD = """
import functools, operator, re
class Judge:
    def __call__(self, item): return item
functions = [
    lambda item: item in {"a", "b", "c", "d", "e"},
    lambda item, more=frozenset("abcdef"): [x in {"f", "g", "h"} for x in item],
    functools.partial(len, {"x", "y", "z"}, key=object(), other=Judge(), pattern=re.compile("a")),
    Judge(), Judge().__call__, operator.itemgetter("a"), print, functools.partial(print, sep={"b": {1, "2"}, "a": lambda: {"p", "q"}}),
]
exec("def f(item, more=object()): return item in {'a', 'b', 'c'}", scope := {})
from graphmill.core.fingerprint import function_fingerprint
print([function_fingerprint(function) for function in [*functions, scope["f"]]])
"""


def test_fingerprints_are_the_same_in_every_process():
    def fingerprints(seed):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(
            [sys.executable, "-c", CHILD], env=environment, check=True, capture_output=True, text=True
        ).stdout

    outputs = {fingerprints(seed) for seed in ("0", "1", "2", "random")}
    assert len(outputs) == 1
    assert len(set(ast.literal_eval(outputs.pop()))) == 9


# --- values ---


@given(json_values, json_values)
def test_two_values_have_one_fingerprint_if_and_only_if_they_are_written_alike(one, other):
    def written(value):
        return repr(sorted_keys(value))

    assert (value_fingerprint(one) == value_fingerprint(other)) == (written(one) == written(other))
    assert value_fingerprint(one) == value_fingerprint(sorted_keys(one))


def sorted_keys(value):
    if isinstance(value, dict):
        return {key: sorted_keys(value[key]) for key in sorted(value)}
    return [sorted_keys(entry) for entry in value] if isinstance(value, list) else value


parts = st.dictionaries(
    st.sampled_from(["node 'a'", "node 'b'", "inputs", "outputs", "order"]), st.sampled_from(["1", "2"])
)


@given(parts)
def test_nothing_is_said_where_nothing_changed(same):
    assert changed(same, dict(reversed(same.items()))) == []


@given(parts, parts)
def test_every_part_that_differs_is_named_once(before, now):
    lines = changed(before, now)
    for part in (before.keys() | now.keys()) - {"order"}:
        expected = [] if before.get(part) == now.get(part) else [part]
        assert [line for line in lines if line.startswith(part)] == [
            line for line in lines if expected and line.startswith(part)
        ]
        assert len([line for line in lines if line.startswith(part)]) == len(expected)


class Judge:
    def grade(self, item):
        return item

    def __call__(self, item):
        return item


class Nameless(Judge):
    def __init__(self):
        self.__qualname__ = None


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (callable_name, "callable_name"),
        (Judge.grade, "Judge.grade"),
        (Judge().grade, "Judge.grade"),
        (Judge, "Judge"),
        (Judge(), "Judge"),
        (partial(partial(callable_name), 1), "callable_name"),
        (len, "len"),
        (lambda item: item, "<lambda>"),
        (Nameless(), "Nameless"),
    ],
)
def test_a_function_goes_by_its_qualified_name_a_partial_by_its_function_s_an_object_by_its_class_s(function, name):
    assert callable_name(function) == name
