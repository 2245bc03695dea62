import inspect

import pytest

import graphmill as gm
from graphmill.core import errors

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
