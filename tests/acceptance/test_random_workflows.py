"""Random workflows come to what a naive interpreter of the language says, also when they are stopped anywhere and gone on with."""

import json
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, note, reject, settings
from hypothesis import strategies as st

import graphmill as gm
from graphmill.graph.run import outcomes
from support import workflow_functions
from support.expectation import difference
from support.naive import Unclear, interpret
from support.random_workflows import workflows
from support.workflows import EAGER

pytest.importorskip("graphmill.graph.run", reason="workflows are not run by the new compiler yet")

FORMS = {
    "workflow.json": json.dumps,
    "workflow.yaml": lambda data: yaml.safe_dump(data, sort_keys=False, allow_unicode=True),
}
thorough = settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@contextmanager
def loaded(workflow, name):
    """The graph of a workflow's file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(FORMS[name](workflow), encoding="utf-8")
        note(FORMS[name](workflow))
        yield gm.load(path)


def judged(workflow, inputs):
    try:
        return interpret(workflow, inputs)
    except Unclear:
        reject()


def require_same(report, expected):
    (result,) = report.results()
    assert result.status == expected.status, f"{result.error}; the naive one: {expected}"
    if expected.status == "succeeded":
        assert difference(expected.outputs, result.output) == ""


@thorough
@given(workflows(), st.sampled_from(sorted(FORMS)))
def test_a_random_workflow_gives_what_the_naive_interpreter_gives(example, name):
    workflow, inputs = example
    with loaded(workflow, name) as graph:
        require_same(gm.batch(graph, [inputs], policy=EAGER), judged(workflow, inputs))


@contextmanager
def stopping_at(call):
    """Give what takes the live run, and drains it at once when functions have been called so often."""
    calls, live = count(1), []

    def listen():
        if next(calls) == call:
            live[0].drain(0)

    workflow_functions.listeners.append(listen)
    try:
        yield live.append
    finally:
        workflow_functions.listeners.remove(listen)


@contextmanager
def recorded(place):
    """A journal of its own for each example."""
    with (
        TemporaryDirectory() as folder,
        closing(gm.open_journal(place if place == "memory:" else Path(folder) / place)) as journal,
    ):
        yield journal


@pytest.mark.parametrize("place", ["memory:", "runs.db"])
@thorough
@given(workflows(), st.lists(st.integers(1, 12), min_size=1, max_size=3))
def test_a_random_workflow_that_is_stopped_at_any_step_and_gone_on_with_gives_the_same(place, example, stops):
    workflow, inputs = example
    assume(
        ":flaky" not in json.dumps(workflow)
    )  # which counts a call that a stop cut short, and that is no attempt that failed
    expected = judged(workflow, inputs)
    with recorded(place) as journal, loaded(workflow, "workflow.json") as graph, pytest.MonkeyPatch.context() as patch:
        patch.setattr(outcomes, "MAX_IN_MEMORY", 1)  # so that what is put aside is read too
        for call in stops:
            with stopping_at(call) as keep:
                gm.batch(graph, [inputs], policy=EAGER, run_id="r", journal=journal, on_start=keep)
        require_same(gm.batch(graph, [inputs], policy=EAGER, run_id="r", journal=journal), expected)
