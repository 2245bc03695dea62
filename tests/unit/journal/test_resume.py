from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.errors import ChangedError
from graphmill.core.result import Failure, Kind, Status
from graphmill.core.usage import Usage
from graphmill.journal.bodies import failure_body, usage_body
from graphmill.journal.records import AttemptRow, ItemNotes, RecordedOutcome, ResultCount, StepRow, SuspectRow
from graphmill.journal.resume import (
    RecordedItem,
    RefuseItem,
    ResumeRules,
    RunItem,
    SkipItem,
    decide,
    fail_as_ambiguous,
    fail_as_poisoned,
    generation_after_change,
    past_work,
    valid_steps,
)

KEY, CONTENT = bytes(16), b"content"
USED = Usage(requests=1, cost_nano=500_000_000)


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


# -- decide

STATUSES = st.sampled_from([Status.SUCCEEDED, Status.FAILED, Status.TIMED_OUT, Status.CANCELLED, Status.WAITING])
OUTCOMES = st.builds(
    RecordedOutcome,
    row=st.just(1),
    generation=st.integers(1, 4),
    status=STATUSES,
    content=st.sampled_from([b"old", b"new"]),
    wanted=st.integers(0, 5),
)
RULES = st.builds(
    ResumeRules,
    generation=st.integers(1, 5),
    on_change=st.sampled_from(["refuse", "invalidate", "keep"]),
    reuses_inputs=st.just(False),
)
ANSWER = StepRow(KEY, 1, "ask#1", CONTENT, 0, 0.0, b"{}", None)


def item(found, *, answered_in=0):
    steps = [ANSWER._replace(generation=answered_in)] if answered_in else []
    return RecordedItem(found, read_notes=lambda: ItemNotes(steps=steps))


@given(RULES)
def test_an_item_without_a_result_runs_in_the_run_s_generation(rules):
    decision = decide(item(None), content=b"new", rules=rules)
    assert (decision.generation, decision.content) == (rules.generation, b"new")


@given(OUTCOMES, RULES)
def test_a_result_stands_only_if_no_higher_generation_is_wanted(found, rules):
    wanted = max(rules.generation, found.wanted)
    decision = decide(item(found), content=b"new", rules=rules)
    if found.generation < wanted:
        assert decision.generation == wanted
    elif found.content == b"new" or rules.on_change == "keep":
        assert decision == SkipItem(found.status)
    elif rules.on_change == "refuse":
        assert isinstance(decision, RefuseItem)
    else:
        assert decision.generation == found.generation + 1


@given(st.one_of(st.none(), OUTCOMES), RULES, STATUSES)
def test_what_has_run_does_not_run_again(found, rules, status):
    decision = decide(item(found), content=b"new", rules=rules)
    if isinstance(decision, RunItem):
        done = RecordedOutcome(2, decision.generation, status, decision.content, 0 if found is None else found.wanted)
        assert decide(item(done), content=b"new", rules=rules) == SkipItem(status)


@given(OUTCOMES, RULES)
def test_a_run_never_lowers_a_generation_nor_repeats_one(found, rules):
    decision = decide(item(found), content=b"new", rules=rules)
    if isinstance(decision, RunItem):
        assert decision.generation > found.generation
        assert decision.generation >= rules.generation


@pytest.mark.parametrize(("answered_in", "runs"), [(0, False), (1, False), (2, True)])
def test_a_waiting_item_runs_once_it_is_answered(answered_in, runs):
    waiting = RecordedOutcome(1, 2, Status.WAITING, b"new", 0)
    decision = decide(item(waiting, answered_in=answered_in), content=b"new", rules=ResumeRules(1, "refuse"))
    assert isinstance(decision, RunItem) == runs
    assert not runs or decision.generation == 3


def test_a_retry_records_the_hash_of_the_recorded_input():
    failed = RecordedOutcome(1, 1, Status.FAILED, b"old", 2)
    decision = decide(item(failed), content=b"new", rules=ResumeRules(1, "keep", reuses_inputs=True))
    assert (decision.generation, decision.content) == (2, b"old")


def test_notes_are_read_only_when_they_matter():
    def read():
        raise AssertionError

    done = RecordedItem(RecordedOutcome(1, 1, Status.SUCCEEDED, b"new", 0), read_notes=read, read_last_steps=read)
    assert decide(done, content=b"new", rules=ResumeRules(1, "refuse")) == SkipItem(Status.SUCCEEDED)
    assert decide(done, content=b"else", rules=ResumeRules(1, "keep")) == SkipItem(Status.SUCCEEDED)


# -- what is still valid


@pytest.mark.parametrize(
    ("suspect", "attempts", "effect", "instead"),
    [
        (None, [], "unsafe", None),
        (SuspectRow(KEY, 2, 2), [], "repeatable", None),
        (SuspectRow(KEY, 3, 3), [], "repeatable", fail_as_poisoned),
        (None, [begun("")], "unsafe", fail_as_ambiguous),
        (None, [begun("")], "repeatable", None),
    ],
    ids=["fresh", "suspected", "poisoned", "begun and unsafe", "begun and repeatable"],
)
def test_what_must_not_run_is_replaced_by_a_failure(suspect, attempts, effect, instead):
    recorded = RecordedItem(None, read_notes=lambda: ItemNotes(attempts=attempts, suspect=suspect))
    assert past_work(recorded, 1, effect).instead is instead


@pytest.mark.parametrize("on_change", ["refuse", "invalidate", "keep"])
def test_a_changed_run_continues_in_a_generation_above_all_results(on_change):
    run = SimpleNamespace(id="r", generation=2, steps=0)
    counts = [ResultCount(Status.SUCCEEDED, None, 4, 10)]
    change = partial(generation_after_change, run, counts, ["node 'a' changed"], on_change=on_change, hint="--hint")
    if on_change == "refuse":
        with pytest.raises(ChangedError, match=r"run r has 10 results .*node 'a' changed.*--hint"):
            change()
    else:
        assert change() == (5 if on_change == "invalidate" else 2)
