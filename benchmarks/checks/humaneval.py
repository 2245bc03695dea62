"""All canonical HumanEval solutions pass, and each with ``raise`` or ``pass`` as its first statement fails.

python -m benchmarks.checks.humaneval humaneval_test.jsonl.gz
"""

import asyncio
import gzip
import json
import sys
from collections import Counter

from graphmill.scoring.scorer import make_scorer

RIGHT = {
    "completion": lambda row: row["canonical_solution"],
    "function in a fence": lambda row: f"Here:\n```python\n{row['prompt']}{row['canonical_solution']}\n```\nDone.",
    "completion, stripped": lambda row: row["canonical_solution"].strip(),
}
WRONG = {
    "raise first": lambda row: "    raise ValueError\n" + row["canonical_solution"],
    "pass": lambda _: "    pass\n",
}


async def main():
    with gzip.open(sys.argv[1], "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    scorer = make_scorer("code")
    gate = asyncio.Semaphore(scorer.concurrency)

    async def score(row, answer):
        async with gate:
            return await scorer.call(answer=answer, problem=row)

    misjudged = 0
    try:
        for name, make in (RIGHT | WRONG).items():
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(score(row, make(row))) for row in rows]
            scores = [task.result() for task in tasks]
            correct = sum(each.value == 1 for each in scores)
            misjudged += correct if name in WRONG else len(rows) - correct
            print(f"{name}: {correct} of {len(rows)} correct, {dict(Counter(each.outcome for each in scores))}")
    finally:
        await scorer.close()
    print(f"misjudged: {misjudged}")
    sys.exit(bool(misjudged))


if __name__ == "__main__":
    asyncio.run(main())
