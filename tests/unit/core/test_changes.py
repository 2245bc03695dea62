from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.changes import changed

parts = st.dictionaries(
    st.sampled_from(["node 'a'", "node 'b'", "inputs", "outputs", "order"]), st.sampled_from(["1", "2"])
)


@given(parts)
def test_nothing_is_said_where_nothing_changed(same):
    assert changed(same, dict(reversed(same.items()))) == []


@given(parts, parts)
def test_every_part_that_differs_is_named_once(before, now):
    lines = changed(before, now)
    for part in (before.keys() | now.keys()) - {"order"}:
        expected = [] if before.get(part) == now.get(part) else [part]
        assert [line for line in lines if line.startswith(part)] == [
            line for line in lines if expected and line.startswith(part)
        ]
        assert len([line for line in lines if line.startswith(part)]) == len(expected)
