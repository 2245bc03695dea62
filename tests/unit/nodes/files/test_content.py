"""Values as the text of a file."""

import pytest

from graphmill.core.errors import Permanent
from graphmill.nodes.files.content import format_of, text_chunks


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
    ("content", "form", "why"), [(None, None, 'give ""'), ([1], "text", "no text"), ({}, "text", "no text")]
)
def test_what_is_no_text_is_a_permanent_failure_with_the_remedy(content, form, why):
    with pytest.raises(Permanent, match=f"^content: .*{why}"):
        text_of(content, "x", form)


def test_text_that_is_no_unicode_is_escaped_in_json():
    assert text_of(["\ud800"]) == '["\\ud800"]\n'
