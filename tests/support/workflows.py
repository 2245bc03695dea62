"""Short ways to write, load and run a workflow file from a test."""

from textwrap import dedent

import pytest

import graphmill as gm

EAGER = gm.Policy(retry=gm.Retry(attempts=3, wait_s=0, cap_s=0))


def write_workflow(folder, text, name="workflow.yaml"):
    path = folder / name
    path.write_text(dedent(text), encoding="utf-8")
    return path


def load_workflow(folder, text, name="workflow.yaml"):
    return gm.load(write_workflow(folder, text, name))


def problems_of(folder, text, name="workflow.yaml"):
    """Load a workflow that has mistakes; give them."""
    with pytest.raises(gm.WorkflowError) as caught:
        load_workflow(folder, text, name)
    return caught.value.problems


def result_of(graph, item):
    """Run one item; give its result."""
    (result,) = gm.batch(graph, [item], policy=EAGER).results()
    return result


def output_of(graph, item):
    """Run one item that succeeds; give its output."""
    result = result_of(graph, item)
    assert result.error is None, result.error
    return result.output


def message_of_permanent(graph, item):
    """Run one item that fails for good, at its first attempt or before any; give the message."""
    result = result_of(graph, item)
    assert result.status == "failed"
    assert result.attempts <= 1
    assert result.error.kind == "permanent"
    return result.error.message
