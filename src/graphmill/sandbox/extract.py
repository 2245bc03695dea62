"""The program in a model's answer: without the text around it, and joined to the prompt that it completes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

_FENCE = re.compile(
    r"^[ \t]*(?:```+|~~~+)[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:^[ \t]*(?:```+|~~~+)[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
_PYTHON = ("python", "py", "python3")


def extract_program(answer: str, entry_point: str | None = None, prompt: str = "") -> str:
    """Return the program in an answer: the last fitting code block, or all of it; joined to the prompt it completes."""
    text = answer.replace("\r\n", "\n").rpartition("</think>")[2]
    blocks = [
        (language.lower(), textwrap.dedent(code) if entry_point else code) for language, code in _FENCE.findall(text)
    ]
    defines = None
    if entry_point is not None:
        name = re.escape(entry_point)
        defines = re.compile(rf"^(?:(?:async\s+def|def|class)\s+{name}\b|{name}\s*=)", re.MULTILINE)
    code = _choose(blocks, defines) if blocks else text.strip("\n")
    if not prompt or not code.strip():
        return code
    if defines is not None and defines.search(code):
        return f"{prompt}\n\n{code}"  # what the prompt imports and defines before it
    return prompt.rstrip("\n") + "\n" + _as_body(code, prompt)


def _choose(blocks: Sequence[tuple[str, str]], defines: re.Pattern[str] | None) -> str:
    if defines is not None:
        fitting = [code for _, code in blocks if defines.search(code)]
        if fitting:
            return fitting[-1]
    python = [code for language, code in blocks if language in _PYTHON]
    return python[-1] if python else blocks[-1][1]


def _as_body(code: str, prompt: str) -> str:
    """Indent the rest of a function like its prompt; models leave out the first line's indentation, or all of it."""
    wanted = _indentation(prompt.rstrip().rpartition("\n")[2])
    lines = [line for line in code.split("\n") if line.strip()]
    first, *others = map(_indentation, lines)
    if first == wanted:
        return code
    least = min(others, default=0)
    opens_block = lines[0].rstrip().endswith(":") and others and others[0] == least
    if not first and least and not opens_block:
        code = " " * least + code.lstrip("\n")
    return textwrap.indent(textwrap.dedent(code), " " * wanted)


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
