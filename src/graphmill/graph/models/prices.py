"""What model calls cost: prices from the settings or the table of ``genai-prices``, applied to the reported usage."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from graphmill.core.usage import Usage, to_nano

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice


PER_TOKENS = 1_000_000
_KEPT_S = 60  # prices may depend on the time of day
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
_SEARCHING = ("-search", "deep-research")  # in the names of models that search by themselves
_BILLED_APART = frozenset(
    {"audio", "mcp_servers", "modalities", "plugins", "search_parameters", "tools", "web_search_options"}
)


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
    found = None if is_in_no_table(address) else _find_model(protocol, address, model)
    if found is None:
        return None
    now, tier = datetime.now(UTC), tier.lower()
    known = _tiers(found)
    if tier not in _USUAL_TIERS and tier not in known:
        return None
    context = {_TIER: tier} if tier in known else None
    usual = found.get_prices(now)
    variants = [usual, *(found.get_prices(now, {_TIER: each}) for each in sorted(known))]
    prices = _prices(found.get_prices(now, context))
    is_by_tokens = "input" in prices or "output" in prices
    if not is_by_tokens or any(getattr(usual, name) is not None for name in _COUNTED_APART):
        return None
    return TableEntry(_rates(prices), tuple(_rates(_prices(each)) for each in variants), found.context_window)


@cache
def _find_model(protocol: str, address: str, model: str) -> ModelInfo | None:
    from genai_prices import Usage, calc_price  # noqa: PLC0415  250 ms, spent at the first look-up

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


class Rates(NamedTuple):
    """Prices in nano-dollars per million tokens and per request; a tier applies above its input tokens."""

    input: int = 0
    output: int = 0
    cached_input: int = 0
    cache_write: int = 0
    image: int = 0
    request: int = 0
    tiers: tuple[tuple[int, Rates], ...] = ()

    def cost_nano(self, usage: Usage) -> int:
        """Return what a request cost that used this."""
        rates = self._at(usage.input_tokens)
        cached = min(usage.cached_tokens, usage.input_tokens)
        plain = usage.input_tokens - cached - usage.cache_written_tokens - usage.image_tokens
        total = (
            max(0, plain) * rates.input
            + usage.output_tokens * rates.output
            + cached * rates.cached_input
            + usage.cache_written_tokens * rates.cache_write
            + usage.image_tokens * rates.image
        )
        return (total + PER_TOKENS // 2) // PER_TOKENS + usage.requests * rates.request

    def most_nano(self, input_tokens: int, output_tokens: int) -> int:
        """Return the most that a request with at most so many tokens can cost."""
        found = 0
        for rates in (self, *(rates for start, rates in self.tiers if input_tokens > start)):
            dearest = max(rates.input, rates.cached_input, rates.cache_write, rates.image)
            total = input_tokens * dearest + output_tokens * rates.output
            found = max(found, -(-total // PER_TOKENS) + rates.request)
        return found

    def _at(self, input_tokens: int) -> Rates:
        for start, rates in reversed(self.tiers):
            if input_tokens > start:
                return rates
        return self


class OwnPrice(NamedTuple):
    """A price from the settings, and the day from which it holds."""

    since: date
    rates: Rates

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> OwnPrice:
        """Make one of what the settings say, in dollars; ValueError for a wrong date."""
        per_input = found["input"]
        amounts = {
            "input": per_input,
            "output": found["output"],
            "cached_input": found.get("cached_input", per_input),
            "cache_write": found.get("cache_write", per_input),
            "image": per_input,
            "request": found.get("request", 0),
        }
        nano: dict[str, Any] = {name: to_nano(usd) for name, usd in amounts.items()}
        return cls(_day(found.get("since")), Rates(**nano))


def _day(written: Any) -> date:
    if written is None:
        return date.min
    if isinstance(written, datetime):
        return written.date()
    return written if isinstance(written, date) else date.fromisoformat(str(written))


class TableEntry(NamedTuple):
    """A model's rates in a service tier, those in all tiers, and its context window in tokens."""

    rates: Rates
    variants: tuple[Rates, ...]
    context_window: int | None


