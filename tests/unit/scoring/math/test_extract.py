"""What the final answer of a text is."""

import pytest

from graphmill.scoring.math.extract import extract_answer, extract_gold


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"So \boxed{1}, no: \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{\text{a } \{1\}}", r"\text{a } \{1\}"),
        (r"It is \boxed 7.", "7"),
        (r"\fbox{3}", "3"),
        ("6 * 7 = 42\n#### 42", "42"),
        ("#### 1,234\n", "1,234"),
        (r"Therefore, the final answer is $\$32,\!348$. I hope it is correct.", r"\$32,\!348"),
        ("The answer is 3.5. It took 2 steps.", "3.5"),
        ("**Answer:** 12", "12"),
        ("Answer: $x = 5$", "x = 5"),
        ("First the answer is 4. Then I saw that the answer is 5", "5"),
        ("There are 3 boxes with 12 apples each, so 36 apples.", "36"),
        ("The price went from 5 to $1,204.50 in the end, they say", "$1,204.50"),
        ("We add them all up and get $x^2 + 1$.", "x^2 + 1"),
        (r"\frac{3}{4}", r"\frac{3}{4}"),
        ("It costs $5.", "$5"),
        ("the probability is 1/6", "1/6"),
        ("The answer is 3/4 of the total.", "3/4"),
        ("Evelyn", "Evelyn"),
        ("June 20", "June 20"),
        ("-7", "-7"),
        ("0", "0"),
        ("", None),
        ("I cannot solve this problem at all.", None),
        (r"It is \boxed{12", None),
        (r"\boxed{}", None),
    ],
)
def test_the_last_final_answer_is_found(text, answer):
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        ("18", "18"),
        (r"\frac{1}{2}", r"\frac{1}{2}"),
        ("16 - 7 = <<16-7=9>>9 eggs.\n#### 9", "9"),
        (r"Since $x = 3$, it is $\boxed{9}$.", "9"),
        ("one two three four words", "one two three four words"),
    ],
)
def test_a_reference_answer_may_be_a_whole_solution(text, gold):
    assert extract_gold(text) == gold


def test_a_long_text_is_searched_in_linear_time():
    assert extract_answer("answer is " * 100_000 + r"\boxed{3}") == "3"
    assert extract_answer(r"\[" * 500_000) is None
    assert extract_answer("{" * 1_000_000 + r"\boxed{" + "{" * 1_000_000) is None
