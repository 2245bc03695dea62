import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.yaml import from_yaml, to_yaml

text = st.text(st.characters(codec="utf-8"))
keys = st.text(st.characters(codec="utf-8"), max_size=50)  # YAML itself allows 1,024 characters, escapes counted
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


def escaped(value):
    """Write JSON whose every unusual character is written as YAML, which has no surrogate pairs, escapes it."""
    written = json.dumps(value, ensure_ascii=False)
    return "".join(char if " " <= char <= "~" else f"\\U{ord(char):08x}" for char in written)


@given(values)
def test_what_is_written_is_read_as_the_same_data(value):
    assert from_yaml(to_yaml(value).encode()) == value


@pytest.mark.parametrize(
    "word", ["no", "true", "null", "~", "01234", "1e5", "12:30", "2025-01-01", "<<", "", "- a", "a\n  b\n"]
)
def test_texts_that_look_like_something_else_are_written_as_texts(word):
    assert from_yaml(to_yaml([word, {word: 1}]).encode()) == [word, {word: 1}]


@given(values)
def test_json_read_as_yaml_is_the_same_data(value):
    assert from_yaml(escaped(value).encode()) == value


TEXTS = "no NO yes Yes on off y n 2024-02-29 12:30 12:30:45 1:30.5 01234 0x1f 0b1 1_000 .inf -.INF .nan = + . e5 1e 1.2.3 tRue none NaN"
PLAIN = {
    "true": True,
    "True": True,
    "FALSE": False,
    "null": None,
    "~": None,
    "": None,
    "0": 0,
    "-7": -7,
    "+7": 7,
    "1.5": 1.5,
    ".5": 0.5,
    "-1.": -1.0,
    "1e3": 1000.0,
    "-1.5E-3": -0.0015,
    "'1'": "1",
    '"true"': "true",
    "'null'": "null",
    "!!str 1": "1",
    "!!int '1'": 1,
    "!!float 1": 1.0,
}


@pytest.mark.parametrize("scalar", [*TEXTS.split(), "2024-02-29 12:30:00"])
def test_what_yaml_1_1_would_turn_into_something_else_stays_text(scalar):
    assert from_yaml(f"key: {scalar}".encode()) == {"key": scalar}
    assert from_yaml(f"[a, {scalar}]".encode()) == ["a", scalar]


@pytest.mark.parametrize(("scalar", "value"), PLAIN.items(), ids=PLAIN)
def test_plain_scalars_are_what_json_has(scalar, value):
    found = from_yaml(f"key: {scalar}".encode())["key"]
    assert found == value
    assert type(found) is type(value)


def test_keys_that_yaml_1_1_takes_for_truths_stay_text():
    assert from_yaml(b"{no: 1, on: 2, y: 3}") == {"no": 1, "on": 2, "y": 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", r"^line 3, column 1: repeated key 'a'"),
        ("x:\n  - {a: 1, 'a': 2}", r"^line 2, column 12: repeated key 'a'"),
        ("? [a]\n: b", r"^line 1, column 3: a key must be text, not a list"),
        ("? {a: 1}\n: b", r"^line 1, column 3: a key must be text, not a list or a mapping"),
        ("a: &a\n  b: [*a]", r"^line 1, column 4: this contains itself"),
        ("a: [1, 2", r"^line 2, column 1: .*expected ',' or '\]'"),
        ("a: b: c", r"^line 1, column 5: mapping values are not allowed"),
        ("a: 1\n---\nb: 2", r"^line 2, column 1: expected a single document in the stream, but found another"),
        ("a: *gone", r"^line 1, column 4: .*undefined alias"),
        ("a: !!binary aGk=", r"^line 1, column 4: .*binary"),
        ("a: !!timestamp 2024-02-29", r"^line 1, column 4: .*timestamp"),
        ("a: !!set {b}", r"^line 1, column 4: .*set"),
        ("a: !!python/object/apply:os.getcwd []", r"^line 1, column 4: .*python"),
        ("a: !custom b", r"^line 1, column 4: .*!custom"),
        ("a: !!bool perhaps", "does not fit its tag"),
        ("a: !!int ''", "does not fit its tag"),
        ("a: !!int three", "three"),
        ("\tb: 1", "^line 1, column 1: .*cannot start any token"),
    ],
)
def test_what_is_not_plain_data_is_refused_with_its_place(text, message):
    with pytest.raises(ValueError, match=message):
        from_yaml(text.encode())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"- \xc3\xa9\n- \xc3\xa9\xff", "^line 2, column 4: invalid leading UTF-8"),
        (b"- a\n- \xc3\xa9\x00b", "^line 2, column 4: control characters are not allowed"),
        (b"- \x1b[31m", "^line 1, column 3: control characters are not allowed"),
    ],
)
def test_bytes_that_yaml_does_not_allow_are_named_by_line_and_column(text, message):
    with pytest.raises(ValueError, match=message) as caught:
        from_yaml(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("levels", [201, 2_000, 100_000])
def test_data_that_is_nested_too_deep_is_refused_and_does_not_end_the_process(levels):
    with pytest.raises(ValueError, match="nested deeper than 200 levels"):
        from_yaml(b"[" * levels + b"]" * levels)
    with pytest.raises(ValueError, match="nested deeper than 200 levels"):
        from_yaml(b"- " * levels + b"x")


def test_two_hundred_levels_are_read_and_siblings_do_not_add_up():
    value = from_yaml(b"[" * 199 + b"1" + b"]" * 199)
    for _ in range(199):
        (value,) = value
    assert value == 1
    assert from_yaml(b"[" + b"[1]," * 1000 + b"]") == [[1]] * 1000
    with pytest.raises(ValueError, match="nested deeper than 200 levels"):
        from_yaml(b"[" + b"[1]," * 1000 + b"[" * 201 + b"]" * 202)


def test_merges_and_anchors_are_worked_in_and_may_repeat_a_key():
    text = b"""
    - &base {a: 1, b: 1}
    - x: {y: {middle: &middle {<<: *base, a: 2}}}
    - {<<: *middle, b: 3}
    - [*base, *base]
    """
    base = {"a": 1, "b": 1}
    assert from_yaml(text) == [base, {"x": {"y": {"middle": {"a": 2, "b": 1}}}}, {"a": 2, "b": 3}, [base, base]]


def test_an_empty_document_is_nothing():
    assert from_yaml(b"") is from_yaml(b"# only a comment\n") is from_yaml(b"---\n") is None


def test_a_byte_order_mark_is_passed_over():
    assert from_yaml(b"\xef\xbb\xbfa: 1") == {"a": 1}


def test_a_bomb_of_aliases_is_refused_before_it_goes_off():
    levels = [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 12)]
    with pytest.raises(ValueError, match=r"line \d+, column \d+: its aliases expand to more than 10,000,000 values"):
        from_yaml("\n".join(["a0: &a0 [x]", *levels]).encode())
