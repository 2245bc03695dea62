"""Decide whether two answers are equal, part by part; expressions are left to ``symbolic``.

The policy, version 1: exact values only, no rounding. A unit that one side leaves out is forgiven, another unit is not,
and units are never converted: ``28%`` equals ``28``, not ``0.28``. The base belongs to the answer. Lists and sets have
no order, tuples do; brackets of tuples and intervals must agree. Equations are equal if they are multiples of one
another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from graphmill.scoring.math.expression import (
    Answer,
    Equation,
    Grid,
    Group,
    Quantity,
    Union,
    Words,
    clean,
    read_answer,
)

POLICY_VERSION = 1

# Whether two expressions, or two equations given as their sides, are equal.
SameExpression = Callable[[str, str], bool]
SameEquation = Callable[[tuple[str, str], tuple[str, str]], bool]

_COMMAND = re.compile(r"\\[A-Za-z]+")
_IN_TEXT = re.compile(r"\\text\s*\{([^{}]*)\}")
_PLAIN_TEXT = re.compile(r"[A-Za-z0-9 .,'()]+")
_NAME = re.compile(r"(?:m?\\angle\s*)?\\?[A-Za-z]+(?:_\{?\w\}?)?(?:\s*\(\s*[A-Za-z]\s*\))?")


class Comparison:
    """Compares answers; ``same_expression`` and ``same_equation`` judge what needs algebra."""

    def __init__(self, same_expression: SameExpression, same_equation: SameEquation) -> None:
        self._same_expression = same_expression
        self._same_equation = same_equation

    def are_equal(self, gold: str, answer: str) -> bool:
        """Return whether an answer equals the reference answer."""
        if _squeeze(clean(gold)) == _squeeze(clean(answer)):
            return True
        wanted = read_answer(gold)
        has_unit = isinstance(wanted, Quantity) and wanted.unit != ""
        return self._equal(wanted, read_answer(answer, with_letter_units=has_unit))

    def _equal(self, gold: Answer, answer: Answer) -> bool:
        gold, answer = _unwrap_names(gold, answer)
        if isinstance(gold, Words) or isinstance(answer, Words):
            return _as_words(gold) == _as_words(answer) != "" or self._same_product(gold, answer)
        if isinstance(gold, Quantity) and isinstance(answer, Quantity):
            return self._same_quantity(gold, answer)
        if isinstance(gold, Group) and isinstance(answer, Group):
            return self._same_group(gold, answer)
        if isinstance(gold, Union) and isinstance(answer, Union):
            return self._same_members(gold.parts, answer.parts)
        if isinstance(gold, Grid) and isinstance(answer, Grid):
            return len(gold.rows) == len(answer.rows) and all(map(self._same_sequence, gold.rows, answer.rows))
        if isinstance(gold, Equation) and isinstance(answer, Equation):
            return self._same_relation(gold, answer)
        if isinstance(gold, Group) and gold.brackets == "{}" and len(gold.parts) == 1:
            return self._equal(gold.parts[0], answer)
        return False

    def _same_product(self, gold: Answer, answer: Answer) -> bool:
        """Compare ``ab``, which looks like a word, with an expression such as ``2ab/2``."""
        if isinstance(gold, Words) and isinstance(answer, Quantity):
            gold, answer = answer, gold
        if not isinstance(gold, Quantity) or not isinstance(answer, Words) or not answer.product:
            return False
        return isinstance(gold.value, str) and not gold.unit and self._same_expression(gold.value, answer.product)

    def _same_quantity(self, gold: Quantity, answer: Quantity) -> bool:
        if gold.base is not None or answer.base is not None:
            return _same_digits(gold, answer)
        if gold.unit and answer.unit and gold.unit != answer.unit:
            return False
        if isinstance(gold.value, str) or isinstance(answer.value, str):
            left, right = _as_latex(gold), _as_latex(answer)
            return _squeeze(left) == _squeeze(right) or self._same_expression(left, right)
        return gold.value == answer.value

    def _same_group(self, gold: Group, answer: Group) -> bool:
        if gold.brackets == answer.brackets:
            if gold.brackets in ("", "{}"):
                return self._same_members(gold.parts, answer.parts)
            return self._same_sequence(gold.parts, answer.parts)
        if gold.brackets == "" and answer.brackets in ("()", "{}"):
            return self._same_members(gold.parts, answer.parts)
        if answer.brackets == "":
            if gold.brackets == "{}":
                return self._same_members(gold.parts, answer.parts)
            return gold.brackets == "()" and self._same_sequence(gold.parts, answer.parts)
        return False

    def _same_sequence(self, gold: Sequence[Answer], answer: Sequence[Answer]) -> bool:
        return len(gold) == len(answer) and all(map(self._equal, gold, answer))

    def _same_members(self, gold: Sequence[Answer], answer: Sequence[Answer]) -> bool:
        if len(gold) != len(answer):
            return False
        left = list(answer)
        for member in gold:
            found = next((at for at, other in enumerate(left) if self._equal(member, other)), None)
            if found is None:
                return False
            del left[found]
        return True

    def _same_relation(self, gold: Equation, answer: Equation) -> bool:
        if gold.relation != answer.relation:
            return False
        if gold.relation == "=":
            if _squeeze(gold.left) == _squeeze(answer.left) and _NAME.fullmatch(gold.left):
                return self._equal(read_answer(gold.right), read_answer(answer.right))
            return self._same_equation((gold.left, gold.right), (answer.left, answer.right))
        return self._same_expression(gold.left, answer.left) and self._same_expression(gold.right, answer.right)


def _unwrap_names(gold: Answer, answer: Answer) -> tuple[Answer, Answer]:
    """Leave out ``x =``, or a calculation, where only one side has it."""
    if isinstance(gold, Equation) and not isinstance(answer, Equation):
        return _unwrap_name(gold), answer
    if isinstance(answer, Equation) and not isinstance(gold, Equation):
        return gold, _unwrap_name(answer)
    return gold, answer


def _unwrap_name(side: Equation) -> Answer:
    has_letters = re.search("[A-Za-z]", _COMMAND.sub("", side.left))
    if side.relation == "=" and (_NAME.fullmatch(side.left.strip()) or not has_letters):  # x = 49, or 7^2 = 49
        return read_answer(side.right)
    return side


def _same_digits(gold: Quantity, answer: Quantity) -> bool:
    if gold.base is None:
        return False
    if answer.base is not None:
        return gold.base == answer.base and gold.digits == answer.digits
    return not answer.unit and gold.digits == str(answer.value).lower()


def _as_latex(quantity: Quantity) -> str:
    return str(quantity.value)


def _as_words(answer: Answer) -> str:
    if isinstance(answer, Words):
        return answer.text
    if not isinstance(answer, Quantity) or not isinstance(answer.value, str) or answer.unit:
        return ""
    text = _IN_TEXT.sub(r"\1", answer.value)
    if _PLAIN_TEXT.fullmatch(text):
        return " ".join(re.sub(r"[^a-z0-9 ]", "", text.lower()).split())
    return ""


def _squeeze(text: str) -> str:
    return re.sub(r"\s+", "", text)
