import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.result import Failure, Kind
from graphmill.graph.secrets import Redactor, Secret, find_secrets, mark_secrets

KEY = "sk-0123456789"
words = st.text(st.sampled_from("abcdefé🔑"), min_size=16, max_size=40)
letters = st.text(st.sampled_from("ghijkl \n\"'ü"), max_size=60)


def redacted(text, *secrets):
    return Redactor(values=secrets).text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("key sk-0123456789 is wrong", "key … is wrong"),
        ("key 123456789 is wrong", "key … is wrong"),
        ("key 6789 is wrong", "key 6789 is wrong"),
        ("sk-0123 456789", "…"),
        ("it ends in sk-01…", "it ends in ……"),
        ("it ends in sk-01", "it ends in …"),
        ("sk-01\nsk-01 x", "…\nsk-01 x"),
    ],
)
def test_a_key_is_redacted_whole_in_part_and_cut_short(text, expected):
    assert redacted(text, KEY) == expected


def test_a_short_secret_is_found_only_as_it_is():
    assert redacted("hunter2 and hunt er2, hun", "hunter2") == "… and hunt er2, hun"
    assert redacted("abc", "abc") == "abc"


def test_a_variable_is_replaced_by_its_name_which_is_left_alone(monkeypatch):
    monkeypatch.setenv("GM_KEY", "env: GM_KEY-0123456789")
    redact = Redactor(names=("GM_KEY", "GM_NOT_SET"))
    once = redact.text("with env: GM_KEY-0123456789!")
    assert once == "with {env: GM_KEY}!"
    assert redact.text(once) == once


def test_a_failure_is_redacted_in_all_its_texts():
    failure = Failure(kind=Kind.PERMANENT, message=f"m {KEY}", type="T", traceback=f"t {KEY}", answer=f"a {KEY}")
    found = Redactor(values=(KEY,))(failure)
    assert (found.message, found.traceback, found.answer) == ("m …", "t …", "a …")
    assert Redactor()(failure) is failure


def test_in_data_only_whole_secrets_are_replaced():
    data = {"a": [f"x{KEY}", KEY[:10]], "n": 1, "j": json.dumps('say "hunter2"')}
    expected = {"a": ["x…", KEY[:10]], "n": 1, "j": '"…"'}
    assert Redactor(values=(KEY, 'say "hunter2"')).data(data) == expected


@given(
    letters, letters, words, st.sampled_from([str, repr, json.dumps, lambda text: json.dumps(text, ensure_ascii=False)])
)
def test_no_part_that_is_long_enough_is_ever_left_however_it_is_written(before, after, secret, written):
    text = redacted(f"{before}{written(secret)}{after}", secret)
    assert not any(secret[at : at + 9] in text for at in range(len(secret) - 8))
    assert written(secret)[2:-2] not in text


def test_secrets_are_marked_at_any_depth_and_nothing_else_is_touched():
    plain = {"a": [{"env": 1}, {"env": "A", "b": 1}], "n": None}
    assert mark_secrets(plain) is plain
    params = {"key": {"env": "KEY"}, "deep": [{"x": {"env": "B_2"}}], "same": plain}
    marked = mark_secrets(params)
    assert marked == {"key": Secret("KEY"), "deep": [{"x": Secret("B_2")}], "same": plain}
    assert marked["same"] is plain
    assert list(find_secrets(marked)) == [(("key",), Secret("KEY")), (("deep", 0, "x"), Secret("B_2"))]
