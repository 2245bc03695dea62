"""The JSON in a model's answer: only what can not be mistaken is taken out of what stands around it."""

import json
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphmill.graph.models.answer import Misfit, json_answer

# Without backspace and form feed: before a letter they are taken for a lost LaTeX backslash.
TEXTS = st.text(st.characters(exclude_characters="\b\f", exclude_categories=["Cs"]))
VALUES = st.dictionaries(TEXTS, st.integers() | TEXTS | st.lists(st.booleans()))
WORDS = st.text(st.characters(exclude_characters="{}[]`", exclude_categories=["Cs"]))


@given(VALUES)
def test_plain_json_is_read_as_it_is(value):
    assert json_answer(f"\n {json.dumps(value)} \n") == (value, None)


@given(VALUES, st.sampled_from(["", "json", "JSON"]), WORDS, WORDS)
@example({"```": "```json"}, "json", "", "")
def test_what_stands_in_the_one_fence_is_read(value, language, before, after):
    assert json_answer(f"{before}\n```{language}\n{json.dumps(value, indent=1)}\n```\n{after}") == (value, "fence")


@given(VALUES, WORDS, WORDS)
def test_the_one_value_between_words_is_read(value, before, after):
    assert json_answer(f"so {before}{json.dumps(value)}{after} so") == (value, "text")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the answer is not JSON"),
        ("no", "the answer is not JSON"),
        ('{"a": 1} or {"a": 2}', "more than one JSON value"),
        ("see [1]: {}", "more than one JSON value"),
        ("```\n{}\n```\n```\n{}\n```", "more than one JSON value"),
        ("```json\n{'a': 1}\n```", "the answer is not JSON"),
        ('{"a": 1', "the answer is not JSON"),
        ('{"a": 1,}', "the answer is not JSON"),
        ('{"a": Infinity}', "Infinity is not a JSON number"),
        ("[" * 100_000, "the answer is "),
    ],
)
def test_what_could_be_mistaken_is_refused(text, said):
    with pytest.raises(Misfit) as caught:
        json_answer(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 300_000,
        "{" * 300_000,
        '{"a":' * 100_000,
        "```\n" * 100_000,
        "```\n{}\n" * 50_000,
        "`" * 300_000,
        "[1," * 100_000,
    ],
)
def test_no_text_takes_long(text):
    began = time.process_time()
    with pytest.raises(Misfit):
        json_answer(text)
    assert time.process_time() - began < 2
