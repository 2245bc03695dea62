import pytest

from graphmill.core.result import Kind, Status
from graphmill.core.usage import Usage
from graphmill.journal.records import RunState
from graphmill.journal.sqlite.rows import (
    HEAD,
    KIND_CODES,
    SELDOM,
    STATE_CODES,
    STATUS_CODES,
    alike,
    decode_result,
    digest_of,
    encode_result,
    seal_of,
)
from support.journal_rows import failed, result

_COLUMNS = 19  # of a result, without its row number


def test_the_digest_of_a_row_is_the_same_in_every_python():
    row = (1, b"key", 2**40, -1, 0.1, None, ("\ud800", b"", -(2**63)))
    assert digest_of(row).hex() == "c56b077a8bec67d896bd021124c4aa77"
    assert seal_of(row) == 2667524157


def test_every_word_has_a_number_of_its_own():
    assert set(STATUS_CODES) == set(Status)
    assert set(KIND_CODES) == {None, *Kind}
    assert {status.state for status in STATE_CODES} == set(RunState)
    for codes in (STATUS_CODES, KIND_CODES, STATE_CODES):
        assert len(set(codes.values())) == len(codes)


def test_the_numbers_that_were_ever_written_keep_their_meaning():
    assert [STATUS_CODES[Status(word)] for word in ("succeeded", "failed", "timed_out", "cancelled", "waiting")] == [
        1,
        2,
        3,
        4,
        5,
    ]
    kinds = (
        "throttled",
        "unavailable",
        "transient",
        "permanent",
        "timeout",
        "crash",
        "ambiguous",
        "cancelled",
        "paused",
    )
    assert [KIND_CODES[Kind(word)] for word in kinds] == list(range(1, 10))


def test_a_row_comes_back_as_it_was_and_whole_seconds_and_minus_nought_do_too():
    for row in (
        result("a", 5, queued_s=0, duration_s=-0.0),
        failed("\ud800", -1),
        result("", 2**62, output=b'"' + b"x" * 9000 + b'"'),
    ):
        assert decode_result(_stored(7, row, 12.5)) == (row, 12.5)


def test_long_bodies_are_kept_compressed_unless_that_makes_them_longer():
    stored = _stored(1, result(input=b'"' + b"x" * 5000 + b'"', output=b"[]"), 0.0)
    assert len(stored[-5]) < 100
    assert stored[-5][:1] == b"x"
    assert stored[-4] == b"[]"


@pytest.mark.parametrize("spent", [None, {"own/m": Usage(requests=1, input_tokens=7)}])
def test_any_changed_value_of_a_row_is_noticed(spent):
    stored = _stored(1, failed("a", 3, input=b'"' + b"x" * 5000 + b'"', spent=spent), 1.0)
    for place, value in enumerate(stored):
        for other in _others(value):
            assert decode_result((*stored[:place], other, *stored[place + 1 :])) is None, place


def test_any_changed_value_of_a_head_is_noticed_without_the_bodies():
    head = _stored(1, failed("a", 3), 1.0)[:HEAD]
    for place, value in enumerate(head):
        for other in _others(value):
            assert seal_of((*head[:place], other, *head[place + 1 :])) != seal_of(head)


def test_results_that_go_into_one_statement_have_the_same_columns_and_no_more_than_one_of_them_needs():
    usual, whole = encode_result(1, result("a", 1), 1.0), encode_result(1, failed("b", 2), 1.0)
    assert len(whole) == len(usual) + SELDOM
    assert alike([usual, usual]) == [usual, usual]
    assert alike([usual, whole]) == [usual + (None,) * SELDOM, whole]
    assert alike([whole]) == [whole]


def _stored(run, row, at):
    """Give a row as the database gives it back."""
    values = encode_result(run, row, at)
    return tuple(bytes(value) if isinstance(value, bytearray) else value for value in values) + (None,) * (
        _COLUMNS - len(values)
    )


def _others(value):
    if isinstance(value, bytes):
        return [
            value[:place] + bytes([value[place] ^ 1 << bit]) + value[place + 1 :]
            for place in range(len(value))
            for bit in range(8)
        ]
    if value is None:
        return [0, b""]
    return [None, value + 1, -value - 1, value + 256]
