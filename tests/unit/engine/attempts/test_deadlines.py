import asyncio

from hypothesis import given
from hypothesis import strategies as st

from graphmill.engine.timers import Deadlines
from support.virtual_clock import run_virtual


async def _expired(script):
    """Play (wait, name, clear) steps and tell what expired when."""
    loop = asyncio.get_running_loop()
    seen = []
    deadlines = Deadlines(loop, 10.0, lambda name: seen.append((name, loop.time())))
    live = {}
    for wait, name, clear in script:
        await asyncio.sleep(wait)
        if clear:
            deadlines.clear(name)
            live.pop(name, None)
        elif name not in live or live[name] + 10.0 <= loop.time():
            deadlines.set(name, loop.time())
            live[name] = loop.time()
    await asyncio.sleep(20)
    return seen


@given(st.lists(st.tuples(st.floats(0.01, 8), st.integers(0, 4), st.booleans()), max_size=30))
def test_each_thing_expires_once_its_delay_after_it_was_set_unless_cleared(script):
    expected, set_at, now = [], {}, 0.0
    for wait, name, clear in script:
        now += wait
        for other, since in list(set_at.items()):
            if since + 10.0 <= now:
                expected.append((other, since + 10.0))
                del set_at[other]
        if clear:
            set_at.pop(name, None)
        elif name not in set_at:
            set_at[name] = now
    expected += [(name, since + 10.0) for name, since in set_at.items()]
    seen = run_virtual(_expired(script))
    assert [name for name, _ in seen] == [name for name, _ in sorted(expected, key=lambda entry: entry[1])]
    assert all(
        abs(at - due) < 1e-6
        for (_, at), (_, due) in zip(seen, sorted(expected, key=lambda entry: entry[1]), strict=True)
    )


def test_the_time_of_a_thing_can_be_held_and_goes_on_with_what_is_left():
    async def main():
        loop, expired = asyncio.get_running_loop(), []
        deadlines = Deadlines(loop, 10.0, lambda thing: expired.append((thing, loop.time())))
        deadlines.set("held", 0.0)
        deadlines.set("other", 0.0)
        await asyncio.sleep(4)
        left_s = deadlines.pause("held")
        await asyncio.sleep(50)
        deadlines.set("late", loop.time())
        deadlines.resume("held", left_s)
        await asyncio.sleep(50)
        return left_s, expired, deadlines.pause("unknown")

    assert run_virtual(main()) == (6.0, [("other", 10.0), ("held", 60.0), ("late", 64.0)], None)
