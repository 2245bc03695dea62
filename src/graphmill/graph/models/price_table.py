"""The price table: the adapter of ``genai-prices``, which is imported when the first price is looked up."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from graphmill.core.money import to_nano

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

PACKAGE = "genai-prices"
# Nano-dollars of a million tokens (of one request for "request"), by the number of input tokens above which they hold.
TablePrice = Mapping[str, Mapping[int, int]]

_PROVIDERS = {"gemini": "google"}
_NAMES = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cached_input",
    "cache_write_mtok": "cache_write",
    "input_image_mtok": "image",
}
_COUNTED_APART = ("output_reasoning_mtok", "output_citation_mtok", "input_mchars")  # not by what a response says
_REQUESTS = "requests_kcount"
_USUAL_TIERS = frozenset({"", "auto", "default", "none", "on_demand", "standard"})
_TIER = "service_tier"


class TableEntry(NamedTuple):
    """A model of the table: its prices in a service tier, those in all tiers, and its context window in tokens."""

    prices: TablePrice
    variants: tuple[TablePrice, ...]
    context_window: int | None


def is_in_no_table(address: str) -> bool:
    """Whether prices at an address cannot be known: local ones, or no URL; "" is the provider's own."""
    if not address:
        return False
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return True
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith((".local", ".localhost", ".internal"))


def find_table_price(protocol: str, address: str, model: str, tier: str = "") -> TableEntry | None:
    """Return what a model costs at an address now; None if the table does not know it, or not in this service tier."""
    found = _find_model(protocol, address, model)
    if found is None:
        return None
    now, tier = datetime.now(UTC), tier.lower()
    known = _tiers(found)
    if tier not in _USUAL_TIERS and tier not in known:
        return None
    context = {_TIER: tier} if tier in known else None
    variants = [_prices(found.get_prices(now, {_TIER: each})) for each in sorted(known)]
    prices = _prices(found.get_prices(now, context))
    is_by_tokens = "input" in prices or "output" in prices
    if not is_by_tokens or any(getattr(found.get_prices(now), name) is not None for name in _COUNTED_APART):
        return None
    return TableEntry(prices, (_prices(found.get_prices(now)), *variants), found.context_window)


@cache
def _find_model(protocol: str, address: str, model: str) -> ModelInfo | None:
    from genai_prices import Usage, calc_price  # noqa: PLC0415  250 ms

    for given in _places(protocol, address):
        try:
            return calc_price(Usage(), model, **given).model
        except LookupError:
            continue
    return None


def _places(protocol: str, address: str) -> Iterator[dict[str, Any]]:
    """Name the provider by its address; only where that is the protocol's own is it known without."""
    if address:
        yield {"provider_api_url": address}
    host = urlsplit(address).hostname or ""
    provider = _PROVIDERS.get(protocol, protocol)
    if not address or host.endswith((f".{protocol}.com", "googleapis.com")):
        yield {"provider_id": provider}


def _tiers(model: ModelInfo) -> set[str]:
    return {variant.when[_TIER] for variant in model.price_variants or () if set(variant.when) == {_TIER}}


def _prices(found: ModelPrice) -> TablePrice:
    prices = {name: _by_start(price) for key, name in _NAMES.items() if (price := getattr(found, key)) is not None}
    per_thousand = getattr(found, _REQUESTS)
    if per_thousand is not None:
        prices["request"] = {start: nano // 1000 for start, nano in _by_start(per_thousand).items()}
    return prices


def _by_start(price: Any) -> dict[int, int]:
    if isinstance(price, Decimal):
        return {0: to_nano(price)}
    return {0: to_nano(price.base), **{tier.start: to_nano(tier.price) for tier in price.tiers}}
