import json
import math
import tracemalloc
from collections import OrderedDict, UserDict, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphmill as gm
from graphmill.core.errors import Permanent
from graphmill.core.json import fresh, from_json, json_bytes, json_of, to_json
from support.odd_texts import LONE_SURROGATES, ODD_TEXTS, json_values


class Colour(Enum):
    RED = "red"


class Mood(StrEnum):
    GOOD = "good"


class Level(IntEnum):
    HIGH = 3


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    label: str = "here"
    inner: list[object] = field(default_factory=list)


class Model:
    """Dumps itself as pydantic models do."""

    def __init__(self, **fields):
        self.fields = fields

    def model_dump(self, *, mode):
        assert mode == "json"
        return self.fields


Pair = namedtuple("Pair", "left right")


@given(json_values)
def test_what_is_written_is_read_back_the_same(value):
    assert from_json(to_json(value).encode()) == value


@pytest.mark.parametrize("character", ["x", "é"])
def test_what_is_written_holds_no_more_memory_than_it_needs(character):
    value = {"answer": character * 100_000}
    json_bytes(value)  # from now on the text holds its UTF-8
    tracemalloc.start()
    try:
        body = json_bytes(value)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(body) <= held < 1.1 * len(body)


@given(json_values)
def test_a_value_is_one_line_for_every_reader_and_can_be_encoded(value):
    text = to_json(value)
    assert len(text.splitlines()) == 1
    assert text.encode().decode() == text


@given(st.lists(st.floats() | st.dictionaries(st.text(max_size=3), st.floats(), max_size=3), max_size=4))
def test_numbers_that_json_lacks_become_null_and_all_others_stay(value):
    def plain(entry):
        if isinstance(entry, dict):
            return {key: plain(inner) for key, inner in entry.items()}
        return entry if math.isfinite(entry) else None

    assert json.loads(to_json(value)) == [plain(entry) for entry in value]


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (math.nan, "NaN"),
        ({"v": [None, (-math.inf,)]}, "NaN"),
        (Point(math.nan), "NaN"),
        ({1: math.inf}, "NaN"),
        ({1: "a", "1": "b"}, "repeated key '1'"),
        ([{"x": {None: 1, "null": 2}}], "repeated key 'null'"),
    ],
)
def test_an_output_that_json_would_change_is_a_permanent_failure(output, reason):
    with pytest.raises(Permanent, match=f"the output is not JSON: {reason}"):
        json_of(output)


@pytest.mark.parametrize("output", [None, "null", {"v": None, "w": 0.5}, {1: "a", "2": None}, Point(1.5)])
def test_an_output_that_json_holds_is_written(output):
    assert json_of(output) == json_bytes(output)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Point(1.5, inner=[Colour.RED]), {"x": 1.5, "label": "here", "inner": ["red"]}),
        (Model(when=date(2024, 2, 29)), {"when": "2024-02-29"}),
        (datetime(2024, 2, 29, 12, 30, tzinfo=UTC), "2024-02-29T12:30:00+00:00"),
        (date(2024, 2, 29), "2024-02-29"),
        (time(12, 30), "12:30:00"),
        (Decimal("0.10"), "0.10"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Path("/tmp/a b"), "/tmp/a b"),
        (PurePosixPath("ü"), "ü"),
        (Colour.RED, "red"),
        (Mood.GOOD, "good"),
        (Level.HIGH, 3),
        ({"only"}, ["only"]),
        (frozenset([1]), [1]),
        ((1, (2,)), [1, [2]]),
        (Pair(1, 2), [1, 2]),
        (OrderedDict(b=1), {"b": 1}),
        (UserDict(b=1), {"b": 1}),
        (MappingProxyType({"b": (1,)}), {"b": [1]}),
        ({1: "a", None: "b", False: "c"}, {"1": "a", "null": "b", "false": "c"}),
    ],
)
def test_python_s_own_types_are_written_in_their_usual_form(value, written):
    assert json.loads(to_json(value)) == written


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (b"bytes", "bytes"),
        (timedelta(1), "datetime.timedelta"),
        (object(), "object"),
        (1j, "complex"),
        (Point, "type"),
        ([{"deep": {"inside": b""}}], "bytes"),
        ([math.nan, b""], "bytes"),
        ({(1, 2): "key"}, "tuple"),
        (range(3), "range"),
    ],
)
def test_any_other_type_is_refused_by_name(value, name):
    with pytest.raises(TypeError, match=rf"\b{name}\b"):
        to_json(value)


