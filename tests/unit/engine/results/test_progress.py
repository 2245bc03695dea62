from types import SimpleNamespace

from graphmill.engine.results.statistics import RunStatistics
from graphmill.engine.scheduling.lanes import LaneWait
from graphmill.engine.scheduling.scheduler import Holds


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
        wait=lambda now, **_: LaneWait("an answer" if trouble else "its limit of 6 requests a minute", 3.0),
        refusals=lambda now: "",
    )


def test_of_several_lanes_that_wait_one_in_trouble_is_told_wherever_it_stands():
    lanes = [lane("own/a"), lane("own/b", "no credit is left"), lane("own/c")]
    scheduler = SimpleNamespace(holds=Holds(), running=0, most_running=5, retrying=0, lanes=lanes)
    assert RunStatistics(scheduler, SimpleNamespace(total=3), None, now=0.0).waiting_lane(1.0).key == "own/b"
