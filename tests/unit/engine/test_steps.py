import asyncio
from types import SimpleNamespace

from graphmill.engine.steps import Steps


def test_what_is_cancelled_before_its_first_turn_raises_what_all_that_is_cancelled_does():
    async def main():
        loop = asyncio.get_running_loop()

        def spawn(work):
            task = loop.create_task(work)
            task.cancel()
            return task

        errands = SimpleNamespace(expect=lambda future: None, begin=lambda frame, task: None)
        workers = SimpleNamespace(loop=loop, spawn=spawn, errands=errands)
        future = Steps.submit(SimpleNamespace(_workers=workers), None, None)
        for _ in range(9):
            await asyncio.sleep(0)
        return future.exception()

    assert isinstance(asyncio.run(main()), asyncio.CancelledError)
