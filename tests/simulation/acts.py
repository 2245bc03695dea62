"""What simulated functions do, by the name of the act: the good, the failing and the hostile."""

import asyncio

import graphmill as gm


class OwnBase(BaseException):
    """Nobody's exception."""


class Odd:
    """A value that can not be asked anything."""

    def __init__(self, token):
        self.token = token

    def __eq__(self, _other):
        raise OwnBase

    def __bool__(self):
        raise OwnBase

    def __repr__(self):
        raise OwnBase

    __hash__ = None


async def sleep(act, name, world):
    await asyncio.sleep(act.s)


async def transient(act, name, world):
    await asyncio.sleep(act.s)
    raise gm.Transient(name)


async def permanent(act, name, world):
    await asyncio.sleep(act.s)
    raise gm.Permanent(name)


async def throttle(act, name, world):
    await asyncio.sleep(act.s)
    raise gm.Throttled(name, retry_after_s=None if act.more_s < 0 else act.more_s)


async def unavailable(act, name, world):
    await asyncio.sleep(act.s)
    raise gm.Unavailable(name)


async def hang(act, name, world):
    await world.for_ever()


async def clean_up(act, name, world):
    try:
        await asyncio.sleep(act.s)
    except asyncio.CancelledError:  # not finally: at the end of the world nobody waits any more
        await asyncio.sleep(act.more_s)
        raise


async def swallow(act, name, world):
    until = world.now() + act.s
    while world.now() < until:
        try:
            await asyncio.sleep(until - world.now())
        except asyncio.CancelledError:
            continue


async def swallow_for_ever(act, name, world):
    while True:
        try:
            await world.for_ever()
        except asyncio.CancelledError:
            continue


async def return_late(act, name, world):
    try:
        await asyncio.sleep(act.s)
    except asyncio.CancelledError:
        return


async def raise_late(act, name, world):
    try:
        await asyncio.sleep(act.s)
    except asyncio.CancelledError:
        raise gm.Permanent(name) from None


async def leave(act, name, world):
    await asyncio.sleep(act.s)
    raise SystemExit(name)


async def base(act, name, world):
    await asyncio.sleep(act.s)
    raise OwnBase(name)


async def cancel_itself(act, name, world):
    await asyncio.sleep(act.s)
    asyncio.current_task().cancel()
    await asyncio.sleep(0)


async def cancel_other(act, name, world):
    await asyncio.sleep(act.s)
    world.control("cancel_job", act.target)


async def cancel_self(act, name, world):
    await asyncio.sleep(act.s)
    world.control("cancel_job", int(name.split("/")[0]))


async def call(act, name, world):
    await asyncio.sleep(act.s)
    await world.call(name, act.key, act.more_s)


async def odd(act, name, world):
    await asyncio.sleep(act.s)
    return Odd(name)


ACTS = {
    act.__name__: act
    for act in (
        sleep,
        transient,
        permanent,
        throttle,
        unavailable,
        hang,
        clean_up,
        swallow,
        swallow_for_ever,
        return_late,
        raise_late,
        base,
        cancel_itself,
        cancel_other,
        cancel_self,
        call,
        odd,
    )
} | {"exit": leave}
