"""Print made-up reviews as JSON Lines: ``python examples/make_reviews.py 2000 > reviews.jsonl``."""

from __future__ import annotations

import json
import random
import sys

PARTS = [
    "I love it.",
    "Great value, solid work.",
    "It broke on day two.",
    "Poor fit, I want a refund.",
    "Perfect.",
    "It came late.",
]
NAMES = ["Ada", "Böðvar", "Chloé", "Dmitri", "Eun-ji", "Fatima"]


def main() -> None:
    """Print as many reviews as asked for, always the same ones."""
    dice = random.Random(7)
    for number in range(int(sys.argv[1])):
        review = "" if number % 400 == 399 else " ".join(dice.sample(PARTS, dice.randint(1, 3)))
        print(
            json.dumps({"id": f"review-{number}", "customer": dice.choice(NAMES), "review": review}, ensure_ascii=False)
        )


if __name__ == "__main__":
    main()
