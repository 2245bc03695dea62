import asyncio
import logging

import pytest

import graphmill as gm
from graphmill.engine.attempts.workers import SharedResources


class Thing:
    def __init__(self, name, closed, *, error=None):
        self.name, self._closed, self._error = name, closed, error

    async def close(self):
        await asyncio.sleep(0)
        if self._error is not None:
            raise self._error
        self._closed.append(self.name)


def test_what_goes_by_one_key_is_made_once_and_closed_once_the_last_made_first():
    async def use():
        shared, closed = SharedResources(), []
        first = shared.get("a", lambda: Thing("a", closed))
        shared.get(("b", 1), lambda: Thing("b", closed))
        assert shared.get("a", lambda: pytest.fail("made twice")) is first
        await shared.close(1.0)
        await shared.close(1.0)
        return closed

    assert asyncio.run(use()) == ["b", "a"]


def test_one_that_fails_or_hangs_keeps_no_other_from_being_closed(caplog):
    class Stuck(Thing):
        async def close(self):
            await asyncio.Event().wait()

    async def use():
        shared, closed = SharedResources(), []
        shared.get("a", lambda: Thing("a", closed))
        shared.get("broken", lambda: Thing("broken", closed, error=OSError("gone")))
        shared.get("stuck", lambda: Stuck("stuck", closed))
        await shared.close(0.01)
        return closed

    with caplog.at_level(logging.WARNING, logger="graphmill"):
        assert asyncio.run(use()) == ["a"]
    assert [record.getMessage().split(" failed")[0] for record in caplog.records] == [
        "closing 'stuck'",
        "closing 'broken'",
    ]


def test_nothing_is_made_for_a_run_that_has_ended():
    async def use():
        shared = SharedResources()
        await shared.close(1.0)
        with pytest.raises(gm.UsageError, match="the run has ended"):
            shared.get("a", lambda: pytest.fail("made"))

    asyncio.run(use())
