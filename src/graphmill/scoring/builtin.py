"""The scorers that need no model: ``exact``, ``numeric``, ``regex`` and ``choice``."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from decimal import Decimal, DecimalException, localcontext
from typing import Any

import msgspec

from graphmill.core.errors import Permanent, UsageError
from graphmill.core.json import text_or_json
from graphmill.scoring.score import NO_ANSWER, Score

MOST_CHOICES = 26


def no_answer(why: str) -> Score:
    """Return the score of an output without an answer: wrong."""
    return Score(value=0.0, explanation=why, metadata={"outcome": NO_ANSWER})


def require_target(target: Any, scorer: str) -> None:
    """Refuse to score an item without a target."""
    if target is None or target == "":
        raise Permanent(
            f"scorer {scorer}: the item has no target; name its field with graphmill score --target FIELD (target=…), "
            "or in the source with --map ground_truth=COLUMN"
        )


class Exact(msgspec.Struct, frozen=True, kw_only=True):
    """The answer equals the target as text, without outer white space, and case if ``ignore_case``."""

    version = "1"
    ignore_case: bool = False

    def __call__(self, answer: Any, target: Any) -> Score:
        """Compare them."""
        require_target(target, "exact")
        if answer is None or answer == "":
            return no_answer("the output has no answer")
        found, wanted = self._plain(answer), self._plain(target)
        return Score(value=float(found == wanted), answer=answer)

    def _plain(self, value: Any) -> str:
        text = unicodedata.normalize("NFC", text_or_json(value)).strip()
        return text.casefold() if self.ignore_case else text


_NUMBER = r"[-+−]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)?(?:\.\d+|(?<=\d)\.?)(?:[eE][-+]?\d{1,6})?"
_NUMBERS = re.compile(rf"(?<![\w.])({_NUMBER})(?:\s*/\s*(\d+(?:\.\d+)?))?")
_MARKED = re.compile(r"####|\banswer(?:\s+is|\s*[:=])", re.IGNORECASE)


class Numeric(msgspec.Struct, frozen=True, kw_only=True):
    """The last number of the answer equals the target's; after ``####`` or "the answer is" the first one there.

    Without a ``tolerance`` (relative to the target) whole numbers must be equal and others agree in nine digits.
    Thousands may be separated by commas, and ``1/2`` is a number.
    """

    version = "1"
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if self.tolerance is not None and not self.tolerance >= 0:
            raise UsageError(f"scorer numeric: tolerance must be a number >= 0, got {self.tolerance}")

    def __call__(self, answer: Any, target: Any) -> Score:
        """Compare the numbers."""
        require_target(target, "numeric")
        wanted = number_in(target)
        if wanted is None:
            raise Permanent(f"scorer numeric: the target has no number: {text_or_json(target)[:80]!r}")
        found = number_in(answer)
        if found is None:
            return no_answer("no number in the answer")
        return Score(value=float(self._is_equal(found, wanted)), answer=_shown(found))

    def _is_equal(self, found: Decimal, wanted: Decimal) -> bool:
        if found == wanted:
            return True
        tolerance = self.tolerance
        if tolerance is None:
            if found == found.to_integral_value() and wanted == wanted.to_integral_value():
                return False
            tolerance = 1e-9
        return abs(found - wanted) <= Decimal(tolerance) * (abs(wanted) or 1)


def number_in(value: Any) -> Decimal | None:
    """Return the number that a value or a text means; None if it has none."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        number = Decimal(repr(value))
        return number if number.is_finite() else None
    text = text_or_json(value)
    marks = list(_MARKED.finditer(text))
    if marks and (first := next(_numbers(text[marks[-1].end() :]), None)) is not None:
        return first
    last = None
    for number in _numbers(text):
        last = number
    return last


def _numbers(text: str) -> Iterator[Decimal]:
    for match in _NUMBERS.finditer(text):
        whole, divisor = match.groups()
        try:
            with localcontext():
                number = Decimal(whole.replace(",", "").replace("−", "-"))
                yield number / Decimal(divisor) if divisor else number
        except DecimalException:  # 1/0, an exponent out of bounds
            continue


def _shown(number: Decimal) -> Any:
    return int(number) if number == number.to_integral_value() and abs(number) < 10**15 else float(number)


class Regex(msgspec.Struct, frozen=True, kw_only=True):
    """The last match of ``pattern``, or its first group, equals the target; without one any match is right."""

    version = "1"
    pattern: str
    ignore_case: bool = False

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise UsageError(f"scorer regex: pattern {self.pattern!r:.80} is not valid: {error}") from None

    def __call__(self, answer: Any, target: Any) -> Score:
        """Look for the pattern."""
        flags = re.IGNORECASE if self.ignore_case else re.NOFLAG
        found = None
        for found in re.finditer(self.pattern, text_or_json(answer or ""), flags):  # noqa: B007  the last one
            pass
        if found is None:
            return no_answer("the pattern matches nothing")
        text = found[1] if found.re.groups else found[0]
        if target is None:
            return Score(value=1.0, answer=text)
        return Exact(ignore_case=self.ignore_case)(text, target)


_BOXED = re.compile(r"\\boxed\{\s*(?:\\text\{)?\s*\(?([A-Z])\)?\s*\}")
_ANSWERED = re.compile(r"\b(?:answer|choice|option)(?:\s+is|\s*:)?\s*\**\s*\(?([A-Z])\b", re.IGNORECASE)
_BRACKETED = re.compile(r"\(([A-Z])\)")
_ALONE = re.compile(r"^\W*([A-Za-z])(?:[.):]\s.*|\W*)$", re.MULTILINE)


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The chosen letter equals the target: a letter, an index from 0, or the text of one of ``choices``."""

    version = "1"

    def __call__(self, answer: Any, target: Any, problem: Any) -> Score:
        """Read the letters."""
        require_target(target, "choice")
        choices = _choices(problem)
        wanted = _target_letter(target, choices)
        found = _letter(answer, choices)
        if found is None:
            return no_answer("no choice in the answer")
        return Score(value=float(found == wanted), answer=found)


def _choices(problem: Any) -> list[str]:
    if not isinstance(problem, Mapping):
        return []
    metadata = problem.get("metadata")
    for place in (problem, metadata if isinstance(metadata, Mapping) else {}):
        found = place.get("choices")
        if isinstance(found, list):
            return [text_or_json(each).strip() for each in found[:MOST_CHOICES]]
    return []


def _target_letter(target: Any, choices: list[str]) -> str:
    if isinstance(target, int) and not isinstance(target, bool) and 0 <= target < MOST_CHOICES:
        return chr(ord("A") + target)
    text = text_or_json(target).strip()
    if text in choices:
        return chr(ord("A") + choices.index(text))
    letter = text.strip("().").upper()
    if len(letter) == 1 and "A" <= letter <= "Z":
        return letter
    raise Permanent(f"scorer choice: the target must be a letter, an index or one of the choices, got {text[:80]!r}")


def _letter(answer: Any, choices: list[str]) -> str | None:
    """Find the letter that was chosen; what comes last counts, and a clear mark before a mere letter."""
    if answer is None:
        return None
    text = text_or_json(answer).strip()
    if text in choices:
        return chr(ord("A") + choices.index(text))
    for pattern in (_BOXED, _ANSWERED, _BRACKETED, _ALONE):
        if found := pattern.findall(text):
            return str(found[-1]).upper()
    return None
