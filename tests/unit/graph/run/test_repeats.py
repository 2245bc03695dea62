"""When a text repeats an earlier one."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.graph.run.repeats import EarlierTexts, word_pairs

words = st.lists(st.sampled_from(["the", "sum", "sum", "is", "off", "7", "-", "."]), max_size=30)


def is_repeated(earlier, text, similarity=0.9):
    texts = EarlierTexts(similarity)
    assert not texts.add(earlier)
    return texts.add(text)


@given(st.text(max_size=50), st.floats(0.01, 1))
def test_every_text_repeats_itself_also_the_empty_one(text, similarity):
    assert is_repeated(text, text, similarity)


@given(words, words, st.floats(0.05, 0.99))
def test_texts_are_similar_by_the_share_of_word_pairs_that_both_have(one, other, similarity):
    counts = [Counter(zip(["", *each], [*each, ""], strict=True)) for each in (one, other)]
    share = 2 * (counts[0] & counts[1]).total() / (counts[0].total() + counts[1].total())
    if abs(share - similarity) > 1e-9:
        assert is_repeated(" ".join(one), " ".join(other), similarity) is (share >= similarity)


@given(words)
def test_spaces_between_words_do_not_count_unless_texts_must_be_the_same(text):
    one, other = " ".join(text), "\n".join(text) + "\n"
    assert is_repeated(one, other)
    assert not is_repeated(one, other, similarity=1)


@pytest.mark.parametrize(
    ("earlier", "text"),
    [("x = 1", "x = -1"), ("3.14", "3.15"), ("", "a"), ("a b", "b a"), ("答案是四十一", "答案是四十二")],
)
def test_short_texts_that_differ_in_a_word_or_a_symbol_are_not_similar(earlier, text):
    assert not is_repeated(earlier, text)


def test_a_text_without_spaces_is_compared_by_its_characters():
    text = "解答の三行目で符号を間違えているので、最後の和が正しくありません。" * 3
    assert is_repeated(text, text.replace("最後", "最終", 1))


def test_any_earlier_text_counts_and_not_only_the_last():
    texts = EarlierTexts(0.9)
    assert [texts.add(text) for text in ("one thing", "quite another", "one  thing", "another thing")] == [
        False,
        False,
        True,
        False,
    ]


def test_pairs_are_the_same_in_every_process():
    assert list(word_pairs("a b")) == [3904355907, 1813784396, 552573993]
