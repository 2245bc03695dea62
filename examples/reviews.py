"""The functions of reviews.yaml: what a model would do, done by hand, so that the example runs anywhere."""

from __future__ import annotations

import asyncio
import hashlib

import graphmill as gm

GOOD = {"love", "great", "solid", "happy", "perfect"}
BAD = {"broke", "poor", "never", "late", "refund"}


async def rate(text: str) -> dict[str, object]:
    """Rate a review from -1 to 1, taking as long as a quick model call would."""
    await asyncio.sleep(0.002 + hashlib.md5(text.encode()).digest()[0] / 5000)
    words = set(text.lower().replace(".", "").replace(",", "").split())
    if not words:
        raise gm.Permanent("an empty review cannot be rated")
    score = (len(words & GOOD) - len(words & BAD)) / max(1, len(words & (GOOD | BAD)))
    return {"score": score, "words": len(words)}


def reply(customer: str, score: float) -> str:
    """Write the answer to a customer; a plain function, so it runs in a thread."""
    if score < 0:
        return f"Dear {customer}, we are sorry. A replacement is on its way."
    return f"Dear {customer}, thank you!"
