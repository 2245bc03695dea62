import json
import pickle
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.json import to_json
from graphmill.core.usage import NO_USAGE, Usage, cost_text, money_text, to_nano, to_usd

counts = st.integers(0, 10**12)
usages = st.builds(Usage, **dict.fromkeys(Usage.__struct_fields__, counts))


def test_usages_add_up():
    first = Usage(
        requests=1, input_tokens=10, output_tokens=5, reasoning_tokens=2, cached_tokens=3, cost_nano=500_000_000
    )
    second = Usage(requests=2, input_tokens=1, cost_nano=250_000_000)
    whole = Usage(
        requests=3, input_tokens=11, output_tokens=5, reasoning_tokens=2, cached_tokens=3, cost_nano=750_000_000
    )
    assert first + second == whole
    assert sum([first, second], NO_USAGE) == whole


def test_an_unknown_cost_is_counted_beside_the_known_sum():
    known, unknown = Usage(requests=1, cost_nano=1_000_000_000), Usage(requests=1, unpriced=1)
    assert known + unknown == Usage(requests=2, unpriced=1, cost_nano=1_000_000_000)


def test_an_unknown_cost_is_null_and_not_zero():
    assert Usage(requests=1, unpriced=1).to_json()["cost_usd"] is None
    assert Usage(requests=1).to_json()["cost_usd"] == 0


@given(usages, usages, usages)
def test_the_order_of_a_sum_does_not_matter(first, second, third):
    assert first + second == second + first
    assert (first + second) + third == first + (second + third)
    assert first + NO_USAGE == first


@given(usages)
def test_a_usage_goes_through_json_and_pickle(usage):
    assert Usage.from_json(usage.to_json()) == usage
    assert pickle.loads(pickle.dumps(usage)) == usage
    assert json.loads(to_json(usage)) == usage.to_json()


def test_what_a_row_of_an_older_version_lacks_is_nothing():
    assert Usage.from_json({"requests": 1}) == Usage(requests=1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"input_token": 1}, r"a usage has no 'input_token' \(did you mean 'input_tokens'\?\); it has requests, "),
        ({"requests": -1}, "requests must be an integer >= 0, got -1"),
        ({"requests": 1.5}, "requests must be an integer >= 0, got 1.5"),
        ({"requests": True}, "requests must be an integer >= 0, got True"),
        ({"cost_usd": "1"}, "cost_usd must be a number >= 0, or null if it is unknown, got '1'"),
        ({"cost_usd": float("nan")}, "cost_usd must be"),
        ({"cost_usd": -0.1}, "cost_usd must be"),
    ],
)
def test_what_is_no_usage_is_refused(data, message):
    with pytest.raises(ValueError, match=message):
        Usage.from_json(data)


def test_only_usages_are_added():
    with pytest.raises(TypeError):
        Usage() + 1


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
    assert cost_text(310_000_000, 12) == "$0.31 + 12 requests of unknown cost"
    assert cost_text(0, 1) == "1 request of unknown cost"
    assert cost_text(0, 0) == ""


@given(st.integers(0, 4 * 10**15))
def test_dollars_in_json_lose_no_nano(nano):
    assert to_nano(to_usd(nano)) == nano


@pytest.mark.parametrize("amount", [-1, float("nan"), float("inf"), True, "1", None])
def test_what_is_no_amount_is_refused(amount):
    with pytest.raises(ValueError, match="must be a number from 0 to"):
        to_nano(amount)
