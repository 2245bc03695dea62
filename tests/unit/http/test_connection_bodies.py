import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.http.connection import Decoder
from graphmill.http.faults import HttpError, ResponseTooLargeError


def decoded(encoding, body, sizes, most=10**7):
    decoder, at = Decoder(encoding, most), 0
    for size in [*sizes, len(body)]:
        for _ in decoder.feed(body[at : at + size]):
            pass
        at += size
    return decoder.finish()


packers = st.sampled_from(
    [
        ("", bytes),
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda data: zlib.compress(data)[2:-4]),
    ]
)


@given(packers, st.binary(max_size=200), st.integers(1, 20_000), st.lists(st.integers(1, 50), max_size=20))
def test_a_body_is_decoded_however_it_is_cut_into_pieces(packer, data, times, sizes):
    name, pack = packer
    data *= times
    assert decoded(name, pack(data), sizes) == data


@given(packers, st.binary(min_size=1, max_size=200), st.data())
def test_a_body_that_lacks_its_end_is_never_taken_for_a_whole_one(packer, data, draw):
    name, pack = packer
    if not name:
        return
    body = pack(data)
    cut = draw.draw(st.integers(1, len(body) - 1))
    with pytest.raises(HttpError):
        decoded(name, body[:cut], [])


@given(st.integers(1, 3_000_000), st.integers(0, 3_000_000))
def test_no_more_is_decoded_than_allowed(most, size):
    body = gzip.compress(b"\0" * size, 1)
    if size <= most:
        assert len(decoded("gzip", body, [], most)) == size
    else:
        with pytest.raises(ResponseTooLargeError, match=f"larger than {most:,} bytes"):
            decoded("gzip", body, [], most)


@given(st.binary(max_size=100))
def test_what_follows_the_end_is_a_further_member_or_damage(more):
    body = gzip.compress(b"abc")
    assert decoded("gzip", body + gzip.compress(more), []) == b"abc" + more
    if more:
        with pytest.raises(HttpError):
            decoded("gzip", body + b"\x01" + more, [])
