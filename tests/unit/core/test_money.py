from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.money import cost_text, money_text, to_nano
from graphmill.core.usage import to_usd


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (0, "$0"),
        ("0.84", "$0.84"),
        ("0.0063", "$0.0063"),
        ("0.006", "$0.006"),
        ("0.05", "$0.05"),
        ("0.0996", "$0.10"),
        ("0.099", "$0.099"),
        ("0.00000123", "$0.0000012"),
        ("0.000000001", "$0.000000001"),
        ("1204.1", "$1,204.10"),
        ("0.999", "$1.00"),
        ("1234567.891", "$1,234,567.89"),
    ],
)
def test_an_amount_is_written_to_the_cent_and_a_small_one_to_two_digits(usd, text):
    assert money_text(to_nano(Decimal(usd))) == text


def test_what_has_no_price_stands_beside_the_sum():
    assert cost_text(310_000_000, 12) == "$0.31 + 12 requests without a price"
    assert cost_text(0, 1) == "1 request without a price"
    assert cost_text(0, 0) == ""


@given(st.integers(0, 4 * 10**15))
def test_dollars_in_json_lose_no_nano(nano):
    assert to_nano(to_usd(nano)) == nano


@pytest.mark.parametrize("amount", [-1, float("nan"), float("inf"), True, "1", None])
def test_what_is_no_amount_is_refused(amount):
    with pytest.raises(ValueError, match="must be a number >= 0"):
        to_nano(amount)
