import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graphmill.pipelines.solution import read_solution

# Content of a box: text without braces and backslashes, in balanced braces to any depth.
PLAIN = st.text(st.characters(blacklist_characters="{}\\"), max_size=5)
CONTENT = st.recursive(
    PLAIN, lambda inner: st.builds("{{{}}}{}".format, inner, PLAIN) | st.just(r"\{\}\\"), max_leaves=5
)
LINES = st.lists(
    st.text(st.characters(blacklist_characters="`~\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=8), max_size=4
)


@given(before=st.text(max_size=30), inside=CONTENT)
@example(before=r"\boxed{1} then \boxed{2", inside=r"\frac{1}{2}")
@example(before=r"\boxed{1} } {", inside="x")
def test_the_last_box_is_the_solution_whatever_stands_before_it(before, inside):
    found = read_solution(f"{before}. \\boxed{{{inside}}}.", "math")
    assert found.solution == (inside.strip() or None)


@given(parts=st.lists(st.sampled_from([r"\boxed{", r"\fbox {", "{", "}", r"\{", r"\}", "x"]), max_size=20))
def test_a_solution_in_math_has_balanced_braces(parts):
    found = read_solution("".join(parts), "math").solution
    if found is not None:
        bare = re.sub(r"\\[{}]", "", found)
        assert bare.count("{") == bare.count("}")
        assert f"{{{found}}}" in "".join(parts)


@pytest.mark.parametrize(
    ("text", "solution", "reasoning"),
    [
        (r"Half: $\boxed{\frac{1}{2}}$.", r"\frac{1}{2}", "Half: $"),
        (r"\boxed{1} or rather \boxed{2}", "2", r"\boxed{1} or rather"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}", None),
        (r"\fbox {3}", "3", None),
        (r"\boxed{3} and \boxed{4", "3", None),
        (r"\boxed{\boxed{5}}", "5", r"\boxed{"),
        (r"\boxed{}", None, None),
        (r"The answer is 7.", None, "The answer is 7."),
        ("", None, None),
    ],
)
def test_in_math_only_a_box_is_a_solution(text, solution, reasoning):
    assert read_solution(text, "math")[1:3] == (solution, reasoning)


def test_a_text_full_of_open_boxes_is_read_in_a_moment():
    assert read_solution(r"\boxed{" * 200_000, "math").solution is None


@given(before=LINES, code=LINES, language=st.sampled_from(["", "python", " py "]), after=LINES)
def test_the_last_fenced_block_is_the_solution_in_code(before, code, language, after):
    text = "\n".join([*before, "```", "old", "```", f"```{language}", *code, "```", *after])
    found = read_solution(f"{text}\nThat is all", "code")
    assert found.solution == ("\n".join(code).strip("\r\n") or None)


@pytest.mark.parametrize(
    ("text", "solution"),
    [
        ("````md\n```py\nx\n```\n````", "```py\nx\n```"),
        ("~~~\nx = '```'\n~~~", "x = '```'"),
        ("```py\nx = 1", "x = 1"),
        ("  ```py\n  x\n  ```", "  x"),
        ("``` a `b` ```", None),
        ("```py\r\nx = 1\r\n```\r\n", "x = 1"),
        ("x = 1", None),
    ],
)
def test_in_code_only_a_fenced_block_is_a_solution(text, solution):
    assert read_solution(text, "code").solution == solution


@given(text=st.text(max_size=60), domain=st.sampled_from(["math", "code", "general", "else"]))
def test_any_text_can_be_read(text, domain):
    found = read_solution(text, domain)
    assert found.confidence is None or 0 <= found.confidence <= 1
    assert found.solution is None or found.solution in text


@given(number=st.integers(0, 100), text=st.text(max_size=30))
def test_a_stated_confidence_is_read_and_left_out_of_the_solution(number, text):
    assert read_solution(f"{text}\nConfidence: {number / 100}", "general").confidence == number / 100
    found = read_solution(f"{text}x\n**Confidence:** {number}%\n")
    assert (found.solution, found.confidence) == (f"{text}x".strip(), number / 100)
    assert found.answer == f"{text}x"


@pytest.mark.parametrize(
    ("line", "confidence"),
    [
        ("confidence = .5", 0.5),
        ("- Confidence: 0.9.", 0.9),
        ("Confidence level: **0.9**", 0.9),
        ("Confidence: 1", 1),
        ("Confidence: 85", None),
        ("Confidence: high", None),
        ("My confidence: 0.9", None),
    ],
)
def test_a_confidence_is_a_number_from_0_to_1_or_a_percentage(line, confidence):
    assert read_solution(f"Seven.\n{line}").confidence == confidence
