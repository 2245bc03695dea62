"""What the attempts of one run share: made at first use, closed when the run ends, however it ends."""

import asyncio

import pytest

import graphmill as gm
from graphmill.engine.jobs.context import current_context

CALM = gm.Policy(retry=gm.Retry(attempts=2, wait_s=0, cap_s=0))


class Pool:
    made, closed = 0, 0

    def __init__(self):
        type(self).made += 1

    async def close(self):
        type(self).closed += 1


@pytest.fixture(autouse=True)
def counts():
    Pool.made = Pool.closed = 0


async def use(item):
    pool = current_context.get().shared("pool", Pool)
    await asyncio.sleep(0)
    assert Pool.closed == 0
    if item == "fails":
        raise gm.Transient("no")
    return type(pool).__name__


def test_all_attempts_of_a_run_share_one_and_the_next_run_has_its_own():
    gm.batch(use, ["a", "fails", "b"], policy=CALM)
    assert (Pool.made, Pool.closed) == (1, 1)
    gm.batch(use, ["a"], policy=CALM, journal="memory:")
    assert (Pool.made, Pool.closed) == (2, 2)


def test_a_cancelled_run_closes_what_was_shared():
    async def cancel(item):
        await use(item)
        run.cancel()
        await asyncio.Event().wait()

    def keep(live):
        nonlocal run
        run = live

    run = None
    assert gm.batch(cancel, ["a"], policy=CALM, on_start=keep).stopped == "cancelled"
    assert (Pool.made, Pool.closed) == (1, 1)


def test_a_run_that_shares_nothing_makes_nothing():
    gm.batch(str, ["a"], policy=CALM)
    assert (Pool.made, Pool.closed) == (0, 0)
