from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.engine.attempts.processes.worker import VALUE, Incoming, message


@given(st.binary(max_size=200), st.lists(st.integers(1, 200), max_size=10))
def test_a_message_is_whole_when_its_last_piece_is_in_however_it_was_cut(pickled, cuts):
    data = message(VALUE, pickled)
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    incoming = Incoming()
    *early, last = [incoming.add(data[start:stop]) for start, stop in pairwise(edges)]
    assert early == [None] * len(early)
    assert last == (VALUE, pickled)
    assert incoming.add(data) == (VALUE, pickled)


def test_more_than_one_message_at_a_time_is_an_error():
    with pytest.raises(ConnectionError, match="unexpected"):
        Incoming().add(message(VALUE, b"a") * 2)
