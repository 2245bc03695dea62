"""Calls under way, with failures and cancellations at random moments."""

import asyncio
import threading
from random import Random

import pytest

from graphmill.graph.models.cache import SingleFlight


class Asked:
    """A call that takes some turns of the loop, and may fail; it notes how many are made at once."""

    def __init__(self, random):
        self.random, self.now, self.most, self.count = random, 0, 0, 0

    async def __call__(self):
        self.count += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            for _ in range(self.random.randrange(4)):
                await asyncio.sleep(0)
            if self.random.random() < 0.3:
                raise ValueError("it failed")
            return self.count
        finally:
            self.now -= 1


@pytest.mark.parametrize("seed", range(200))
def test_whoever_is_not_cancelled_has_an_answer_or_its_own_failure(seed):
    random = Random(seed)
    asked, flights = Asked(random), SingleFlight()

    async def call():
        for _ in range(random.randrange(3)):
            await asyncio.sleep(0)
        try:
            return await flights.once(b"key", asked)
        except ValueError:
            return None

    async def drive():
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(call()) for _ in range(random.randrange(1, 9))]
            for _ in range(random.randrange(6)):
                await asyncio.sleep(0)
                random.choice(calls).cancel()
        return [each.result() for each in calls if not each.cancelled()]

    async def limited():
        async with asyncio.timeout(30):
            return await drive()

    found = [each for each in asyncio.run(limited()) if each is not None]
    assert asked.most <= 1
    assert sum(is_asked for _, is_asked in found) <= asked.count
    assert {answer for answer, _ in found} <= set(range(1, asked.count + 1))
    assert flights._waiting == {}


def test_other_keys_do_not_wait():
    async def drive():
        flights, gate = SingleFlight(), asyncio.Event()

        async def one():
            await gate.wait()
            return 1

        async def other():
            gate.set()
            return 2

        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(flights.once(b"a", one)), group.create_task(flights.once(b"b", other))]
        return [call.result() for call in calls]

    assert asyncio.run(drive()) == [(1, True), (2, True)]


def test_who_waits_on_a_loop_that_is_gone_is_passed_over():
    flights = SingleFlight()

    async def join():
        assert flights._join(b"key") is not None  # and the loop ends without a word

    async def fail():
        thread = threading.Thread(target=lambda: asyncio.run(join()))
        thread.start()
        await asyncio.to_thread(thread.join, 30)
        raise ValueError("it failed")

    async def drive():
        with pytest.raises(ValueError, match="it failed"):
            await flights.once(b"key", fail)
        return await flights.once(b"key", _answer)

    assert asyncio.run(drive()) == ("fine", True)


async def _answer():
    return "fine"
