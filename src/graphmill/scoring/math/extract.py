r"""Find the final answer in a text: the last ``\boxed{}``, what follows ``####`` or "answer is", or the last number."""

from __future__ import annotations

import re

from graphmill.core.boxes import last_box

_MOST_SEARCHED = 20_000  # of the end of a text without a box

_BOXED = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
_HASHES = re.compile(r"####[ \t]*(.+)")
_SAID = re.compile(r"(?:final\s+answer|answer)\b[^\n.=]{0,40}?(?:\bis\b|:|=)[ \t]*:?\s*(?=(\S.*))", re.IGNORECASE)
_MATH = re.compile(r"\$\$?(.+?)\$\$?(?!\d)|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_MATH_AT_START = re.compile(r"(?:\*\*)?\s*(?:\$\$?((?:\\\$|[^$])+)\$\$?|\\\((.+?)\\\)|\\\[(.+?)\\\])", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<!\\)[.!?](?:\s|$)|\n")
_NUMBER = re.compile(
    r"(?<!\w)-?\d+/\d+(?!\w)|(?<![\w.])-?\$?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+|(?<=\d))(?:[eE][-+]?\d+)?%?(?!\w)"
)
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
_MOST_BARE = 400
_PROSE_WORDS = 4
_PROSE = re.compile(
    r"(?<![\\A-Za-z])"
    r"(?:is|are|was|equals?|costs?|gives?|gets?|have|has|we|it|there|so|thus|hence|therefore)(?![A-Za-z])",
    re.IGNORECASE,
)
_AFTERWARDS = re.compile(r"(?<=[\w)}$])\s+(?:of|because|since|which|as|when|where)\s.*")


def extract_answer(text: str) -> str | None:
    r"""Return the final answer of a solution, without its marks; None if there is none.

    A ``\boxed{`` that is never closed is no answer: the text was cut.
    """
    text = text.strip()
    if _BOXED.search(text):
        box = last_box(text)
        return _tidy(box.content) if box else None
    text = text[-_MOST_SEARCHED:]
    hashes = _HASHES.findall(text)
    if hashes:
        return _tidy(hashes[-1])
    said = None
    for match in _SAID.finditer(text):
        said = match[1]
    if said is not None:
        return _tidy(_start_of(said))
    if _is_bare(text):
        return _tidy(text)
    found = _MATH.findall(text)
    if found and _is_at_end(text, "".join(found[-1])):
        return _tidy("".join(found[-1]))
    numbers = [match[0] for match in _NUMBER.finditer(text)]
    return _tidy(numbers[-1]) if numbers else None


def extract_gold(text: str) -> str:
    r"""Return a reference answer: itself, or the last ``\boxed{}`` or ``####`` of a whole solution."""
    text = text.strip()
    if _BOXED.search(text):
        box = last_box(text)
        return (_tidy(box.content) if box else None) or ""
    hashes = _HASHES.findall(text)
    if hashes:
        return _tidy(hashes[-1]) or ""
    return text


def _start_of(text: str) -> str:
    """Return the mathematics that a text begins with, else its first sentence."""
    found = _MATH_AT_START.match(text)
    if found:
        return next(group for group in found.groups() if group is not None)
    end = _SENTENCE_END.search(text)
    return _AFTERWARDS.sub("", text[: end.start()] if end else text)


def _is_bare(text: str) -> bool:
    """Whether a text is an answer and nothing else: one short line with few words, and none that makes a sentence."""
    is_short = len(text) <= _MOST_BARE and "\n" not in text
    return is_short and len(_WORD.findall(text)) < _PROSE_WORDS and not _PROSE.search(text)


def _is_at_end(text: str, part: str) -> bool:
    return len(text) - text.rfind(part) - len(part) <= 4  # closing marks and a full stop


def _tidy(text: str) -> str | None:
    text = text.strip().strip("*").strip()
    return text.rstrip(".;,").strip() or None