class ModelPrices:
    """The prices of one model of one provider: its own from the settings, oldest first, or the table's."""

    def __init__(self, protocol: str, model: str, own: Sequence[OwnPrice] = (), *, is_free: bool = False) -> None:
        self._protocol = protocol
        self._model = model
        self._own = sorted(own)
        self._is_free = is_free
        self._found: dict[tuple[str, str, str], tuple[float, Rates | None]] = {}
        self._entries: dict[str, tuple[float, TableEntry | None]] = {}

    def rates(self, address: str, served: str = "", tier: str = "") -> Rates | None:
        """Return the current prices at an address for this model, or another of this name; None if unknown."""
        key, now = (address, served, tier), time.time()
        found = self._found.get(key)
        if found is None or found[0] <= now:
            found = self._found[key] = (now + _KEPT_S, self._look_up(address, served, tier, now))
        return found[1]

    @property
    def is_own(self) -> bool:
        """Whether the settings have a price."""
        return bool(self._own)

    @property
    def costs_nothing(self) -> bool:
        """Whether its calls are free, and the settings do not say otherwise."""
        return self._is_free and not self._own

    def is_known(self, address: str) -> bool:
        """Whether its calls have a price, or cost nothing."""
        return self._is_free or self.rates(address) is not None

    def price(self, usage: Usage, address: str, *, served: str = "", tier: str = "", extra: Mapping[str, Any]) -> Usage:
        """Return a request's usage with its cost. A cost that the provider reports stays, as does an unknown one."""
        if self.costs_nothing and usage.unpriced:
            return msgspec.structs.replace(usage, unpriced=0)
        if self.costs_nothing or usage.reported or not usage.tokens:
            return usage
        rates = self.rates(address, served, tier)
        if rates is None:
            return usage
        more = int(not self._own and bills_apart(self._model, extra))
        return msgspec.structs.replace(usage, cost_nano=rates.cost_nano(usage), unpriced=more)

    def most_nano(self, address: str, input_tokens: int, output_tokens: int | None) -> int | None:
        """Return the most that one call can cost; None if unknown. Without a limit an answer may fill the context."""
        if self.costs_nothing:
            return 0
        now = time.time()
        found = self._entries.get(address)
        if found is None or found[0] <= now:
            found = self._entries[address] = (now + _KEPT_S, find_table_price(self._protocol, address, self._model))
        entry, rates = found[1], self.rates(address)
        if rates is None:
            return None
        if output_tokens is None and entry is not None:
            output_tokens = entry.context_window
        if output_tokens is None:
            return None
        if entry is None or self._begun(now) is not None:
            return rates.most_nano(input_tokens, output_tokens)
        return max(each.most_nano(input_tokens, output_tokens) for each in entry.variants)

    def _begun(self, now: float) -> Rates | None:
        """Return the newest price of the settings that holds by now."""
        if not self._own:
            return None
        today = datetime.fromtimestamp(now, UTC).date()
        begun = [own for own in self._own if own.since <= today]
        return begun[-1].rates if begun else None

    def _look_up(self, address: str, served: str, tier: str, now: float) -> Rates | None:
        if (own := self._begun(now)) is not None:
            return own
        for name in dict.fromkeys((self._model, served)):
            found = find_table_price(self._protocol, address, name, tier) if name else None
            if found is not None:
                return found.rates
        return None


def _rates(prices: TablePrice) -> Rates:
    """Return the rates of an entry of the price table, with a rate of its own above each of its thresholds."""
    starts = sorted({start for tiers in prices.values() for start in tiers if start})
    return _rates_at(prices, 0, tuple((start, _rates_at(prices, start)) for start in starts))


def _rates_at(prices: TablePrice, start: int, tiers: tuple[tuple[int, Rates], ...] = ()) -> Rates:
    at = {name: found[max(each for each in found if each <= start)] for name, found in prices.items()}
    per_input = at.get("input", 0)
    return Rates(
        input=per_input,
        output=at.get("output", 0),
        cached_input=at.get("cached_input", per_input),
        cache_write=at.get("cache_write", per_input),
        image=at.get("image", per_input),
        request=at.get("request", 0),
        tiers=tiers,
    )


def bills_apart(model: str, extra: Mapping[str, Any]) -> bool:
    """Whether a request asks for more than tokens, such as searches, at a price that its usage does not tell."""
    return not _BILLED_APART.isdisjoint(extra) or any(part in model for part in _SEARCHING)
