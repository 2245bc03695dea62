r"""Algebra: whether two expressions or equations are equal. The one module that knows math-verify and sympy.

math-verify reads LaTeX. Whether two expressions are equal is decided here, because its own test calls
``10^{-20}`` and ``2 \cdot 10^{-20}`` equal: identical after reading, or equal to 30 digits at several points.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import math_verify
import sympy
from latex2sympy2_extended import NormalizationConfig, latex2sympy, normalize_latex
from latex2sympy2_extended.latex2sympy2 import ConversionConfig

DIGITS = 40
_NORMALIZATION = NormalizationConfig(
    basic_latex=True, units=True, malformed_operators=True, nits=True, boxed="none", equations=False
)
_CASES_MATTER = ConversionConfig(lowercase_symbols=False)  # math_verify.parse reads K as k
_CLOSE = sympy.Float("1e-25", DIGITS)
# Values for the symbols of an expression, from which no pattern follows.
_POINTS = [
    sympy.Rational(a, b) for a, b in ((7, 11), (23, 13), (-17, 19), (31, 7), (-5, 23), (41, 29), (3, 37), (-43, 31))
]
_CHAINED_POWER = re.compile(r"(.*)\^\s*(\w+)\s*\^\s*(\w+|\{[^{}]*\})", re.DOTALL)
_POINTS_TRIED = 6
_POINTS_NEEDED = 3


def same_expression(gold: str, answer: str) -> bool:
    """Return whether two expressions in LaTeX have the same value everywhere."""
    left, right = _parse(gold), _parse(answer)
    if left is None or right is None:
        return False
    if left == right:
        return True
    if isinstance(left, sympy.Expr) and isinstance(right, sympy.Expr):
        return _are_identical(left, right)
    return bool(math_verify.verify(left, right, timeout_seconds=None, raise_on_error=True))


def same_equation(gold: tuple[str, str], answer: tuple[str, str]) -> bool:
    """Return whether two equations have the same solutions because one is a multiple of the other."""
    left, right = _difference(gold), _difference(answer)
    if left is None or right is None or left.free_symbols != right.free_symbols:
        return False
    if left == 0 or right == 0:
        return bool(left == right)
    ratio = sympy.cancel(left / right)
    return bool(ratio.is_nonzero) and not ratio.free_symbols


def _difference(sides: tuple[str, str]) -> Any:
    left, right = _parse(sides[0]), _parse(sides[1])
    if not isinstance(left, sympy.Expr) or not isinstance(right, sympy.Expr):
        return None
    return sympy.expand(left - right)


def _are_identical(left: Any, right: Any) -> bool:
    symbols = sorted(left.free_symbols | right.free_symbols, key=str)
    if [str(symbol) for symbol in symbols] == ["i"]:
        left, right, symbols = left.subs(symbols[0], sympy.I), right.subs(symbols[0], sympy.I), []
    if not symbols:
        return _is_close(left, right) is True
    agreed = 0
    for shift in range(_POINTS_TRIED):
        point = {symbol: _POINTS[(at * 3 + shift) % len(_POINTS)] + at for at, symbol in enumerate(symbols)}
        close = _is_close(left.subs(point), right.subs(point))
        if close is False:
            return False
        agreed += close is True
    return agreed >= _POINTS_NEEDED


def _is_close(left: Any, right: Any) -> bool | None:
    """Whether two constants agree to 25 digits; None if they have no value."""
    if left == right:
        return True
    first, second = left.evalf(DIGITS), right.evalf(DIGITS)
    if not first.is_number or not second.is_number or not first.is_finite or not second.is_finite:
        return None
    size = max(abs(first), abs(second))
    if size == 0:
        return True
    return bool(abs(first - second) <= _CLOSE * size)


@lru_cache(maxsize=1000)
def _parse(latex: str) -> Any:
    """Return the expression with exact numbers, or None if it cannot be read."""
    try:
        text = normalize_latex(_prepare(latex), _NORMALIZATION)
        expression = latex2sympy(text, is_real=True, normalization_config=None, conversion_config=_CASES_MATTER)
    except (MemoryError, RecursionError):
        raise
    except Exception:  # noqa: BLE001  input that is not mathematics raises anything
        return None
    if not isinstance(expression, sympy.Basic | sympy.MatrixBase):
        return None
    if not isinstance(expression, sympy.Expr):
        return expression
    if expression.has(sympy.zoo, sympy.nan):  # it has no value, so it equals nothing
        return None
    exact = {number: sympy.Rational(str(number)) for number in expression.atoms(sympy.Float)}
    return expression.xreplace(exact) if exact else expression


def _prepare(latex: str) -> str:
    """Write plain powers as LaTeX does: ``x^12`` is the twelfth power, ``2^3^2`` is two to the ninth."""
    latex = latex.replace("*", r"\cdot ")
    while (chained := _CHAINED_POWER.sub(r"\1^{\2^\3}", latex, count=1)) != latex:
        latex = chained
    return re.sub(r"\^\s*(-?\d{2,})", r"^{\1}", latex)
