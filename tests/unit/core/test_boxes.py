"""The last box of a solution."""

import pytest

from graphmill.core.boxes import last_box


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so $\boxed{5}$", "5"),
        (r"first \boxed{1}, then \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{ \text{a \} b} }", r"\text{a \} b}"),
        (r"\boxed{\left\{1, 2\right\}}", r"\left\{1, 2\right\}"),
        (r"$\boxed 7$ apples", "7"),
        (r"\fbox{3}", "3"),
        (r"\boxed{open", None),
        (r"\boxed{3} and \boxed{4", "3"),
        (r"\boxedness 3", None),
        ("no answer", None),
        ("", None),
    ],
)
def test_the_answer_is_in_the_last_box(text, answer):
    found = last_box(text)
    assert (found and found.content) == answer
