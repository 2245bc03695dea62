import time
import unicodedata
from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphmill as gm
from graphmill.core.usage import Usage
from graphmill.report.text import duration_text, local_time, one_line, output_text, size_text
from graphmill.report.usage import usage_lines, usage_text


def failing(messages, ids=None, retry=None):
    items = [
        {"id": name, "message": message}
        for name, message in zip(ids or map(str, range(len(messages))), messages, strict=True)
    ]

    async def graph(item):
        raise (gm.Transient if retry else gm.Permanent)(item["message"])

    return gm.batch(graph, items, policy=gm.Policy(concurrency=1, retry=retry or gm.Retry()))


def test_a_failure_is_one_line_of_id_kind_message_and_attempts():
    assert failing(["broken"]).error_lines() == ["  0   permanent   broken (1 attempt)"]
    retried = failing(["busy"], retry=gm.Retry(attempts=3, wait_s=0, cap_s=0))
    assert retried.error_lines() == ["  0   transient   busy (3 attempts)"]


@pytest.mark.parametrize(("failed", "last"), [(4, None), (5, None), (6, "  ...and 1 more"), (26, "  ...and 21 more")])
def test_the_first_five_failures_are_shown_and_the_rest_counted(failed, last):
    lines = failing([f"message {ascii_lowercase[n]}" for n in range(failed)]).error_lines()
    shown_lines = [line for line in lines if "..." not in line]
    assert [f"message {ascii_lowercase[n]} " in line for n, line in enumerate(shown_lines)] == [True] * min(failed, 5)
    assert lines[min(failed, 5) :] == ([] if last is None else [last])


def test_more_than_five_that_are_alike_are_one_line_with_their_number():
    assert failing([f"message {n}" for n in range(5)]).error_lines()[4] == "  4   permanent   message 4 (1 attempt)"
    assert failing([f"message {n}" for n in range(1005)]).error_lines() == [
        "  1,005 ×   permanent   such as: message 0 (1,000 or more different messages)"
    ]
    mixed = failing(["broken"] * 12 + [f"message {letter}" for letter in ascii_lowercase]).error_lines()
    assert (mixed[0], len(mixed), mixed[5]) == ("  12 ×   permanent   broken", 6, "  ...and 22 more")


def test_columns_are_aligned():
    assert failing(["x", "y"], ids=["a", "longer"]).error_lines() == [
        "  a        permanent   x (1 attempt)",
        "  longer   permanent   y (1 attempt)",
    ]


@pytest.mark.parametrize(
    "nasty",
    [
        "\x1b[2J\x1b[31mred",
        "a\nb",
        "a\r\x08\x08b",
        "\x9b31m",
        "\u202egnp.exe",
        "a\u2028b",
        "\x00",
        "\x07",
        "\u200b",
        "\ud800",
        "\x7f",
    ],
)
def test_nothing_that_a_terminal_would_obey_is_shown(nasty):
    (line,) = failing([nasty], ids=[nasty]).error_lines()
    assert line.isprintable()
    assert "(1 attempt)" in line


def test_long_ids_and_messages_are_cut_and_say_so():
    (line,) = failing(["m" * 10_000], ids=["i" * 10_000]).error_lines()
    name, _, message = line.strip().split("   ")
    assert name == "i" * 39 + "…"
    assert message == "m" * 44 + "…" + "m" * 14 + "… (1 attempt)"


def test_what_a_message_says_behind_a_long_path_is_seen():
    (line,) = failing([f"GET http://127.0.0.1/{'u' * 500} was answered 404"]).error_lines()
    assert line.endswith("uuu…uuuuuuuuuuuuuuu was answered 404 (1 attempt)")


def test_a_message_of_many_words_is_cut_at_its_end():
    (line,) = failing(["word " * 100]).error_lines()
    assert line.endswith("word word… (1 attempt)")


def test_an_exception_without_a_message_is_shown_by_its_type():
    def graph(item):
        raise TypeError

    assert gm.batch(graph, [0]).error_lines() == ["  0   permanent   TypeError (1 attempt)"]


@given(st.text(st.characters()), st.integers(1, 50))
def test_what_is_shown_is_printable_and_never_wider_than_asked(text, width):
    found = one_line(text, width)
    assert found.isprintable()
    assert len(found) <= width


@given(st.text(st.characters(exclude_categories=["C", "Z"]), max_size=20))
def test_plain_text_is_shown_as_it_is(text):
    assert one_line(text, 20) == text


@given(st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp"]), min_size=1, max_size=20))
def test_of_controls_only_blanks_are_left(text):
    assert one_line(text, 20) == " " * len(text), [unicodedata.category(char) for char in text]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0 s"),
        (6.14, "6.1 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (60, "1 min 00 s"),
        (238, "3 min 58 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 00 min"),
        (7500, "2 h 05 min"),
        (360_000, "100 h 00 min"),
    ],
)
def test_a_duration_is_written_as_people_say_it(value, text):
    assert duration_text(value) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (39_600, "39.6 kB"),
        (999_960, "1.0 MB"),
        (4_100_000, "4.1 MB"),
        (5 * 10**15, "5000.0 TB"),
    ],
)
def test_a_number_of_bytes_is_written_as_people_say_it(count, text):
    assert size_text(count) == text


def test_a_time_is_written_as_it_is_here_to_the_minute(monkeypatch):
    try:
        monkeypatch.setenv("TZ", "Asia/Kolkata")
        time.tzset()
        assert local_time(1_795_000_000.0) == "2026-11-18 16:36"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (Usage(), ""),
        (Usage(input_tokens=1000, output_tokens=200), "1,200 tokens"),
        (Usage(input_tokens=1000, cached_tokens=800), "1,000 tokens (800 cached)"),
        (
            Usage(
                input_tokens=1000,
                output_tokens=400,
                cached_tokens=8,
                reasoning_tokens=3000,
                image_tokens=5,
                cost_nano=3_100_000,
            ),
            "1,400 tokens (8 cached, 3,000 reasoning, 5 image) · $0.0031",
        ),
        (Usage(cost_nano=1_234_500_000_000), "$1,234.50"),
        (Usage(requests=13, cost_nano=310_000_000, unpriced=12), "$0.31 + 12 requests of unknown cost"),
        (Usage(requests=1, unpriced=1), "1 request of unknown cost"),
    ],
)
def test_what_was_used_is_told_with_what_is_among_it(usage, text):
    assert usage_text(usage.counts, usage.cost_nano) == text


def test_nothing_metered_is_nothing_told():
    assert usage_text(None, None) == ""


def test_one_text_is_given_as_it_is():
    assert output_text({"only": "two\nlines"}) == "two\nlines"
    assert output_text("plain") == "plain"


def test_several_values_stand_by_name():
    assert output_text({"a": "x", "b": 2, "c": None, "d": True}) == "a: x\nb: 2\nc: null\nd: true"
    assert output_text({"a": "x\ny", "b": []}) == "a: \n  x\n  y\nb: []"


def test_what_is_nested_is_indented_json():
    assert output_text({"a": {"é": [1]}}) == 'a: {\n  "é": [\n    1\n  ]\n}'
    assert output_text([1]) == "[\n  1\n]"
    assert output_text({}) == ""


def test_one_of_anything_is_told_as_one():
    assert usage_lines({"own/m": Usage(requests=1, reused=1, input_tokens=1, output_tokens=1)}) == [
        "  1 request, 1 answer reused · 1 token in, 1 out"
    ]
