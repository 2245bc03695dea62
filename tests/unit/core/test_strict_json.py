"""JSON read strictly: quickly or not, the same is read and the same refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.strict_json import STRICT, strict_object

TEXTS = st.text(alphabet='":\\u03a{}[], éx', max_size=8)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(TEXTS, DATA, max_size=4), st.booleans(), st.sampled_from([None, 1]))
def test_what_is_read_quickly_is_what_is_read_strictly(data, is_ascii, indent):
    body = json.dumps(data, ensure_ascii=is_ascii, indent=indent, separators=(" ,", " : ") if indent else None).encode()
    found = strict_object(body)
    assert found is None or repr(found) == repr(STRICT.decode(body.decode()))


def test_an_answer_as_usual_is_read_quickly():
    assert strict_object(b'{"a": {"b": [1, "x: \\"y\\":"]}, "c" : null}') == {"a": {"b": [1, 'x: "y":']}, "c": None}


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": 1, "a": 2}',
        b'{"a": {"b": 1, "b": 2}}',
        b'{"a": "\\u003a", "b": 1, "b": 2}',
        b'{"a": "\\u003A", "b": 1, "b": 2}',
        b'{"a": 1, "\\u0061": 2}',
        b'{"a" : 1, "b" : {"a": 1, "a": 1}}',
        b'[{"a": 1}]',
        b'{"a": NaN}',
        b'{"a": 1',
        b'{"a": "\xff"}',
        b'{"a": 123456789012345678901234567890}',
        b"[" * 100_000,
        b"",
    ],
)
def test_what_may_hold_a_mistake_is_left_to_be_read_strictly(body):
    assert strict_object(body) is None
