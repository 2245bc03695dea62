"""Read an answer, LaTeX or plain text: quantities, texts, lists, sets, intervals, matrices, relations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

MOST_CHARACTERS = 2_000
_MOST_DEPTH = 40
_MOST_EXPONENT = 4_000


class TooComplexError(Exception):
    """An answer is longer or deeper than the grader reads."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value with its unit: an exact number, or an expression in LaTeX. ``base`` is that of ``2516_8``."""

    value: Fraction | Decimal | str
    unit: str = ""
    base: int | None = None
    digits: str = ""


@dataclass(frozen=True, slots=True)
class Words:
    """An answer in words, in lower case; ``product`` is the original if it may be a product such as ``ab``."""

    text: str
    product: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Several values. ``brackets`` is ``""`` for a list, ``"{}"`` for a set, else those of a tuple or interval."""

    brackets: str
    parts: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Union:
    """A union of sets."""

    parts: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A matrix, row by row."""

    rows: tuple[tuple[Answer, ...], ...]


@dataclass(frozen=True, slots=True)
class Equation:
    """Two sides, in LaTeX, and the relation between them."""

    relation: str
    left: str
    right: str


Answer = Quantity | Words | Group | Union | Grid | Equation

_SYMBOLS = {
    "−": "-", "–": "-", "×": r"\times ", "·": r"\cdot ", "÷": "/", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ",
    "∞": r"\infty ", "π": r"\pi ", "°": r"^\circ", "±": r"\pm ", "∓": r"\mp ", "∪": r"\cup ", "∈": r"\in ", "²": "^2",
    "³": "^3", "√": r"\sqrt ", "½": r"\frac{1}{2}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}", "\u00a0": " ",
    "\u202f": " ", "\u2009": " ", "θ": r"\theta ",
}  # fmt: skip
_REPLACED = [
    (re.compile(r"(\d),\\!\s*(?=\d{3})"), r"\1,"),  # 11,\! 111
    (re.compile(r"(\d)(?:\{,\}|\\,|\\ )(?=\d{3}(?!\d))"), r"\1,"),
    (re.compile(r"\\(?:left|right|[bB]igg?[lr]?)(?![A-Za-z])\s*\.?"), ""),
    (re.compile(r"\\displaystyle|\\textstyle|\\limits|(?<!\\)\\[!;:, ]|~|\\q?quad|&(?=\s*=)"), " "),
    (re.compile(r"\\[dtc]frac"), r"\\frac"),
    (re.compile(r"\\(?:mathrm|mathbf|textbf|textit|textrm|mbox|operatorname|mathsf|rm|bf)(?=\s*\{)"), r"\\text"),
    (re.compile(r"\\leq(?![A-Za-z])|<="), r"\\le "),
    (re.compile(r"\\geq(?![A-Za-z])|>="), r"\\ge "),
    (re.compile(r"\\lt(?![A-Za-z])"), "<"),
    (re.compile(r"\\gt(?![A-Za-z])"), ">"),
    (re.compile(r"\\neq(?![A-Za-z])|!="), r"\\ne "),
    (re.compile(r"\\infin(?:ity)?(?![A-Za-z])|(?<![\\A-Za-z])(?:infinity|inf)(?![A-Za-z])"), r"\\infty "),
    (re.compile(r"\\(?:degree|textdegree)(?![A-Za-z])|\^\s*\{?\s*\\circ\s*\}?"), r"^\\circ "),
    (re.compile(r"\\lbrace(?![A-Za-z])"), r"\\{"),
    (re.compile(r"\\rbrace(?![A-Za-z])"), r"\\}"),
    (re.compile(r"\\(?:langle)(?![A-Za-z])"), "("),
    (re.compile(r"\\(?:rangle)(?![A-Za-z])"), ")"),
    (re.compile(r"\\frac\s*(\d)\s*(\d)"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\frac\s*(\d)\s*\{"), r"\\frac{\1}{"),
    (re.compile(r"(\\frac\s*\{[^{}]*\})\s*(\w)"), r"\1{\2}"),
    (re.compile(r"\\sqrt\s*(\d+)"), r"\\sqrt{\1}"),
    (re.compile(r"\\sqrt\s*([A-Za-z])"), r"\\sqrt{\1}"),
    (re.compile(r"(?<![\\A-Za-z])sqrt\s*\(([^()]*)\)"), r"\\sqrt{\1}"),
    (re.compile(r"(?<![\\A-Za-z])sqrt\s*(\d+)"), r"\\sqrt{\1}"),
    (re.compile(r"(?<![\\A-Za-z])pi(?![A-Za-z])"), r"\\pi "),
    (re.compile(r"\*\*"), "^"),
    (re.compile(r"\\(?:emptyset|varnothing)(?![A-Za-z])|∅"), r"\\{\\}"),
]
_WRAPPED = re.compile(r"\$\$(.*)\$\$|\$([^$]*)\$|\\\((.*)\\\)|\\\[(.*)\\\]", re.DOTALL)
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{(.*)\}", re.DOTALL)
_CONNECTED = re.compile(
    r"\\text\s*\{\s*,?\s*(?:and|or)\s*\}|(?<=[\s\d)}\]$]),?\s*(?<![A-Za-z\\])(?:and|or)(?![A-Za-z])\s*"
)
_THOUSANDS = re.compile(r"[-+]?\s*(?:\\?\$)?\s*\d{1,3}(?:,\s?\d{3})+(?:\.\d+)?(?![\d,])")
_GRID = re.compile(r"\\begin\{([pb]?matrix|array)\}(?:\{[lcr|]*\})?(.*)\\end\{\1\}", re.DOTALL)
_MEMBER = re.compile(r"[A-Za-z]\s*\\in(?![A-Za-z])\s*(.+)", re.DOTALL)
_RELATION = re.compile(r"\\le(?![A-Za-z])|\\ge(?![A-Za-z])|\\ne(?![A-Za-z])|[<>=]")
_TEXT_ONLY = re.compile(r"\(?\s*\\text\s*\{([^{}]*)\}\s*\)?")
_PLAIN_WORD = r"[A-Za-z]{2,}(?:['-][A-Za-z]+)*"
_PLAIN_WORDS = re.compile(rf"{_PLAIN_WORD}(?:\s+(?:{_PLAIN_WORD}|[AaI]))*|\([A-Za-z]\)")
_NAMED = re.compile(r"\s*([A-Za-z](?:_\{?\w\}?)?)\s*=\s*([^=]+)")
_REALS = re.compile(r"\\mathbb\s*\{?\s*R\s*\}?|\\R")
_PRODUCT = re.compile(r"[A-Za-z]{2,4}")
_COUNTED_WORDS = re.compile(r"\s*[-+]?\d[\d.,]*\s+[A-Za-z].*")
_REPEATING = re.compile(r"([-+]?)\s*(\d*)\.(\d*)\\overline\s*\{\s*(\d+)\s*\}")
_UNIT_NAMES = """
inch: in inches | foot: ft feet | yard: yd | mile: mi | millimeter: mm millimetre | centimeter: cm centimetre
meter: m metre | kilometer: km kilometre | second: s sec | minute: min | hour: h hr | gram: g | kilogram: kg
milligram: mg | liter: l litre | milliliter: ml | pound: lb lbs | ounce: oz | dollar: $ usd | cent: ¢ | %: percent
degree: deg | radian: rad | mile per hour: mph | person: people | child: children | penny: pennies
"""
_COUNTED = """
day week month year unit gallon point student time apple way dime nickel quarter car page book piece step
square cubic sq
"""
_UNITS = {
    other: name.strip()
    for name, _, others in (each.partition(":") for each in re.split(r"[|\n]", _UNIT_NAMES.strip()))
    for other in others.split()
}
_KNOWN_UNITS = frozenset(_UNITS) | frozenset(_UNITS.values()) | frozenset(_COUNTED.split())
_WORD_TAIL = re.compile(
    r"(.*?[\d)}.])\s*((?:[A-Za-z]+\.?|/|\^\s*\{?\d\}?)(?:\s*(?:[A-Za-z]+|/|\^\s*\{?\d\}?))*)", re.DOTALL
)
_TEXT_TAIL = re.compile(r"(.*?)\s*\\text\s*\{([^{}]*)\}\s*((?:\^\s*\{?\d\}?)?)\s*", re.DOTALL)
_BASE = re.compile(r"([0-9A-Za-z]+)\s*_\s*(?:\{\s*(?:\\text\s*\{)?\s*(\w+)\s*\}?\s*\}|(\d)|\\text\s*\{\s*(\w+)\s*\})")
_BASE_NAMES = {
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "twelve": 12,
    "sixteen": 16,
}
_DECIMAL = r"(?:\d+\.?\d*|\.\d+)"
_PLAIN = re.compile(rf"([-+]?)\s*({_DECIMAL})")
_SCIENTIFIC = re.compile(
    rf"([-+]?\s*{_DECIMAL})\s*(?:[eE]\s*([-+]?\d+)|(?:\\times|\\cdot|\*|x)\s*10\s*\^\s*"
    rf"(?:\{{\s*([-+]?\d+)\s*\}}|\(\s*([-+]?\d+)\s*\)|([-+]?\d+)))"
)
_POWER_OF_TEN = re.compile(r"([-+]?)\s*10\s*\^\s*(?:\{\s*([-+]?\d+)\s*\}|([-+]?\d))")
_FRACTION = re.compile(
    r"([-+]?)\s*(?:(\d+)\s*)?\\frac\s*\{\s*([-+]?\s*\d+)\s*\}\s*\{\s*([-+]?\s*\d+)\s*\}"
    r"|([-+]?)\s*(?:(\d+)\s+)?(\d+)\s*/\s*(\d+)"
)


def read_answer(text: str, *, with_letter_units: bool = False) -> Answer:
    """Read an answer. ``with_letter_units`` reads ``5 m`` as meters, not as five times m."""
    if len(text) > MOST_CHARACTERS:
        raise TooComplexError(f"longer than {MOST_CHARACTERS:,} characters")
    return _Reader(with_letter_units).read(clean(text), 0)


def clean(text: str) -> str:
    """Return the text with one way of writing for everything that has several."""
    text = text.strip()
    found = _WRAPPED.fullmatch(text)
    if found:
        text = next(group for group in found.groups() if group is not None)
    for symbol, latex in _SYMBOLS.items():
        text = text.replace(symbol, latex)
    boxed = _BOXED.fullmatch(text.strip())
    if boxed:
        text = boxed[1]
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    return re.sub(r"\s+", " ", text).strip().rstrip(".,;").strip()


class _Reader:
    def __init__(self, with_letter_units: bool) -> None:  # noqa: FBT001  a private constructor
        self._with_letter_units = with_letter_units

    def read(self, text: str, depth: int) -> Answer:
        if depth > _MOST_DEPTH:
            raise TooComplexError(f"nested more than {_MOST_DEPTH} deep")
        text = text.strip().strip("$").strip() if text.strip().endswith("$") else text.strip()
        in_text = _TEXT_ONLY.fullmatch(text)
        if in_text and _COUNTED_WORDS.fullmatch(in_text[1]):  # \text{5 hours}
            text = in_text[1].strip()
        for read in (
            self._words,
            self._member,
            self._union,
            self._group,
            self._grid,
            self._list,
            self._plus_minus,
            self._relation,
        ):
            found = read(text, depth + 1)
            if found is not None:
                return found
        return self._quantity(text)

    def _words(self, text: str, _depth: int) -> Answer | None:
        found = _TEXT_ONLY.fullmatch(text)
        words = found[1] if found else text
        if not found and not _PLAIN_WORDS.fullmatch(text):
            return None
        bare = re.sub(r"[^a-z0-9 ]", "", words.lower()).strip()
        if found and re.fullmatch(r"[-+]?[\d.,/]+", words.strip()):
            return None  # \text{42} is a number
        product = text if not found and _PRODUCT.fullmatch(text) else ""
        return Words(" ".join(bare.split()), product) if bare else None

    def _member(self, text: str, depth: int) -> Answer | None:
        found = _MEMBER.fullmatch(text)
        return self.read(found[1], depth) if found else None

    def _union(self, text: str, depth: int) -> Answer | None:
        parts = _split(text, re.compile(r"\\cup(?![A-Za-z])"))
        if len(parts) == 1:
            return None
        return Union(tuple(self.read(part, depth) for part in parts))

    def _list(self, text: str, depth: int) -> Answer | None:
        if _THOUSANDS.match(text) and len(_split(_THOUSANDS.sub("", text, count=1), re.compile("[,;]"))) == 1:
            return None
        members = [each for each in _split(_CONNECTED.sub(",", text), re.compile("[,;]")) if each.strip()]
        if len(members) <= 1:
            return None
        names = {found[1] for each in members if (found := _NAMED.fullmatch(each))}
        if len(names) < 2:  # x = 2, x = 3 are two values; x = 2, y = 3 are two equations
            members = [_drop_name(each) for each in members]
        return Group("", tuple(part for each in members for part in _flat(self.read(each, depth))))

    def _plus_minus(self, text: str, depth: int) -> Answer | None:
        if not re.search(r"\\(?:pm|mp)(?![A-Za-z])", text):
            return None
        sides = [
            re.sub(r"\\mp(?![A-Za-z])", lower, re.sub(r"\\pm(?![A-Za-z])", upper, text))
            for upper, lower in (("+", "-"), ("-", "+"))
        ]
        return Group("", tuple(self.read(re.sub(r"^\s*\+", "", side), depth) for side in sides))

    def _relation(self, text: str, depth: int) -> Answer | None:
        if "\\begin" in text:
            found = re.fullmatch(r"(?:\\?[A-Za-z]+\s*=)\s*(\\begin.*)", text)
            return self.read(found[1], depth) if found else None
        sides = _split(text, _RELATION)
        relations = [each.strip() for each in _RELATION.findall(text)]
        if len(sides) - 1 != len(relations) or len(sides) == 1:
            return None
        if len(sides) == 3 and len(set(relations) - {"\\le", "<"}) == 0:
            left, right = ("[" if relations[0] == "\\le" else "("), ("]" if relations[1] == "\\le" else ")")
            return Group(left + right, (self.read(sides[0], depth), self.read(sides[2], depth)))
        if len(sides) == 3 and len(set(relations) - {"\\ge", ">"}) == 0:
            left, right = ("[" if relations[1] == "\\ge" else "("), ("]" if relations[0] == "\\ge" else ")")
            return Group(left + right, (self.read(sides[2], depth), self.read(sides[0], depth)))
        if set(relations) == {"="}:
            if len(sides) > 2:
                return self.read(sides[-1], depth)
            return Equation("=", sides[0].strip(), sides[1].strip())
        if len(sides) > 2:
            return None
        return self._ray(sides[0].strip(), relations[0], sides[1].strip(), depth)

    def _ray(self, left: str, relation: str, right: str, depth: int) -> Answer:
        """Read ``x > 2`` as an interval; other inequalities remain as they are, with the lesser side first."""
        if relation == "\\ne":
            return Equation(relation, left, right)
        if relation in (">", "\\ge"):
            left, right = right, left
            relation = "<" if relation == ">" else "\\le"
        if re.fullmatch("[A-Za-z]", left) and not re.search("[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", right)):
            return Group("(" + ("]" if relation == "\\le" else ")"), (Quantity("-\\infty"), self.read(right, depth)))
        if re.fullmatch("[A-Za-z]", right) and not re.search("[A-Za-z]", re.sub(r"\\[A-Za-z]+", "", left)):
            return Group(("[" if relation == "\\le" else "(") + ")", (self.read(left, depth), Quantity("\\infty")))
        return Equation(relation, left, right)

    def _group(self, text: str, depth: int) -> Answer | None:
        if _REALS.fullmatch(text):
            return Group("()", (Quantity("-\\infty"), Quantity("\\infty")))
        if text.startswith("\\{") and text.endswith("\\}") and _is_wrapped(text[1:-2] + "}"):
            inner = text[2:-2]
            if not inner.strip():
                return Group("{}", ())
            members = _split(inner, re.compile(","))
            return Group("{}", tuple(part for each in members for part in _flat(self.read(each, depth))))
        if not _is_wrapped(text):
            return None
        parts = _split(text[1:-1], re.compile("[,;]"))
        if len(parts) == 1 or _THOUSANDS.fullmatch(text[1:-1].strip()):
            return self.read(text[1:-1], depth) if text[0] + text[-1] in ("()", "{}") else None
        brackets = "{}" if text[0] == "{" else text[0] + text[-1]
        return Group(brackets, tuple(self.read(part, depth) for part in parts))

    def _grid(self, text: str, depth: int) -> Answer | None:
        found = _GRID.fullmatch(text)
        if not found:
            return None
        rows = [row for row in re.split(r"\\\\(?:\[[^\]]*\])?|\\cr", found[2]) if row.strip()]
        return Grid(tuple(tuple(self.read(cell, depth) for cell in row.split("&")) for row in rows))

    def _quantity(self, text: str) -> Quantity:
        based = _BASE.fullmatch(text)
        if based:
            named = next(group for group in based.groups()[1:] if group is not None)
            base = _BASE_NAMES.get(named.lower(), int(named) if named.isdigit() else 0)
            if base:
                return Quantity(text, base=base, digits=based[1].lower().lstrip("0") or "0")
        value, unit = self._split_unit(text)
        number = read_number(value)
        return Quantity(value if number is None else number, unit)

    def _split_unit(self, text: str) -> tuple[str, str]:
        money = re.fullmatch(r"([-+]?)\s*\\?\$\s*(.*)", text)
        if money:
            return money[1] + money[2], "dollar"
        for pattern in (r"(.*)\\?%", r"(.*)(?:\\text\s*\{\s*percent\s*\}|(?<![a-z])percent)"):
            percent = re.fullmatch(pattern, text)
            if percent:
                return percent[1].rstrip("\\ "), "%"
        degrees = re.fullmatch(r"(.*?)\s*\^\\circ\s*", text)
        if degrees and not re.search(r"\\(?:sin|cos|tan|cot|sec|csc)", degrees[1]):
            return degrees[1], "degree"
        tail = _TEXT_TAIL.fullmatch(text)
        if tail and tail[1].strip():
            return tail[1].strip(), normalise_unit(tail[2] + tail[3])
        tail = _WORD_TAIL.fullmatch(text)
        if tail and self._is_unit(tail[2]):
            return tail[1].strip(), normalise_unit(tail[2])
        return text, ""

    def _is_unit(self, text: str) -> bool:
        words = re.findall(r"[A-Za-z]+", text)
        if any(len(word) == 1 for word in words) and not self._with_letter_units:
            return False
        return bool(words) and all(
            word.lower() in _KNOWN_UNITS or _singular(word.lower()) in _KNOWN_UNITS or word == "per" for word in words
        )


def normalise_unit(text: str) -> str:
    """Return a unit with one name for each: ``sq ft`` and ``feet^2`` are ``foot^2``."""
    text = text.lower().replace(".", " ").replace("/", " per ").replace("{", "").replace("}", "")
    power = ""
    found = re.search(r"\^\s*(\d)", text)
    if found:
        power, text = f"^{found[1]}", text[: found.start()] + text[found.end() :]
    words = []
    for word in text.split():
        if word in ("square", "squared", "sq"):
            power = "^2"
        elif word in ("cubic", "cubed", "cu"):
            power = "^3"
        else:
            words.append(_UNITS.get(word) or _UNITS.get(_singular(word)) or _singular(word))
    if words in (["unit"], []) and not power:
        return ""
    return " ".join(words) + power


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 2 and word.endswith("s") and not word.endswith("ss") else word


def read_number(text: str) -> Fraction | Decimal | None:
    """Return the exact value of a number, in any notation; None if it is not one."""
    text = text.strip()
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "").replace(" ", "")
    plain = _PLAIN.fullmatch(text)
    if plain:
        return _signed(plain[1], Fraction(plain[2]))
    found = _SCIENTIFIC.fullmatch(text)
    if found:
        exponent = next(group for group in found.groups()[1:] if group is not None)
        return _scaled(found[1].replace(" ", ""), exponent)
    found = _POWER_OF_TEN.fullmatch(text)
    if found:
        return _scaled(found[1] + "1", found[2] or found[3])
    found = _REPEATING.fullmatch(text)
    if found:
        return _signed(found[1], _repeating(found[2], found[3], found[4]))
    found = _FRACTION.fullmatch(text)
    if not found:
        return None
    sign, whole, top, bottom = found.groups()[:4] if found[3] is not None else found.groups()[4:]
    numerator, denominator = int(top.replace(" ", "")), int(bottom.replace(" ", ""))
    if denominator == 0 or (whole is not None and (numerator < 0 or denominator < 0)):
        return None
    return _signed(sign, Fraction(numerator, denominator) + int(whole or 0))


def _repeating(whole: str, fixed: str, repeated: str) -> Fraction:
    """Return the value of a decimal whose last digits repeat for ever."""
    start = Fraction(int(whole + fixed or "0"), 10 ** len(fixed))
    return start + Fraction(int(repeated), 10 ** len(fixed) * (10 ** len(repeated) - 1))


def _scaled(mantissa: str, exponent: str) -> Fraction | Decimal | None:
    if len(exponent) > 9:
        raise TooComplexError("an exponent of more than nine digits")
    if abs(int(exponent)) > _MOST_EXPONENT:
        return Decimal(f"{mantissa}e{exponent}")
    return Fraction(f"{mantissa}e{exponent}")


def _signed(sign: str | None, value: Fraction) -> Fraction:
    return -value if sign == "-" else value


def _drop_name(text: str) -> str:
    """Return what a member of a list is equal to: ``x = 2`` in ``x = 2, x = 3``."""
    found = _NAMED.fullmatch(text)
    return found[2] if found else text


def _flat(part: Answer) -> Sequence[Answer]:
    return part.parts if isinstance(part, Group) and part.brackets == "" else (part,)


def _is_wrapped(text: str) -> bool:
    """Whether one pair of brackets is around all of it."""
    if len(text) < 2 or text[0] not in "([{" or text[-1] not in ")]}":
        return False
    depth = 0
    for at, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if depth == 0 and at < len(text) - 1:
                return False
    return depth == 0


def _split(text: str, separator: re.Pattern[str]) -> list[str]:
    """Split at separators that are outside all brackets and environments."""
    parts, depth, start = [], 0, 0
    separators = {match.start(): match.end() for match in separator.finditer(text)}
    thousands = {
        at for match in re.finditer(r"(?<![\d,.])\d{1,3}(?:,\d{3})+(?![\d,])", text) for at in range(*match.span())
    }
    at = 0
    while at < len(text):
        if text.startswith("\\begin", at):
            depth += 1
        elif text.startswith("\\end", at):
            depth -= 1
        if text[at] in "([{":
            depth += 1
        elif text[at] in ")]}":
            depth -= 1
        elif depth == 0 and at in separators and at not in thousands:
            parts.append(text[start:at])
            start = at = separators[at]
            continue
        at += 1
    return [*parts, text[start:]]
