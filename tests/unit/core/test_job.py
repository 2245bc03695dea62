import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphmill as gm
from graphmill.core.job import own_id


def test_a_job_is_frozen_and_has_no_input_and_no_priority_unless_given():
    job = gm.Job(id="a", graph=print)
    assert (job.input, job.priority) == (None, 0)
    with pytest.raises(AttributeError):
        job.priority = 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": 1, "graph": print}, "id must be text, got int: 1"),
        (
            {"id": "a", "graph": "workflow.yaml"},
            "graph of job 'a' is not callable: 'workflow.yaml'; load a workflow file with gm.load",
        ),
        ({"id": "a", "graph": print, "priority": 1.5}, "priority of job 'a' must be an integer, got 1.5"),
        ({"id": "a", "graph": print, "priority": True}, "must be an integer, got True"),
    ],
)
def test_a_job_that_can_not_be_meant_is_refused_with_the_remedy(fields, message):
    with pytest.raises(gm.UsageError, match=message):
        gm.Job(**fields)


def test_what_a_message_quotes_is_cut():
    with pytest.raises(gm.UsageError) as caught:
        gm.Job(id="a" * 1000, graph="b" * 1000)
    assert len(str(caught.value)) < 300


def ids(items, **options):
    return [result.job_id for result in gm.batch(lambda item: item, items, **options).results()]


def test_an_item_goes_by_its_id_or_else_by_its_position():
    assert ids([{"id": "a"}, {"id": 7}, {"name": "no id"}, "text", None, {"id": ""}]) == ["a", "7", "2", "3", "4", ""]


@pytest.mark.parametrize("value", [None, True, 1.5, ["a"], {}], ids=repr)
def test_what_is_neither_text_nor_a_whole_number_is_no_id(value):
    assert own_id({"id": value}, position=3) is None


def test_a_named_field_goes_before_the_item_s_own_id():
    assert ids([{"id": "a", "isbn": "b"}, {"id": "c", "isbn": 0}], id_field="isbn") == ["b", "0"]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"id": "x", "name": 1}, "position 0 has no id: it has no field 'isbn', only 'id', 'name'"),
        (
            dict.fromkeys("abcdefghijklm"),
            "only 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'; add one, or name another field$",
        ),
        ({"isbn": None}, "its field 'isbn' must be text or an integer, got None"),
        ({"isbn": True}, "its field 'isbn' must be text or an integer, got True"),
        ("text", "position 0 has no field 'isbn': it is str, not a mapping"),
    ],
)
def test_a_named_field_that_is_no_id_ends_the_batch_with_the_reason(item, message):
    with pytest.raises(gm.SourceError, match=message) as caught:
        gm.batch(lambda item: item, [item], id_field="isbn")
    assert caught.value.position == 0


@given(st.text(st.characters()) | st.integers(), st.integers(0))
def test_an_id_is_kept_to_the_letter(value, position):
    assert own_id({"id": value}, position=position) == str(value)
    assert own_id({"key": value}, position=position, id_field="key") == str(value)


def test_two_items_with_one_id_are_refused_with_both_positions():
    with pytest.raises(gm.DuplicateIdError, match=r"id '1' at position 1 is already used at position 0") as caught:
        gm.batch(lambda item: item, [{"id": 1}, {"id": "1"}])
    assert caught.value.position == 1
    assert caught.value.report.summary() == "1/2 items succeeded, 1 pending"


@pytest.mark.parametrize(("length", "shown"), [(80, "x" * 80), (81, "x" * 79 + "…"), (10_000, "x" * 79 + "…")])
def test_a_long_id_is_cut_in_the_message(length, shown):
    with pytest.raises(gm.DuplicateIdError, match=f"id '{shown}' at position 1"):
        gm.batch(lambda item: item, [{"id": "x" * length}] * 2)
