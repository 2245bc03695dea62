import asyncio
from types import SimpleNamespace

from graphmill.engine.jobs.steps import Steps


def test_what_is_cancelled_before_its_first_turn_raises_what_all_that_is_cancelled_does():
    async def main():
        loop = asyncio.get_running_loop()

        def spawn(work):
            task = loop.create_task(work)
            task.cancel()
            return task

        calls = SimpleNamespace(expect=lambda future: None, begin=lambda context, task: None)
        workers = SimpleNamespace(loop=loop, spawn=spawn, thread_calls=calls)
        future = Steps.submit(SimpleNamespace(workers=workers), None, None)
        for _ in range(9):
            await asyncio.sleep(0)
        return future.exception()

    assert isinstance(asyncio.run(main()), asyncio.CancelledError)
