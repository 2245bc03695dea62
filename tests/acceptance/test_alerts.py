"""A run that goes wrong says so without being asked: in the log, to ``on_alert`` and to observers."""

import asyncio
import logging

import graphmill as gm
from support.driving import jobs_of, virtual


def alerts_of(jobs, **options):
    found = []

    async def note(alert):
        found.append(alert)

    results, run = virtual(jobs, on_alert=note, **options)
    return found, results, run


async def fails_from_a_hundred_on(value):
    await asyncio.sleep(1)
    if value >= 100:
        raise gm.Permanent("broken")


def test_too_many_failures_among_the_latest_results_raise_an_alert_once(caplog):
    with caplog.at_level(logging.WARNING, logger="graphmill"):
        found, _, _ = alerts_of(jobs_of(fails_from_a_hundred_on, range(500)))
    (alert,) = found
    assert (alert.name, alert.threshold) == ("failure_rate", 0.5)
    assert alert.message in caplog.text


def test_no_result_for_long_raises_an_alert():
    async def slow(_):
        await asyncio.sleep(1000)

    found, _, _ = alerts_of(jobs_of(slow, [1]), timeout_s=None, alerts=gm.Alerts(stalled_s=60))
    assert [(alert.name, alert.message) for alert in found] == [("stalled", "no item has finished for 60 s")]


def test_a_run_that_waits_for_its_source_has_not_stalled():
    async def work(value):
        return value

    async def source():
        yield gm.Job(id="a", graph=work)
        await asyncio.sleep(10_000)
        yield gm.Job(id="b", graph=work)

    found, results, _ = alerts_of(source(), alerts=gm.Alerts(stalled_s=60))
    assert (found, len(results)) == ([], 2)


def test_too_many_throttled_calls_raise_an_alert_and_observers_hear_of_it_too():
    events = []

    async def listen(event):
        if isinstance(event, gm.AlertRaised):
            events.append(event.alert)

    left = [80]

    async def work(value):
        left[0] -= 1
        if left[0] > 0:
            raise gm.Throttled(retry_after_s=1)
        return value

    found, results, _ = alerts_of(jobs_of(work, range(10)), observers=[listen])
    assert [alert.name for alert in found] == ["throttled_share"]
    assert "lower the concurrency, or use Policy(adaptive=True)" in found[0].message
    assert events == found
    assert all(result.is_success for result in results)


def test_switched_off_they_are_silent():
    off = gm.Alerts(failure_rate=None, stalled_s=None, throttled_share=None)
    found, _, _ = alerts_of(jobs_of(fails_from_a_hundred_on, range(300)), alerts=off)
    assert found == []


def test_a_handler_that_raises_is_logged_and_called_for_the_next_alert_too(caplog):
    seen = []

    async def work(value):
        await asyncio.sleep(1)
        raise gm.Permanent("broken") if value < 200 else gm.Unavailable("no credit")

    async def note(alert):
        seen.append(alert.name)
        if len(seen) == 1:
            raise OSError("the pager is down")

    virtual(jobs_of(work, range(210)), on_alert=note)
    assert seen == ["failure_rate", "unavailable", "outage"]
    assert "on_alert raised; it is called for the next" in caplog.text


def test_an_outage_its_end_and_a_parked_run_are_told_once_each(caplog):
    async def work(_):
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(1)
        if 5 < now < 30 or now > 60:
            raise gm.Unavailable("no credit")

    with caplog.at_level(logging.INFO, logger="graphmill"):
        found, _, _ = alerts_of(jobs_of(work, range(1000)), alerts=gm.Alerts(stalled_s=None))
    assert [alert.message for alert in found][:2] == ["unavailable: no credit"] * 2
    assert [alert.name for alert in found] == ["unavailable", "unavailable", "outage"]
    assert caplog.text.count("available again") == 1
