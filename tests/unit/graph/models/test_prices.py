"""Prices: of the table, as its own package applies them, and of the settings, by date; what is unknown stays so."""

from datetime import date

import pytest
from genai_prices import Usage as TableUsage
from genai_prices import calc_price

from graphmill.core.usage import Usage
from graphmill.graph.models.prices import ModelPrices, OwnPrice

OPENAI, ANTHROPIC = "https://api.openai.com/v1", "https://api.anthropic.com"
GEMINI = "https://generativelanguage.googleapis.com/v1beta"


def used(input_tokens=1000, output_tokens=200, **more):
    return Usage(requests=1, unpriced=1, input_tokens=input_tokens, output_tokens=output_tokens, **more)


def own(*prices):
    return tuple(OwnPrice.of(price) for price in prices)


@pytest.mark.parametrize(
    ("protocol", "provider", "address", "model"),
    [
        ("openai", "openai", OPENAI, "gpt-5-mini"),
        ("anthropic", "anthropic", ANTHROPIC, "claude-sonnet-4-5"),
        ("gemini", "google", GEMINI, "gemini-2.5-pro"),
        ("openai", "groq", "https://api.groq.com/openai/v1", "llama-3.3-70b-versatile"),
        ("openai", "openrouter", "https://openrouter.ai/api/v1", "openai/gpt-5-mini"),
    ],
)
@pytest.mark.parametrize("tokens", [1000, 250_000])
@pytest.mark.parametrize("tier", ["", "flex", "priority"])
def test_a_price_of_the_table_is_what_its_package_calculates(protocol, provider, address, model, tokens, tier):
    prices = ModelPrices(protocol, model)
    found = prices.price(used(tokens, 333, cached_tokens=tokens // 3), address, tier=tier, extra={})
    if found.unpriced:
        assert tier  # of a tier that the table does not know
        return
    counts = TableUsage(input_tokens=tokens, output_tokens=333, cache_read_tokens=tokens // 3)
    wanted = calc_price(counts, model, provider_id=provider, price_context={"service_tier": tier} if tier else None)
    assert abs(found.cost_nano - int(wanted.total_price * 1_000_000_000)) <= 1
    assert found.cost_nano <= prices.most_nano(address, tokens, 333)


@pytest.mark.parametrize(
    ("address", "model", "tier"),
    [
        (OPENAI, "no-such-model", ""),
        (OPENAI, "gpt-5-mini", "scale"),
        ("http://127.0.0.1:8000/v1", "gpt-5-mini", ""),
        ("http://models.internal/v1", "gpt-5-mini", ""),
        ("https://gateway.example.com/v1", "gpt-5-mini", ""),
    ],
)
def test_what_is_not_known_is_not_guessed(address, model, tier):
    assert ModelPrices("openai", model).price(used(), address, tier=tier, extra={}) == used()


def test_a_request_for_more_than_tokens_has_a_known_part_and_is_still_counted():
    found = ModelPrices("openai", "gpt-5-mini").price(used(), OPENAI, extra={"web_search_options": {}})
    assert (found.cost_nano, found.unpriced) == (650_000, 1)
    assert ModelPrices("openai", "gpt-4o-search-preview").price(used(), OPENAI, extra={}).unpriced == 1


def test_prices_of_the_settings_win_also_over_a_free_provider_and_hold_from_their_day():
    prices = own({"input": 5, "output": 9, "since": date(2999, 1, 1)}, {"input": 2, "output": 10, "request": 0.001})
    expected = 1000 * 2000 + 200 * 10_000 + 1_000_000
    for free in (False, True):
        found = ModelPrices("openai", "gpt-5-mini", prices, is_free=free).price(used(), OPENAI, extra={})
        assert (found.cost_nano, found.unpriced) == (expected, 0)
    assert ModelPrices("openai", "m", prices[:1]).price(used(), OPENAI, extra={}) == used()
    later, table = ModelPrices("openai", "gpt-5-mini", prices[:1]), ModelPrices("openai", "gpt-5-mini")
    assert later.price(used(), OPENAI, extra={}) == table.price(used(), OPENAI, extra={})
    assert later.most_nano(OPENAI, 9, 9) == table.most_nano(OPENAI, 9, 9)


def test_cached_and_written_input_have_prices_of_their_own():
    prices = own({"input": 1, "output": 0, "cached_input": 0.1, "cache_write": 2})
    usage = used(1000, 0, cached_tokens=500, cache_written_tokens=200)
    assert ModelPrices("openai", "m", prices).price(usage, "", extra={}).cost_nano == 300_000 + 50_000 + 400_000
    assert ModelPrices("openai", "m", prices).price(used(9, 0, cached_tokens=10**9), "", extra={}).cost_nano == 900


def test_a_cost_that_the_provider_reports_stays():
    usage = Usage(requests=1, reported=1, cost_nano=7, input_tokens=5, output_tokens=5)
    assert ModelPrices("openai", "gpt-5-mini").price(usage, OPENAI, extra={}) == usage


def test_without_a_limit_an_answer_may_fill_the_context_and_without_a_price_nothing_bounds_it():
    prices = ModelPrices("openai", "gpt-5-mini")
    assert prices.most_nano(OPENAI, 1000, None) > 100 * prices.most_nano(OPENAI, 1000, 1000) > 0
    assert ModelPrices("openai", "no-such-model").most_nano(OPENAI, 10, 10) is None
    assert ModelPrices("openai", "m", own({"input": 1, "output": 1})).most_nano(OPENAI, 10, None) is None
    assert ModelPrices("openai", "gpt-4o", own({"input": 1, "output": 1})).most_nano(OPENAI, 10, None) == 128_010_000
    assert ModelPrices("scripted", "m", is_free=True).most_nano("", 10, None) == 0
