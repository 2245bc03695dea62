from copy import deepcopy
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

import graphmill as gm
from graphmill.core.fresh import fresh

containers = st.recursive(
    st.integers() | st.text(max_size=3) | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.tuples(inner, inner)
        | st.sets(st.integers(), max_size=3)
    ),
    max_leaves=12,
)


def spoil(value):
    """Change everything in a value that can be changed."""
    if isinstance(value, dict):
        for entry in value.values():
            spoil(entry)
        value["spoilt"] = True
    elif isinstance(value, list | tuple):
        for entry in value:
            spoil(entry)
        if isinstance(value, list):
            value.append("spoilt")
    elif isinstance(value, set):
        value.add("spoilt")


def types_in(value):
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return (type(value), [types_in(entry) for entry in entries])


@given(containers)
def test_a_fresh_value_is_equal_and_of_the_same_types(value):
    assert fresh(value) == value
    assert types_in(fresh(value)) == types_in(value)


@given(containers)
def test_what_is_done_to_a_fresh_value_does_not_show_in_the_first(value):
    before = deepcopy(value)
    spoil(fresh(value))
    assert value == before


def test_other_objects_are_passed_on_as_they_are():
    @dataclass
    class Handle:
        number: int

    handle = Handle(1)
    assert fresh([{"handle": handle}])[0]["handle"] is handle


def test_a_function_that_changes_its_item_changes_only_its_own_copy():
    def greedy(item):
        item["list"].append(1)
        item["tuple"][0].clear()
        item["set"].add(2)
        item.clear()

    items = [{"list": [], "tuple": (["kept"],), "set": {1}}]
    (result,) = gm.batch(greedy, items).results()
    assert result.is_success
    assert result.input == items[0] == {"list": [], "tuple": (["kept"],), "set": {1}}
