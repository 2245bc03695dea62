"""Bytes, text, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.errors import Permanent
from graphmill.nodes.files.encoding import decoded, encoded, require_encoding


def written(text, encoding, **more):
    return b"".join(encoded([text], encoding, **more))


@pytest.mark.parametrize(
    "name", ["utf-8", "UTF8", "utf-8-sig", "latin-1", "cp1252", "utf-16", "utf-16-le", "shift_jis", "binary"]
)
def test_text_encodings_are_taken(name):
    require_encoding(name)


@pytest.mark.parametrize("name", ["", "utf8mb4", "rot13", "base64", "zlib", "undefined", "a\0b", "../x", "hex"])
def test_what_is_no_text_encoding_is_refused_with_some_that_are(name):
    with pytest.raises(ValueError, match=r"no encoding .*utf-8, utf-8-sig"):
        require_encoding(name)


@pytest.mark.parametrize(("name", "remedy"), [("utf-16", "utf-16-le"), ("UTF_32", "utf-32-le")])
def test_an_encoding_that_begins_with_a_mark_is_not_appended(name, remedy):
    with pytest.raises(ValueError, match=remedy):
        require_encoding(name, appends=True)


@given(st.text(), st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32-be", "utf-7"]))
def test_text_comes_back_as_it_was_line_ends_included(text, encoding):
    if encoding.endswith(("8", "sig")) and text.startswith("\ufeff"):
        text = "x" + text
    try:
        data = written(text, encoding)
    except Permanent:
        assert any("\ud800" <= letter <= "\udfff" for letter in text)
        return
    assert decoded(data, encoding) == text


@given(st.binary())
def test_bytes_come_back_as_they_were(data):
    assert written(decoded(data, "binary"), "binary") == data


def test_a_mark_is_kept_in_utf_8_and_taken_off_in_utf_8_sig():
    assert decoded(b"\xef\xbb\xbfx", "utf-8") == "\ufeffx"
    assert decoded(b"\xef\xbb\xbfx", "utf-8-sig") == "x"
    assert written("x", "utf-8-sig") == b"\xef\xbb\xbfx"
    assert written("x", "utf-8-sig", is_first=False) == b"x"


def test_one_mark_is_written_however_many_chunks_there_are():
    assert b"".join(encoded(["a", "b", ""], "utf-16")) == "ab".encode("utf-16")
    assert b"".join(encoded(["日", "本"], "iso2022_jp")) == "日本".encode("iso2022_jp")


def test_bytes_that_are_no_text_are_named_by_their_offset_with_the_remedy():
    with pytest.raises(Permanent, match=r"not utf-8: byte 0xff at offset 2 \(invalid start byte\).*`encoding: binary`"):
        decoded(b"ab\xffcd", "utf-8")
    with pytest.raises(Permanent, match="not utf-16"):
        decoded(b"\xff\xfea", "utf-16")


def test_a_character_that_can_not_be_written_is_named_by_its_position_over_all_chunks():
    with pytest.raises(Permanent, match=r"'€' at position 5 can not be written as latin-1.*utf-8"):
        b"".join(encoded(["abc", "de€"], "latin-1"))
    with pytest.raises(Permanent, match="half of a surrogate pair"):
        written("a\ud800", "utf-8")


@pytest.mark.parametrize("text", ["a", "a===", "ä", "YQ==YQ==", "<>"])
def test_what_is_no_base64_is_a_permanent_failure(text):
    with pytest.raises(Permanent, match="base64"):
        written(text, "binary")


def test_base64_may_be_broken_into_lines():
    assert written("YW\nJj\n", "binary") == b"abc"
