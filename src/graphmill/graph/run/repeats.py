"""Finds a text that repeats an earlier one: texts are compared by their pairs of neighbouring words, in linear time."""

from __future__ import annotations

import re
from array import array
from zlib import crc32

# Thai to Khmer, Japanese and Chinese put no spaces between words: there each character counts as one.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+|[^\w\s]")

_FACTOR, _STRIDE, _ALL_BITS = 0x9E3779B1, 0x85EBCA6B, 0xFFFFFFFF


class EarlierTexts:
    """The texts so far of one `repeats` condition, as four bytes for each pair of words.

    The similarity of two texts is the share of their pairs that both have, from 0 to 1. It is the same in every
    process.
    """

    def __init__(self, similarity: float) -> None:
        self._similarity = similarity
        self._texts: set[str] = set()
        self._pairs: list[array[int]] = []

    def add(self, text: str) -> bool:
        """Add a text; return whether it is the same as an earlier one, or as similar as it takes."""
        if text in self._texts:
            return True
        self._texts.add(text)
        if self._similarity == 1:
            return False
        pairs = word_pairs(text)
        own = set(pairs)
        is_similar = any(self._is_similar(own, earlier) for earlier in self._pairs)
        self._pairs.append(pairs)
        return is_similar

    def _is_similar(self, own: set[int], earlier: array[int]) -> bool:
        needed = self._similarity * (len(own) + len(earlier)) / 2
        if min(len(own), len(earlier)) < needed:
            return False
        misses_left = len(earlier) - needed
        for pair in earlier:  # the first few words are enough to tell most texts apart
            if pair not in own:
                misses_left -= 1
                if misses_left < 0:
                    return False
        return True


def word_pairs(text: str) -> array[int]:
    """Hash each pair of neighbouring words, with both ends; equal pairs are numbered."""
    seen: dict[int, int] = {}
    pairs = array("I")
    before = 0
    for word in (*_WORD.findall(text), ""):
        own = crc32(word.encode(errors="surrogatepass"))
        pair = (before * _FACTOR + own) & _ALL_BITS
        before = own
        count = seen.get(pair, 0)
        seen[pair] = count + 1
        pairs.append((pair + count * _STRIDE) & _ALL_BITS)
    return pairs
