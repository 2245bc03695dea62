import pytest

from graphmill.core.result import Failure, Kind, Status
from graphmill.core.usage import Usage
from graphmill.journal.bodies import failure_body, usage_body
from graphmill.journal.records import AttemptRow, ItemNotes, RecordedOutcome, StepRow
from graphmill.journal.resume import valid_steps

KEY, CONTENT = bytes(16), b"content"
USED = Usage(requests=1, cost_usd=0.5)


def step(path, generation=1, kind=None):
    error = None if kind is None else failure_body(Failure(kind=kind, message="no", type="E"))
    return StepRow(KEY, generation, path, CONTENT, 1, 0.0, b"1" if kind is None else None, error)


def begun(path, generation=1, kind=None):
    return AttemptRow(KEY, generation, path, 1, kind, None)


def outcome(generation=1, wanted=0, kind=None):
    return RecordedOutcome(1, generation, Status.FAILED, CONTENT, wanted, kind)


def paths(notes, generation, found):
    return [row.path for row in valid_steps(notes, generation, found).steps]


STEPS = ItemNotes(steps=[step("good"), step("bad", kind=Kind.PERMANENT), step("doubtful", kind=Kind.AMBIGUOUS)])


@pytest.mark.parametrize(
    ("generation", "found", "stands"),
    [
        (1, None, ["good", "bad", "doubtful"]),
        (2, outcome(kind=Kind.PERMANENT), ["good", "bad", "doubtful"]),
        (2, outcome(wanted=2, kind=Kind.PERMANENT), ["good", "doubtful"]),
        (2, outcome(wanted=2, kind=Kind.AMBIGUOUS), ["good"]),
        (2, outcome(kind=Kind.AMBIGUOUS), ["good", "bad", "doubtful"]),
    ],
    ids=["resumed", "changed", "retried", "retried by name", "changed while ambiguous"],
)
def test_what_stands_of_the_outcomes_of_steps(generation, found, stands):
    assert paths(STEPS, generation, found) == stands


def test_failures_since_the_last_retry_stand_after_a_change():
    notes = ItemNotes(steps=[step("a", 1, Kind.PERMANENT), step("a", 2, Kind.PERMANENT)])
    assert [row.generation for row in valid_steps(notes, 3, outcome(generation=2, wanted=2)).steps] == [2]


@pytest.mark.parametrize(
    ("found", "intended"),
    [
        (outcome(wanted=2, kind=Kind.PERMANENT), {"begun"}),
        (outcome(wanted=2, kind=Kind.AMBIGUOUS), set()),
        (outcome(kind=Kind.AMBIGUOUS), {"begun"}),
    ],
    ids=["retried", "retried by name", "changed"],
)
def test_a_step_that_was_begun_and_has_no_outcome_may_have_happened_in_later_generations_too(found, intended):
    notes = ItemNotes(
        steps=[step("ended")],
        attempts=[begun("begun"), begun("ended"), begun(""), begun("unsent", kind=Kind.THROTTLED)],
    )
    assert valid_steps(notes, 2, found).intended == intended


def test_a_step_that_was_begun_in_this_generation_may_have_happened_with_other_inputs():
    assert valid_steps(ItemNotes(steps=[step("ended")], attempts=[begun("ended")]), 1, None).intended == {"ended"}


def test_failed_attempts_count_in_their_own_generation():
    notes = ItemNotes(attempts=[begun("a", 1, Kind.TRANSIENT), begun("a", 2, Kind.THROTTLED)])
    assert valid_steps(notes, 2, None).failed == {"a": (1, 0, None)}


def test_what_failed_attempts_used_adds_up():
    rows = [begun("a", kind=Kind.TRANSIENT)._replace(attempt=number, usage=usage_body(USED)) for number in (1, 2)]
    assert valid_steps(ItemNotes(attempts=rows), 1, None).failed == {"a": (2, 2, USED + USED)}
