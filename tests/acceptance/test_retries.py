"""One layer of retry: what is tried again, when, and what it costs."""

import asyncio
import logging

import pytest

import graphmill as gm
from support.driving import by_id, jobs_of, virtual


def failing(error, times):
    """Make a function that raises so often before it succeeds; it notes when it was called."""
    calls = []

    async def work(_):
        calls.append(asyncio.get_running_loop().time())
        if len(calls) <= times:
            raise error
        return "done"

    return work, calls


def test_a_passing_failure_is_tried_three_times_by_default():
    work, calls = failing(gm.Transient("no"), times=5)
    results, run = virtual(jobs_of(work, [1]))
    assert (results[0].status, results[0].attempts, len(calls)) == (gm.Status.FAILED, 3, 3)
    assert run.statistics().retries == 2


@pytest.mark.parametrize(
    ("backoff", "starts"),
    [("fixed", [0, 2, 4, 6, 8]), ("linear", [0, 2, 6, 12, 19]), ("exponential", [0, 2, 6, 13, 20])],
)
def test_waits_follow_the_backoff_up_to_the_cap(backoff, starts):
    work, calls = failing(gm.Transient("no"), times=5)
    virtual(jobs_of(work, [1]), retry=gm.Retry(attempts=5, wait_s=2, cap_s=7, backoff=backoff, jitter=False))
    assert calls == pytest.approx(starts)


def test_a_permanent_failure_is_never_tried_again():
    for error in (gm.Permanent("no"), TypeError("no"), FileNotFoundError("no"), ZeroDivisionError()):
        work, calls = failing(error, times=1)
        results, _ = virtual(jobs_of(work, [1]))
        assert len(calls) == 1
        assert results[0].error.kind is gm.Kind.PERMANENT


def test_what_is_not_known_to_be_permanent_is_tried_again():
    for error in (
        ConnectionError("no"),
        ValueError("no"),
        RuntimeError("no"),
        KeyError("no"),
        AssertionError(),
        OSError("no"),
        TimeoutError(),
    ):
        work, calls = failing(error, times=1)
        results, _ = virtual(jobs_of(work, [1]))
        assert (len(calls), results[0].output) == (2, "done")


def test_retry_after_is_honoured():
    work, calls = failing(gm.Throttled("slow down", retry_after_s=120), times=1)
    results, _ = virtual(jobs_of(work, [1]))
    assert results[0].is_success
    assert 120 <= calls[1] <= 132


def test_any_exception_may_carry_retry_after():
    error = ConnectionError("busy")
    error.retry_after_s = 33
    work, calls = failing(error, times=1)
    virtual(jobs_of(work, [1]), retry=gm.Retry(jitter=False))
    assert calls == pytest.approx([0, 33])


@pytest.mark.parametrize("nonsense", [float("nan"), float("inf"), -5, "soon", None])
def test_a_retry_after_that_makes_no_sense_is_passed_over(nonsense):
    work, calls = failing(gm.Throttled("busy", retry_after_s=nonsense), times=1)
    virtual(jobs_of(work, [1]), retry=gm.Retry(jitter=False))
    assert calls == pytest.approx([0, 1])


def test_throttles_use_no_attempts_but_a_budget_of_time():
    work, calls = failing(gm.Throttled("slow down", retry_after_s=10), times=30)
    results, _ = virtual(jobs_of(work, [1]), retry=gm.Retry(attempts=1))
    assert results[0].is_success
    assert len(calls) == 31


def test_a_job_throttled_beyond_its_budget_fails_as_throttled_while_others_get_through():
    calls = []

    async def work(value):
        if value:
            return value
        calls.append(value)
        raise gm.Throttled("too many tokens for this minute")

    async def others():
        for value in range(1000):
            yield gm.Job(id=str(value), graph=work, input=value)
            await asyncio.sleep(1)

    results, run = virtual(others())
    assert results[-1].status is gm.Status.SUCCEEDED
    failed = by_id(results)["0"]
    assert failed.error.kind is gm.Kind.THROTTLED
    assert 840 <= failed.duration_s <= 900
    assert len(calls) == failed.attempts
    assert run.stopped is None


