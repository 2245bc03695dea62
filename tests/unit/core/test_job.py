import pytest

import graphmill as gm


def test_a_job_is_frozen_and_has_no_input_and_no_priority_unless_given():
    job = gm.Job(id="a", graph=print)
    assert (job.input, job.priority) == (None, 0)
    with pytest.raises(AttributeError):
        job.priority = 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": 1, "graph": print}, "id is text, not int: 1"),
        (
            {"id": "a", "graph": "workflow.yaml"},
            "graph of job 'a' is not callable: 'workflow.yaml'; load a workflow file with gm.load",
        ),
        ({"id": "a", "graph": print, "priority": 1.5}, "priority of job 'a' is a whole number, not 1.5"),
        ({"id": "a", "graph": print, "priority": True}, "whole number, not True"),
    ],
)
def test_a_job_that_can_not_be_meant_is_refused_with_the_remedy(fields, message):
    with pytest.raises(gm.UsageError, match=message):
        gm.Job(**fields)


def test_what_a_message_quotes_is_cut():
    with pytest.raises(gm.UsageError) as caught:
        gm.Job(id="a" * 1000, graph="b" * 1000)
    assert len(str(caught.value)) < 300
