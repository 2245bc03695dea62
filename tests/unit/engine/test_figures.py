from types import SimpleNamespace

from graphmill.engine.figures import Figures
from graphmill.engine.lane import Wait
from graphmill.engine.spending import Spending


def lane(key, trouble=""):
    return SimpleNamespace(
        key=key,
        running=0,
        waiting=1,
        limit=1,
        reason="as set",
        throttled=SimpleNamespace(value=0.0),
        health=SimpleNamespace(state="open" if trouble else "closed", reason=trouble),
        queue=[1],
        wait=lambda now, **_: Wait("an answer" if trouble else "its limit of 6 requests a minute", 3.0),
        refusals=lambda now: "",
    )


def test_of_several_lanes_that_wait_one_in_trouble_is_told_wherever_it_stands():
    lanes = [lane("own/a"), lane("own/b", "no credit is left"), lane("own/c")]
    scheduler = SimpleNamespace(held=None, running=0, limit=5, retrying=0, lanes=lanes)
    assert Figures(scheduler, None, Spending(None), total=3, now=0.0).waits(1.0).key == "own/b"