def test_a_value_that_holds_itself_is_refused_and_does_not_hang():
    loop = []
    loop.append(loop)
    with pytest.raises((ValueError, RecursionError)):
        to_json(loop)


def test_text_stays_readable_but_for_line_ends():
    assert to_json("naïve 😀") == '"naïve 😀"'
    assert to_json("a\u0085b\u2028c\u2029") == '"a\\u0085b\\u2028c\\u2029"'


@pytest.mark.parametrize("text", LONE_SURROGATES.values(), ids=LONE_SURROGATES)
def test_half_a_character_is_escaped_as_key_and_as_value_beside_others(text):
    value = {text: [text, *ODD_TEXTS.values()], "n": 10**30, "x": 0.1}
    assert to_json(value).isascii()
    assert json.loads(to_json(value)) == value


def test_whole_numbers_keep_every_digit():
    assert from_json(to_json([10**4000, -(2**64) - 1]).encode()) == [10**4000, -(2**64) - 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"a":\n  tru}', "line 8, column 3: not JSON: Expecting value"),
        (b'["\xc3\xa9", \xff]', "line 7, column 7: not JSON: .*0xff"),
        (b'[\n"\xc3\xa9\xff"]', "line 8, column 3: not JSON: .*0xff"),
        (b'\n"\xff"', "line 8, column 2: not JSON: .*0xff"),
        (b"9" * 5000, "^line 7: not JSON: .*4300"),
        (b"[" * 100_000, "^line 7: not JSON: .*recursion"),
        (b"\n" + b"[" * 100_000, "^line 7 or later: not JSON: .*recursion"),
    ],
)
def test_a_mistake_is_named_by_line_and_column_of_the_file_it_stands_in(text, message):
    with pytest.raises(ValueError, match=message):
        from_json(text, first_line=7)


NUMBERS = st.from_regex(r"-?[0-9]{1,40}(\.[0-9]{0,40})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


@st.composite
def nearly_json(draw):
    """JSON, or what a change of a few bytes makes of it."""
    text = bytearray(draw(json_values.map(lambda value: to_json({"a": value}).encode()) | NUMBERS.map(str.encode)))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(text)))
        text[place : place + draw(st.integers(0, 1))] = draw(
            st.sampled_from(b'{}[]",:\\u0eE+-. \t\n\x00\x1f\x7f\xc2\xed\xff')
        ).to_bytes()
    return bytes(text)


@given(nearly_json())
def test_any_text_is_read_as_python_reads_it(text):
    assert _read(from_json, text) == _read(json.loads, text)


def _read(reader, text):
    try:
        return repr(reader(text))
    except ValueError:
        return "a mistake"


def test_a_repeated_key_is_refused_only_where_that_is_asked_for():
    text = b'{"a": {"c": 0, "b": 1, "b": 2}}'
    assert from_json(text) == {"a": {"b": 2, "c": 0}}
    with pytest.raises(ValueError, match="repeated key 'b'"):
        from_json(text, unique_keys=True)
    assert from_json(b'{"a": {"a": 1}}', unique_keys=True) == {"a": {"a": 1}}


containers = st.recursive(
    st.integers() | st.text(max_size=3) | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.tuples(inner, inner)
        | st.sets(st.integers(), max_size=3)
    ),
    max_leaves=12,
)


def types_in(value):
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return (type(value), [types_in(entry) for entry in entries])


@given(containers)
def test_a_fresh_value_is_equal_and_of_the_same_types(value):
    assert fresh(value) == value
    assert types_in(fresh(value)) == types_in(value)


def test_other_objects_are_passed_on_as_they_are():
    @dataclass
    class Handle:
        number: int

    handle = Handle(1)
    assert fresh([{"handle": handle}])[0]["handle"] is handle


def test_a_function_that_changes_its_item_changes_only_its_own_copy():
    def greedy(item):
        item["list"].append(1)
        item["tuple"][0].clear()
        item["set"].add(2)
        item.clear()

    items = [{"list": [], "tuple": (["kept"],), "set": {1}}]
    (result,) = gm.batch(greedy, items).results()
    assert result.is_success
    assert result.input == items[0] == {"list": [], "tuple": (["kept"],), "set": {1}}