def test_when_nothing_gets_through_for_that_long_the_run_is_parked_and_no_job_failed():
    work, _ = failing(gm.Throttled("slow down"), times=10_000)
    results, run = virtual(jobs_of(work, range(3)))
    assert {result.status for result in results} == {gm.Status.PENDING}
    assert 840 <= run.statistics().elapsed_s <= 900
    assert run.stopped is gm.StopReason.OUTAGE
    assert run.stopped_because == "slow down (throttled for 900 s, and lately no call got through)"


def test_a_retry_after_of_hours_for_one_job_stops_no_others():
    async def work(value):
        await asyncio.sleep(1)
        if value == 7:
            raise gm.Throttled("far too large", retry_after_s=36_000)

    results, run = virtual(jobs_of(work, range(20_000)))
    assert by_id(results)["7"].error.kind is gm.Kind.THROTTLED
    assert run.statistics().succeeded == 19_999
    assert run.stopped is None


def test_without_a_budget_a_throttled_job_fails():
    work, _ = failing(gm.Throttled("slow down"), times=10_000)
    results, run = virtual(jobs_of(work, range(3)), retry=gm.Retry(throttle_budget_s=0))
    assert [result.error.kind for result in results] == [gm.Kind.THROTTLED] * 3
    assert run.stopped is None


def test_throttles_and_failures_are_counted_apart():
    errors = [gm.Throttled(), gm.Transient("x"), gm.Throttled(), gm.Transient("x"), gm.Throttled()]

    async def work(_):
        if errors:
            raise errors.pop(0)
        return "done"

    results, _ = virtual(jobs_of(work, [1]), retry=gm.Retry(attempts=3))
    assert (results[0].output, results[0].attempts) == ("done", 6)


def test_a_waiting_retry_frees_its_slot():
    async def work(value):
        if value == 0:
            raise gm.Transient("again")
        await asyncio.sleep(1)

    results, run = virtual(jobs_of(work, range(11)), concurrency=1, retry=gm.Retry(attempts=2, wait_s=10, jitter=False))
    assert len(results) == 11
    assert run.statistics().elapsed_s == pytest.approx(10)  # ten others ran while it waited


def test_a_user_s_rule_decides_the_kind_by_word_or_member():
    def classify(error):
        return {"word": "permanent", "member": gm.Kind.PERMANENT, "other": None}[str(error)]

    async def work(value):
        raise RuntimeError(value)

    results, _ = virtual(jobs_of(work, ["word", "member", "other"]), classify=classify)
    assert [(result.attempts, result.error.kind.value) for result in sorted(results, key=lambda one: one.position)] == [
        (1, "permanent"),
        (1, "permanent"),
        (3, "transient"),
    ]


@pytest.mark.parametrize(
    "rule", [lambda _: 1 / 0, lambda _: "sometimes", lambda _: "paused", lambda _: gm.Kind.CANCELLED, lambda _: []]
)
def test_a_rule_that_fails_is_reported_once_and_the_usual_one_serves(rule, caplog):
    async def work(_):
        raise TypeError("no")

    with caplog.at_level(logging.ERROR, "graphmill"):
        results, _ = virtual(jobs_of(work, range(20)), classify=rule)
    assert {(result.attempts, result.error.kind) for result in results} == {(1, gm.Kind.PERMANENT)}
    assert len(caplog.records) == 1


def test_a_failure_tells_its_type_message_frames_and_cause_but_holds_no_exception():
    def inner():
        raise KeyError("colour")

    async def work(_):
        try:
            inner()
        except KeyError as error:
            raise ValueError("bad row") from error

    results, _ = virtual(jobs_of(work, [1]), retry=gm.Retry(attempts=1))
    error = results[0].error
    assert (error.type, error.message, error.retryable) == ("ValueError", "bad row", True)
    assert "in inner" in error.traceback
    assert "in work" in error.traceback
    assert error.traceback.index("KeyError") < error.traceback.index("caused") < error.traceback.index("ValueError")
    assert "graphmill/engine" not in error.traceback


