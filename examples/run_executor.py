"""The executor itself, when a program wants the stream and the controls."""

from __future__ import annotations

import asyncio
import random

import graphmill as gm

dice = random.Random(3)


async def fetch(page: int) -> int:
    """Stand in for a call that is throttled now and then, and fails for one page."""
    await asyncio.sleep(0.005)
    if dice.random() < 0.05:
        raise gm.Throttled("too many requests", retry_after_s=0.02)
    if page == 13:
        raise gm.Permanent("no such page")
    return page * page


async def main() -> None:
    """Run two hundred jobs, the last ones first, and print what goes wrong as it happens."""
    policy = gm.Policy(concurrency=20, retry=gm.Retry(attempts=3, wait_s=0.01), timeout_s=5)
    jobs = [gm.Job(id=f"page-{page}", graph=fetch, input=page, priority=page // 50) for page in range(200)]
    async with gm.BatchExecutor(policy).start(jobs) as run:
        async for result in run.results():
            if result.error is not None:
                print(result.job_id, result.error.kind, result.error.message)
            if run.progress().done == 100:
                run.set_concurrency(40)
    print(run.statistics())


if __name__ == "__main__":
    asyncio.run(main())
