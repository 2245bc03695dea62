"""Finding the program in an answer."""

import pytest

from graphmill.sandbox.extract import extract_program

PROMPT = 'def f(x):\n    """Do it."""\n'
BODY = "    if x:\n        return 1\n    return 2"


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        ("print(1)", "print(1)"),
        ("Look:\n```python\nprint(1)\n```\ndone", "print(1)\n"),
        ("```\nprint(1)\n```\n```text\nno\n```\n", "no\n"),
        ("```py\nprint(1)\n```\nIts output:\n```\n1\n```", "print(1)\n"),
        ("```python\nprint(1)\n```\nBetter:\n~~~python\nprint(2)\n~~~", "print(2)\n"),
        ("```python\nprint(1)", "print(1)"),
        ("```python\r\nprint(1)\r\n```", "print(1)\n"),
        ("<think>```python\nprint(0)\n```</think>```python\nprint(1)\n```", "print(1)\n"),
        ("<think>print(0)</think>\nprint(1)", "print(1)"),
        ("````python\ns = '```'\n````", "s = '```'\n"),
        ("", ""),
    ],
)
def test_the_last_block_of_python_is_the_program(answer, program):
    assert extract_program(answer) == program


def test_the_block_that_defines_the_function_is_preferred():
    answer = "```python\ndef f(x):\n    return x\n```\nUse it:\n```python\nprint(f(1))\n```"
    assert extract_program(answer, "f") == "def f(x):\n    return x\n"


@pytest.mark.parametrize(
    "answer",
    [
        BODY,
        BODY.strip(),
        "if x:\n    return 1\nreturn 2",
        f"```python\n{BODY}\n```",
        "```python\nif x:\n    return 1\nreturn 2\n```",
        f"{PROMPT}{BODY}",
        f"```python\n{PROMPT}{BODY}\n```",
        "  if x:\n      return 1\n  return 2".strip(),
        "for _ in [0]:\n    return 1 if x else 2",
    ],
)
def test_a_completion_is_joined_to_its_prompt_however_it_is_indented(answer):
    names = {}
    exec(extract_program(answer, "f", PROMPT), names)
    assert [names["f"](True), names["f"](False)] == [1, 2]
