"""Every MATH-500 gold answer equals itself in five rewritings, and none equals its perturbed twin.

python -m benchmarks.checks.math500 math500_test.jsonl.gz
"""

import asyncio
import gzip
import json
import re
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

from graphmill.scoring.scorer import find_scorer

TOKEN = re.compile(
    r"\\begin\{\w+\}|\\end\{\w+\}|\\(?:text|mbox|textbf)\s*\{[^{}]*\}|\\[A-Za-z]+|\\.|\d+(?:,\\!\s*\d{3}|,\d{3}(?!\d))*(?:\.\d+)?|\.\d+|\S"
)
FRAC = re.compile(r"(-?)\\[dt]?frac\s*(?:\{(-?\d+)\}|(\d))\s*(?:\{(-?\d+)\}|(\d))")
INTEGER = re.compile(r"-?\d+")


def fraction(gold):
    found = FRAC.fullmatch(gold.strip())
    if not found:
        return None
    top, bottom = int(found[2] or found[3]), int(found[4] or found[5])
    return found[1], top, bottom


def exact_decimal(gold):
    if INTEGER.fullmatch(gold):
        return f"{gold}.0"
    parts = fraction(gold)
    if parts is None:
        return None
    sign, top, bottom = parts
    value = Fraction(top, bottom)
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest != 1:
        return None
    text = f"{float(value):.12f}".rstrip("0").rstrip(".")
    assert Fraction(text) == value
    return sign + text


def rewritings(gold):
    yield "boxed", rf"Therefore we get \[\boxed{{{gold}}}\] as was to be shown."
    yield "sentence", f"We simplify twice, so the final answer is ${gold}$."
    yield "spaces", r"\boxed{ " + " ".join(TOKEN.findall(gold)) + " }"
    if "frac" in gold:
        display = re.sub(r"\\[dt]?frac", r"\\dfrac", gold)
        yield "dfrac", rf"\boxed{{{display}}}"
    elif INTEGER.fullmatch(gold):
        yield "dfrac", rf"\boxed{{\dfrac{{{2 * int(gold)}}}{{2}}}}"
    if (decimal := exact_decimal(gold)) is not None:
        yield "decimal", rf"\boxed{{{decimal}}}"


def split_top(text):
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if (
            char == ","
            and depth == 0
            and not (
                text[at + 1 : at + 3] == r"\!"
                or (re.match(r"\d{3}(?!\d)", text[at + 1 :]) and text[at - 1 : at].isdigit() and " " not in text)
            )
        ):
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def twins(gold):
    if found := re.fullmatch(r"(\w+)_\{?(\d+)\}?", gold):
        yield "base", f"{found[1]}_{{{int(found[2]) - 1}}}"
    if (
        re.fullmatch(r"-?(?:\d|\.|\\frac).*", gold)
        and not re.search(r"[,=]|\\text|\\cup|\\pm", gold)
        and gold not in ("0", "90^\\circ")
    ):
        yield "sign", gold[1:] if gold.startswith("-") else f"-{gold}"
    numbers = list(re.finditer(r"(?<![\d.])\d+(?![\d.]|,\\!)", gold))
    if numbers:
        last = numbers[0]
        for step in (1, -1):
            yield "±1", f"{gold[: last.start()]}{int(last[0]) + step}{gold[last.end() :]}"
    parts = fraction(gold)
    if parts is not None and abs(parts[1]) != abs(parts[2]) and parts[1]:
        yield "inverted", rf"{parts[0]}\frac{{{parts[2]}}}{{{parts[1]}}}"
    plain = gold.replace(r"\left", "").replace(r"\right", "").replace(" ", "")
    inner = plain[1:-1] if plain[:1] in "([" and plain[-1:] in ")]" else plain
    elements = split_top(inner)
    if len(elements) > 1 and "begin" not in plain:
        rest = ",".join(elements[:-1])
        yield "dropped", plain[0] + rest + plain[-1] if inner != plain else rest
    if inner != plain and len(elements) == 2 and r"\cup" not in plain:
        other = {"(": "[", "[": "("}[plain[0]]
        yield "bracket", other + plain[1:]
    if "begin{pmatrix}" in plain:
        yield "dropped", re.sub(r"\\\\[^\\]*(?:\\(?!\\)[^\\]*)*\\end", lambda _: r"\end", plain, count=1)


def all_twins(gold):
    """A text or an expression without a number has a twin too: another word, or one more."""
    found = list(twins(gold))
    if not found:
        found = [("other word", r"\text{Nobody}")] if "text" in gold else [("one more", f"{gold}+1")]
    return found


def main():
    with gzip.open(sys.argv[1], "rt", encoding="utf-8") as lines:
        golds = [json.loads(line)["answer"] for line in lines]
    scorer = find_scorer("math")
    jobs = [(gold, kind, text, True) for gold in golds for kind, text in rewritings(gold)]
    jobs += [(gold, kind, rf"\boxed{{{text}}}", False) for gold in golds for kind, text in all_twins(gold)]
    began = time.monotonic()
    with ThreadPoolExecutor(2) as threads:
        scores = list(threads.map(lambda job: scorer.call(job[2], job[0]), jobs))
    took = time.monotonic() - began
    asyncio.run(scorer.close())
    counts, wrong = Counter(), []
    twinned = {gold for gold, _, _, same in jobs if not same}
    for (gold, kind, text, same), score in zip(jobs, scores, strict=True):
        counts["equals" if same else "differs", kind] += 1
        if (score.value == 1) is not same or score.value is None:
            wrong.append((kind, same, gold, text, score.value, score.explanation))
    for row in wrong:
        print("WRONG", row)
    print(f"{len(golds)} gold answers, {len(set(golds) & twinned)} of {len(set(golds))} different ones have a twin")
    print("  ".join(f"{side} {kind}: {count}" for (side, kind), count in counts.items()))
    print(f"{len(jobs)} pairs in {took:.1f} s, {len(jobs) / took:.0f}/s; misjudged: {len(wrong)}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
