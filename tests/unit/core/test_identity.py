import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphmill as gm
from graphmill.core.identity import own_id


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
        ({"id": "x", "name": 1}, "position 0 has no id: its field 'isbn' is not there; it has 'id', 'name'"),
        (
            dict.fromkeys("abcdefghijklm"),
            "it has 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'; give it one, or name another field$",
        ),
        ({"isbn": None}, "its field 'isbn' is None, neither text nor a whole number"),
        ({"isbn": True}, "its field 'isbn' is True, neither"),
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
    assert caught.value.report.summary() == "1/2 items succeeded, 1 not reached"


@pytest.mark.parametrize(("length", "shown"), [(80, "x" * 80), (81, "x" * 79 + "…"), (10_000, "x" * 79 + "…")])
def test_a_long_id_is_cut_in_the_message(length, shown):
    with pytest.raises(gm.DuplicateIdError, match=f"id '{shown}' at position 1"):
        gm.batch(lambda item: item, [{"id": "x" * length}] * 2)