def test_an_exception_whose_message_can_not_be_rendered_or_is_huge_is_recorded_all_the_same():
    class Broken(Exception):  # noqa: N818
        def __str__(self):
            raise RuntimeError("no message either")

    async def work(value):
        raise Broken if value == "broken" else ValueError("x" * 10_000_000)

    results, _ = virtual(jobs_of(work, ["broken", "huge"]), retry=gm.Retry(attempts=1))
    messages = [result.error.message for result in sorted(results, key=lambda one: one.position)]
    assert messages[0] == "Broken (its message could not be rendered)"
    assert len(messages[1]) == 2000


def test_retries_of_many_jobs_do_not_come_back_at_the_same_moment():
    starts = []

    async def work(_):
        starts.append(asyncio.get_running_loop().time())
        raise gm.Transient("all at once")

    virtual(jobs_of(work, range(100)), concurrency=100, retry=gm.Retry(attempts=2))
    assert len(set(starts[100:])) > 90


def test_a_throttled_job_without_any_wait_comes_to_an_end_too():
    work, calls = failing(gm.Throttled("slow down", retry_after_s=0), times=10**9)
    results, run = virtual(jobs_of(work, [1]), retry=gm.Retry(wait_s=0, throttle_budget_s=10))
    assert results[0].status is gm.Status.PENDING
    assert run.stopped is gm.StopReason.OUTAGE
    assert len(calls) <= 101


class OddAttribute(Exception):  # noqa: N818
    @property
    def retry_after_s(self):
        return float({}["retry-after"])


class OddText(Exception):  # noqa: N818
    def __str__(self):
        raise SystemExit(3)


class OddCause(Exception):  # noqa: N818
    @property
    def __cause__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "error", [OddAttribute("odd"), OddText("odd"), OddCause("odd"), gm.Throttled("odd", retry_after_s=10**400)]
)
def test_an_exception_that_defends_itself_is_that_job_s_row(error):
    async def work(value):
        if value == 1:
            raise error
        return value

    results, _ = virtual(jobs_of(work, range(3)), retry=gm.Retry(attempts=1, throttle_budget_s=0))
    assert sorted(result.status.value for result in results) == ["failed", "succeeded", "succeeded"]


def test_a_rule_that_tries_to_leave_is_a_rule_that_fails():
    async def work(_):
        raise TypeError("no")

    def classify(_):
        raise SystemExit(2)

    results, _ = virtual(jobs_of(work, [1]), classify=classify)
    assert results[0].error.kind is gm.Kind.PERMANENT


@pytest.mark.parametrize(
    ("errors", "kind", "attempts"),
    [
        ([gm.Permanent("never")], "permanent", 1),
        ([gm.Transient("later"), ExceptionGroup("inner", [ValueError("bad"), gm.Permanent("never")])], "permanent", 1),
        ([gm.Transient("later"), OSError("lost")], "transient", 3),
    ],
)
def test_of_errors_in_a_group_the_gravest_decides(errors, kind, attempts):
    work, _ = failing(ExceptionGroup("unhandled errors in a TaskGroup", errors), times=9)
    [result] = virtual(jobs_of(work, [1]))[0]
    assert (result.error.kind, result.attempts) == (kind, attempts)
    assert result.error.message == ("never" if kind == "permanent" else "later")


def test_a_throttle_in_a_group_is_a_throttle():
    work, calls = failing(
        ExceptionGroup("", [gm.Transient("later"), gm.Throttled("slowly", retry_after_s=40)]), times=1
    )
    [result] = virtual(jobs_of(work, [1]), retry=gm.Retry(attempts=1))[0]
    assert result.status == gm.Status.SUCCEEDED
    assert calls[1] >= 40
