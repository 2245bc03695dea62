"""What model calls cost: prices from the settings or the price table, applied to the reported usage."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import msgspec

from graphmill.core.money import to_nano
from graphmill.core.usage import Usage
from graphmill.graph.models.price_table import TablePrice, find_table_price, is_in_no_table

PER_TOKENS = 1_000_000
_KEPT_S = 60  # prices may depend on the time of day
_BILLED_APART = frozenset(
    {"audio", "mcp_servers", "modalities", "plugins", "search_parameters", "tools", "web_search_options"}
)


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
        plain = usage.input_tokens - usage.cached_tokens - usage.cache_written_tokens - usage.image_tokens
        total = (
            max(0, plain) * rates.input
            + usage.output_tokens * rates.output
            + usage.cached_tokens * rates.cached_input
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


class Dearest(NamedTuple):
    """A model's rates, one of which applies to a call, and the size of its context in tokens."""

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
        self._dearest: dict[str, tuple[float, Dearest | None]] = {}

    def rates(self, address: str, served: str = "", tier: str = "") -> Rates | None:
        """Return the current prices at an address for this model, or another of this name; None if unknown."""
        key, now = (address, served, tier), time.time()
        found = self._found.get(key)
        if found is None or found[0] <= now:
            found = self._found[key] = (now + _KEPT_S, self._look_up(address, served, tier, now))
        return found[1]

    @property
    def costs_nothing(self) -> bool:
        """Whether its calls are free, and the settings do not say otherwise."""
        return self._is_free and not self._own

    def is_known(self, address: str) -> bool:
        """Whether its calls have a price, or cost nothing."""
        return self._is_free or self.rates(address) is not None

    def price(self, usage: Usage, address: str, *, served: str = "", tier: str = "", extra: Mapping[str, Any]) -> Usage:
        """Return a request's usage with its cost. A cost that the provider reports stays, as does an unknown one."""
        if usage.reported or not usage.requests or not usage.tokens:
            return usage
        if not usage.unpriced and not self._own:  # it costs nothing
            return usage
        rates = self.rates(address, served, tier)
        if rates is None:
            return usage
        more = int(not self._own and bills_apart(extra))
        return msgspec.structs.replace(usage, cost_nano=rates.cost_nano(usage), unpriced=more)

    def most_nano(self, address: str, input_tokens: int, output_tokens: int | None) -> int | None:
        """Return the most that one call can cost; None if unknown. Without a limit an answer may fill the context."""
        if self.costs_nothing:
            return 0
        now = time.time()
        found = self._dearest.get(address)
        if found is None or found[0] <= now:
            found = self._dearest[address] = (now + _KEPT_S, self._look_up_dearest(address, now))
        dearest = found[1]
        if dearest is None:
            return None
        most_output = dearest.context_window if output_tokens is None else output_tokens
        if most_output is None:
            return None
        return max(rates.most_nano(input_tokens, most_output) for rates in dearest.variants)

    def _look_up_dearest(self, address: str, now: float) -> Dearest | None:
        if self._own:
            rates = self._look_up(address, "", "", now)
            return None if rates is None else Dearest((rates,), None)
        found = None if is_in_no_table(address) else find_table_price(self._protocol, address, self._model)
        return None if found is None else Dearest(tuple(map(rates_of, found.variants)), found.context_window)

    def _look_up(self, address: str, served: str, tier: str, now: float) -> Rates | None:
        if self._own:
            today = datetime.fromtimestamp(now, UTC).date()
            begun = [own for own in self._own if own.since <= today]
            return begun[-1].rates if begun else None
        if is_in_no_table(address):
            return None
        for name in dict.fromkeys((self._model, served)):
            found = find_table_price(self._protocol, address, name, tier) if name else None
            if found is not None:
                return rates_of(found.prices)
        return None


def rates_of(prices: TablePrice) -> Rates:
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


def bills_apart(extra: Mapping[str, Any]) -> bool:
    """Whether a request asks for more than tokens, such as searches, at a price that its usage does not tell."""
    return not _BILLED_APART.isdisjoint(extra)
