import inspect
import pickle

import pytest

import graphmill as gm
from graphmill.core import errors
from graphmill.core.errors import describe_error, message_of

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_exception_is_a_graphmill_error_is_public_and_stands_in_the_drawn_tree(kind):
    assert issubclass(kind, gm.GraphmillError)
    assert getattr(gm, kind.__name__) is kind
    assert kind.__name__ in errors.__doc__


def test_a_usage_error_can_be_caught_as_a_value_error():
    with pytest.raises(ValueError, match="concurrency"):
        gm.Policy(concurrency=0)


def test_a_throttled_attempt_carries_how_long_to_wait():
    assert gm.Throttled(retry_after_s=2.5).retry_after_s == 2.5
    assert (str(gm.Throttled()), gm.Throttled().retry_after_s) == ("throttled", None)


def test_a_workflow_error_names_the_file_before_each_problem():
    error = gm.WorkflowError("flow.yaml", ["one", "two"])
    assert str(error) == "flow.yaml: one\nflow.yaml: two"
    assert (error.path, error.problems) == ("flow.yaml", ["one", "two"])


NAMED = (gm.WorkflowError, gm.SourceError, gm.DuplicateIdError, gm.StepError, gm.Throttled)
MADE = [
    gm.WorkflowError("flow.yaml", ["one", "two"]),
    gm.SourceError("broken", position=7),
    gm.DuplicateIdError("x", first=1, second=2),
    gm.StepError("fetch#1", gm.Failure(kind=gm.Kind.TRANSIENT, message="m", type="t")),
    gm.Throttled("slow down", retry_after_s=2.5),
    *(
        kind("message")
        for kind in CLASSES
        if kind not in (gm.WorkflowError, gm.SourceError, gm.DuplicateIdError, gm.StepError, gm.Throttled)
    ),
]


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_every_exception_survives_pickling_with_its_attributes(error):
    error.add_note("in node 'a'")
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), str(twin), twin.args, vars(twin)) == (type(error), str(error), error.args, vars(error))


def test_no_exception_is_left_out():
    assert {type(error) for error in MADE} == set(CLASSES)


@pytest.mark.parametrize(
    ("given", "kept"),
    [(3, 3.0), ("3", 3.0), (" 2.5 ", 2.5), (None, None), ("Wed, 21 Oct 2026 07:28:00 GMT", None), (10**400, None)],
)
def test_a_retry_after_may_be_text_as_a_header_gives_it(given, kept):
    assert gm.Throttled(retry_after_s=given).retry_after_s == kept


class RudeError(Exception):
    def __str__(self):
        raise ValueError


def noted(error):
    error.add_note("line 3")
    return error


@pytest.mark.parametrize(
    ("error", "message", "description"),
    [
        (ValueError("bad"), "bad", "ValueError: bad"),
        (ValueError(), "ValueError", "ValueError"),
        (ValueError(" \n"), "ValueError", "ValueError"),
        (noted(ValueError("bad")), "bad (line 3)", "ValueError: bad (line 3)"),
        (noted(ValueError()), "ValueError (line 3)", "ValueError (line 3)"),
        (RudeError(), "RudeError (its message could not be rendered)", "RudeError (its message could not be rendered)"),
    ],
)
def test_an_exception_always_says_something_and_its_type_once(error, message, description):
    assert (message_of(error), describe_error(error)) == (message, description)


def test_a_long_message_is_cut():
    assert len(message_of(ValueError("x" * 10_000))) == 2000
