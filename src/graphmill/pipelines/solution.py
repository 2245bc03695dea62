r"""Reads a solver's answer in text: the final solution, the reasoning before it and the stated confidence."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
from msgspec import Meta

from graphmill.core.boxes import last_box
from graphmill.graph.node_type import Context, NodeType

_FENCE_LINE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<rest>[^\r\n]*)\r?$", re.MULTILINE)
_CONFIDENCE = re.compile(
    r"[\s*_#>-]{0,9}confidence(?: level| score)?[\s*_]{0,9}[:=][\s*_]{0,9}"
    r"(?P<number>\d{1,3}(?:\.\d+)?|\.\d+)\s{0,9}(?P<percent>%?)[\s*_.]{0,9}",
    re.IGNORECASE,
)


class Solution(NamedTuple):
    """What was read from an answer; None if not stated. ``answer`` is the text without the confidence."""

    answer: str
    solution: str | None
    reasoning: str | None
    confidence: float | None


def read_solution(text: str, domain: str = "general") -> Solution:
    r"""Read an answer: in math the last balanced ``\boxed{}``, in code the last fenced block, else the whole text.

    A last line ``Confidence: 0.8`` (or ``80%``) is the confidence and belongs to nothing else.
    """
    body, confidence = _split_confidence(text)
    found: tuple[int, str] | None
    if domain == "math":
        found = last_box(body)
    elif domain == "code":
        found = _last_fence(body)
    else:
        return Solution(body, body.strip() or None, None, confidence)
    if found is None:
        return Solution(body, None, body.strip() or None, confidence)
    start, solution = found
    return Solution(body, solution or None, body[:start].strip() or None, confidence)


def _split_confidence(text: str) -> tuple[str, float | None]:
    """Return the text without a last line that states the confidence, and the confidence."""
    body = text.rstrip()
    start = max(body.rfind("\n"), body.rfind("\r")) + 1
    stated = _CONFIDENCE.fullmatch(body, start)
    if stated is None:
        return text, None
    number = float(stated["number"])
    if stated["percent"]:
        number /= 100
    return body[:start].rstrip(), number if number <= 1 else None


def _last_fence(text: str) -> tuple[int, str] | None:
    """Return where the last fenced block begins, and its content; one that is never closed reaches to the end."""
    last: tuple[int, str] | None = None
    opening: re.Match[str] | None = None
    for line in _FENCE_LINE.finditer(text):
        if opening is None:
            if line["mark"][0] == "~" or "`" not in line["rest"]:
                opening = line
        elif line["mark"].startswith(opening["mark"]) and not line["rest"].strip():
            last = opening.start(), _lines_between(text, opening.end(), line.start())
            opening = None
    if opening is not None:
        last = opening.start(), _lines_between(text, opening.end(), len(text))
    return last


def _lines_between(text: str, start: int, end: int) -> str:
    return text[start:end].strip("\r\n")


class SolutionParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What to read, and how."""

    text: Annotated[str, Meta(description="The answer of a model.")]
    domain: Annotated[
        str,
        Meta(
            description="`math`: the solution is in the last `\\boxed{}`; `code`: in the last code block; any other: "
            "it is the whole text."
        ),
    ] = "general"


class ReadSolutionNode(NodeType[SolutionParams]):
    """Reads an answer; it is not recorded, because repeating it costs nothing."""

    name = "read-solution"
    summary = "Reads the final solution, the reasoning before it and the stated confidence from an answer in text."
    Params = SolutionParams
    is_recorded = False
    outputs: ClassVar[Mapping[str, str]] = {
        "answer": "the text without the line of the confidence",
        "solution": "the final answer; null if there is none",
        "reasoning": "the text before it; null if there is none",
        "confidence": "0 to 1, from a last line `Confidence: 0.8`; null without one",
    }
    example = """\
- id: read
  type: read-solution
  params: {text: "${solve.response}", domain: math}
"""

    def actions(self, params: Mapping[str, Any]) -> Collection[str]:
        """Return the only action."""
        del params
        return ("default",)

    def fingerprint(self, params: Mapping[str, Any]) -> str:
        """Return nothing: no recorded step depends on how it reads."""
        del params
        return ""

    async def run(self, params: SolutionParams, context: Context) -> Mapping[str, Any]:
        """Read the answer."""
        del context
        return read_solution(params.text, params.domain)._asdict()
