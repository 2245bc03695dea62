import asyncio
from types import SimpleNamespace

from graphmill.engine.starts import Starts


def test_what_was_to_start_soon_does_not_once_it_is_closed():
    started, faults = [], []

    async def close_before_it_starts():
        scheduler = SimpleNamespace(running=1, start_next=lambda now: "ticket")
        starts = Starts(scheduler, SimpleNamespace(has_observers=False), None, crash=faults.append)
        starts.open(begin=lambda ticket, now: started.append(ticket), refill=lambda: None)
        starts.soon()
        starts.close()
        await asyncio.sleep(0)

    asyncio.run(close_before_it_starts())
    assert (started, faults) == ([], [])
