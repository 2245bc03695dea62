"""Values as the text of a file, and text as bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.errors import Permanent
from graphmill.nodes.files.content import check_encoding, decode, encode, format_of, text_chunks


def text_of(content, path="x", form=None):
    return "".join(text_chunks(content, form or format_of(content, path)))


@pytest.mark.parametrize(
    ("content", "path", "text"),
    [
        ("a\r\nb", "x.jsonl", "a\r\nb"),
        ("", "x", ""),
        (3, "x", "3"),
        (True, "x", "true"),
        (1.5, "x", "1.5"),
        ({"ä": [1, None]}, "x.txt", '{"ä":[1,null]}\n'),
        ([], "x", "[]\n"),
        ([1, "a", {"b": 2}], "x", '[1,"a",{"b":2}]\n'),
        ([1, "a\n", {"b": 2}], "x.jsonl", '1\n"a\\n"\n{"b":2}\n'),
        ([1, [2]], "X.NDJSON", "1\n[2]\n"),
        ([], "x.jsonl", ""),
        ({"a": 1}, "x.jsonl", '{"a":1}\n'),
    ],
)
def test_a_value_is_written_as_its_kind_and_the_path_say(content, path, text):
    assert text_of(content, path) == text


@pytest.mark.parametrize(
    ("content", "form", "text"),
    [
        ("a", "json", '"a"\n'),
        (None, "json", "null\n"),
        ([1, 2], "jsonl", "1\n2\n"),
        ({"a": 1}, "jsonl", '{"a":1}\n'),
        ("a", "jsonl", '"a"\n'),
    ],
)
def test_a_format_that_is_named_counts(content, form, text):
    assert text_of(content, "x.txt", form) == text


@pytest.mark.parametrize(
    ("content", "form", "why"), [(None, None, 'use ""'), ([1], "text", "not text"), ({}, "text", "not text")]
)
def test_what_is_no_text_is_a_permanent_failure_with_the_remedy(content, form, why):
    with pytest.raises(Permanent, match=f"^content .*{why}"):
        text_of(content, "x", form)


def test_text_that_is_no_unicode_is_escaped_in_json():
    assert text_of(["\ud800"]) == '["\\ud800"]\n'


def written(text, encoding, **more):
    return b"".join(encode([text], encoding, **more))


@pytest.mark.parametrize(
    "name", ["utf-8", "UTF8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-le", "shift_jis", "binary"]
)
def test_text_encodings_are_taken(name):
    check_encoding(name)


@given(st.text(), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32-be", "utf-7"]))
def test_text_comes_back_as_it_was_line_ends_included(text, encoding):
    if encoding.endswith(("8", "sig")) and text.startswith("\ufeff"):
        text = "x" + text
    try:
        data = written(text, encoding)
    except Permanent:
        assert any("\ud800" <= letter <= "\udfff" for letter in text)
        return
    assert decode(data, encoding) == text


@given(st.binary())
def test_bytes_come_back_as_they_were(data):
    assert written(decode(data, "binary"), "binary") == data


def test_a_mark_is_kept_in_utf_8_and_taken_off_in_utf_8_sig():
    assert decode(b"\xef\xbb\xbfx", "utf-8") == "\ufeffx"
    assert decode(b"\xef\xbb\xbfx", "utf-8-sig") == "x"
    assert written("x", "utf-8-sig") == b"\xef\xbb\xbfx"
    assert written("x", "utf-8-sig", is_first=False) == b"x"


def test_one_mark_is_written_however_many_chunks_there_are():
    assert b"".join(encode(["a", "b", ""], "utf-16")) == "ab".encode("utf-16")
    assert b"".join(encode(["日", "本"], "iso2022_jp")) == "日本".encode("iso2022_jp")


def test_bytes_that_are_no_text_are_named_by_their_offset_with_the_remedy():
    with pytest.raises(Permanent, match=r"not utf-8: byte 0xff at offset 2 \(invalid start byte\).*`encoding: binary`"):
        decode(b"ab\xffcd", "utf-8")
    with pytest.raises(Permanent, match="not utf-16"):
        decode(b"\xff\xfea", "utf-16")


def test_a_character_that_can_not_be_written_is_named_by_its_position_over_all_chunks():
    with pytest.raises(Permanent, match=r"'€' at position 5 cannot be written as latin-1.*utf-8"):
        b"".join(encode(["abc", "de€"], "latin-1"))
    with pytest.raises(Permanent, match="half of a surrogate pair"):
        written("a\ud800", "utf-8")


@pytest.mark.parametrize("text", ["a", "a===", "ä", "YQ==YQ==", "<>"])
def test_what_is_no_base64_is_a_permanent_failure(text):
    with pytest.raises(Permanent, match="base64"):
        written(text, "binary")


def test_base64_may_be_broken_into_lines():
    assert written("YW\nJj\n", "binary") == b"abc"
