import math

from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.result import Failure, Kind, Result, Status
from graphmill.engine.monitor.machine import Reading
from graphmill.engine.results.statistics import ErrorGroups, Sketch, Tally

durations = st.lists(st.floats(2e-6, 1e6), min_size=1, max_size=300)


def result(position=0, status=Status.SUCCEEDED, *, message=None, attempts=1, duration_s=1.0):
    error = None if message is None else Failure(kind=Kind.TRANSIENT, message=message, type="X")
    return Result(
        job_id=str(position),
        position=position,
        status=status,
        input=None,
        error=error,
        attempts=attempts,
        duration_s=duration_s,
    )


def statistics(results):
    tally = Tally()
    for one in results:
        tally.add(one)
    return tally.statistics(
        total=None, elapsed_s=2.0, held_s=0.0, stuck=0, hook_errors=0, reading=Reading(memory=0.0, cpu=0.0), usage={}
    )


@given(durations, st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_a_percentile_is_within_one_percent_of_the_exact_one(values, share):
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    exact = sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
    assert math.isclose(sketch.quantile(share), exact, rel_tol=0.0101)


@given(st.lists(st.floats(0, 1e6), max_size=200))
def test_percentiles_never_fall_and_never_exceed_the_highest(values):
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    read = sketch.percentiles()
    assert 0 <= read.p50 <= read.p90 <= read.p99 <= read.highest == max(values, default=0)


def test_a_sketch_stays_small_however_many_values_it_counts():
    sketch = Sketch()
    for exponent in range(-7, 9):
        for step in range(1, 2000):
            sketch.add(step * 10.0**exponent)
    assert len(sketch._buckets) < 2500


def test_errors_are_grouped_by_kind_and_by_message_but_for_its_numbers():
    found = statistics(
        [result(n, Status.FAILED, message=f"row {n} of 7 is bad") for n in range(5)]
        + [result(9, Status.FAILED, message="other")]
    )
    assert [(group.message, group.count) for group in found.errors] == [("row 0 of 7 is bad", 5), ("other", 1)]


def test_ten_thousand_different_messages_make_a_hundred_groups_and_lose_no_count():
    def letters(number):
        return "".join(chr(97 + int(digit)) for digit in str(number))

    found = statistics(result(n, Status.FAILED, message=letters(n)) for n in range(10_000))
    assert len(found.errors) <= 101
    assert sum(group.count for group in found.errors) == 10_000


def test_the_slowest_jobs_are_named_slowest_first():
    found = statistics(result(n, duration_s=(n * 37) % 101) for n in range(100))
    assert [slow.duration_s for slow in found.slowest] == sorted(((n * 37) % 101 for n in range(100)), reverse=True)[:5]


def test_cancelled_jobs_are_neither_errors_nor_durations():
    never_ran = [result(number, Status.CANCELLED, message="stop", attempts=0, duration_s=0) for number in range(9)]
    found = statistics([*never_ran, result(9, duration_s=3.0)])
    assert found.errors == ()
    assert found.cancelled == 9
    assert math.isclose(found.duration_s.p50, 3.0, rel_tol=0.0101)
    assert found.success_rate == 1.0


def test_no_results_have_figures_too():
    found = statistics([])
    assert (found.done, found.throughput, found.success_rate, found.duration_s.p99) == (0, 0.0, 0.0, 0.0)
    assert found.peak_memory_bytes > 1_000_000


def groups(*failures):
    found = ErrorGroups()
    for kind, message in failures:
        found.add(Failure(kind=kind, message=message, type="X"))
    return [(group.kind, group.message, group.count) for group in found.largest_first()]


def test_messages_that_differ_only_in_numbers_are_one_group_with_the_first_one_s():
    assert groups(
        (Kind.TIMEOUT, "after 61 s"),
        (Kind.CRASH, "gone"),
        (Kind.CRASH, "gone"),
        (Kind.TIMEOUT, "after 7 s"),
        (Kind.TIMEOUT, "after 8 s"),
    ) == [
        ("timeout", "after 61 s", 3),
        ("crash", "gone", 2),
    ]


def test_the_same_message_of_another_kind_is_another_group():
    assert len(groups((Kind.TIMEOUT, "x"), (Kind.CRASH, "x"))) == 2


def test_beyond_a_hundred_groups_the_rest_of_a_kind_is_one():
    letters = [a + b for a in "abcdefghijkl" for b in "abcdefghijkl"]
    found = groups(*((Kind.PERMANENT, text) for text in letters))
    assert found[0] == ("permanent", "(other messages)", 44)
    assert len(found) == 101
    assert sum(count for _, _, count in found) == 144
