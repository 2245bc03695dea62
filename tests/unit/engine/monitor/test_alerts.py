import pytest

import graphmill as gm
from graphmill.engine.monitor.events import Alert
from graphmill.engine.monitor.monitor import AlertWatch
from graphmill.engine.policy import Alerts
from graphmill.engine.results.statistics import Share, Tally

OFF = {"failure_rate": None, "stalled_s": None, "throttled_share": None}


class Watched:
    """Alerts, and the results that they watch."""

    def __init__(self, alerts):
        self.alerts = AlertWatch(alerts, now=0.0)
        self.tally = Tally()


def watch(**alerts):
    return Watched(Alerts(**{**OFF, **alerts}))


def feed(watch, *, failed=0, succeeded=0):
    for status in ["failed"] * failed + ["succeeded"] * succeeded:
        watch.tally.add(gm.Result(job_id="a", position=0, status=gm.Status(status), input=None))


def share(value, count):
    found = Share()
    found.value, found.count = value, count
    return found


def check(watch, now=0.0, *, is_idle=False, throttled_share=0.0, calls=0):
    return watch.alerts.check(now, watch.tally, is_idle=is_idle, throttled=[share(throttled_share, calls)])


def test_too_many_failures_alert_once():
    watched = watch(failure_rate=0.5)
    feed(watched, succeeded=4, failed=16)
    message = "80 % of the last results failed (alert above 50 %)"
    assert check(watched) == [Alert(name="failure_rate", message=message, value=pytest.approx(0.8), threshold=0.5)]
    feed(watched, failed=50)
    assert check(watched) == []


def test_failures_alert_again_only_after_they_were_clearly_fewer():
    watched = watch(failure_rate=0.5)
    feed(watched, failed=20)
    assert len(check(watched)) == 1
    feed(watched, succeeded=25)  # 44 %: below the threshold, but not clearly
    assert check(watched) == []
    feed(watched, failed=20)
    assert check(watched) == []
    feed(watched, succeeded=60)
    assert check(watched) == []
    feed(watched, failed=100)
    assert len(check(watched)) == 1


def test_fewer_than_20_results_do_not_alert():
    watched = watch(failure_rate=0.5)
    feed(watched, failed=19)
    assert check(watched) == []
    feed(watched, failed=1)
    assert len(check(watched)) == 1


def test_a_share_at_its_threshold_does_not_alert():
    watched = watch(failure_rate=1.0, throttled_share=0.5)
    feed(watched, failed=30)
    assert check(watched, throttled_share=0.5, calls=100) == []


def test_late_failures_alert_however_long_all_went_well():
    watched = watch(failure_rate=0.5)
    feed(watched, succeeded=10_000)
    feed(watched, failed=100)
    assert [alert.name for alert in check(watched)] == ["failure_rate"]


def test_a_run_without_results_alerts_once_until_there_is_progress():
    watched = watch(stalled_s=300)
    assert check(watched, 299) == []
    assert check(watched, 300) == [
        Alert(name="stalled", message="no item has finished for 300 s", value=300, threshold=300)
    ]
    assert check(watched, 900) == []
    feed(watched, failed=1)
    assert check(watched, 1000) == []
    assert check(watched, 1299) == []
    assert [alert.value for alert in check(watched, 1310)] == [310]


def test_an_idle_run_does_not_stall_and_its_time_starts_anew_afterwards():
    watched = watch(stalled_s=300)
    assert check(watched, 1000, is_idle=True) == []
    assert check(watched, 1299) == []
    assert len(check(watched, 1300)) == 1


def test_a_pause_in_a_stall_is_no_progress():
    watched = watch(stalled_s=300)
    assert len(check(watched, 300)) == 1
    assert check(watched, 400, is_idle=True) == []
    assert check(watched, 1000) == []


def test_too_many_throttled_calls_alert_once_there_were_20_and_again_after_clearly_fewer():
    watched = watch(throttled_share=0.5)
    assert check(watched, throttled_share=0.9, calls=19) == []
    message = "62 % of recent calls were throttled (alert above 50 %)"
    assert check(watched, throttled_share=0.62, calls=20) == [
        Alert(name="throttled_share", message=message, value=0.62, threshold=0.5)
    ]
    alerts = [check(watched, throttled_share=share, calls=100) for share in (0.7, 0.41, 0.7, 0.39, 0.7)]
    assert [len(new) for new in alerts] == [0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"failure_rate": 0}, "failure_rate must be a share > 0 and <= 1"),
        ({"failure_rate": 20}, r"for 20 % write 0\.2"),
        ({"throttled_share": False}, "throttled_share must be a share"),
        ({"stalled_s": 0}, "stalled_s must be a number of seconds > 0 or None, got 0"),
        ({"stalled_s": True}, "stalled_s must be"),
        ({"stalled_s": "300"}, "stalled_s must be"),
        ({"stalled_s": float("inf")}, "stalled_s must be"),
        ({"stalled_s": float("nan")}, "stalled_s must be"),
    ],
)
def test_alerts_that_can_not_be_meant_are_refused_when_they_are_made(arguments, message):
    with pytest.raises(gm.UsageError, match=message):
        Alerts(**arguments)


def test_the_worst_key_counts_among_those_with_calls_enough():
    watched = watch(throttled_share=0.5)
    shares = [share(1.0, 3), share(0.7, 50), share(0.1, 100)]
    (alert,) = watched.alerts.check(0.0, watched.tally, is_idle=False, throttled=shares)
    assert alert.value == 0.7
