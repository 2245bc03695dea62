"""Usage of an attempt, a step or a run, in tokens and money, and the rate limits that providers report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from types import MappingProxyType
from typing import Any

import msgspec

from graphmill.core.suggest import suggestion

NANO = 1_000_000_000
MOST_USD = 1_000_000_000


class Usage(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Counts that add up with ``+``. ``cost_nano`` is the known cost, ``unpriced`` counts requests without one.

    ``reused`` counts answers from Graphmill's cache, which cost nothing and saved ``saved_nano``. ``reported`` counts
    the requests whose cost the provider itself reported. ``reasoning_tokens`` are part of the output's;
    ``cached_tokens`` (read from a provider's cache), ``cache_written_tokens`` and ``image_tokens`` are part of the
    input's. ``lost_nano`` is what requests whose answer was lost may have cost at most; only a budget counts it.
    ``sum(usages, NO_USAGE)`` adds them all up. Money is in whole nano-dollars.
    """

    requests: int = 0
    reused: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    cache_written_tokens: int = 0
    image_tokens: int = 0
    unpriced: int = 0
    reported: int = 0
    cost_nano: int = 0
    saved_nano: int = 0
    lost_nano: int = 0

    def __post_init__(self) -> None:
        counts = (
            self.requests,
            self.reused,
            self.input_tokens,
            self.output_tokens,
            self.reasoning_tokens,
            self.cached_tokens,
            self.cache_written_tokens,
            self.image_tokens,
            self.unpriced,
            self.reported,
            self.cost_nano,
            self.saved_nano,
            self.lost_nano,
        )
        if set(map(type, counts)) != _WHOLE or min(counts) < 0:
            name, count = next(
                pair
                for pair in zip(self.__struct_fields__, counts, strict=True)
                if type(pair[1]) is not int or pair[1] < 0
            )
            raise ValueError(f"{name} must be an integer >= 0, got {count!r:.80}")

    def __add__(self, other: Usage) -> Usage:
        if not isinstance(other, Usage):
            return NotImplemented
        return Usage(
            requests=self.requests + other.requests,
            reused=self.reused + other.reused,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_written_tokens=self.cache_written_tokens + other.cache_written_tokens,
            image_tokens=self.image_tokens + other.image_tokens,
            unpriced=self.unpriced + other.unpriced,
            reported=self.reported + other.reported,
            cost_nano=self.cost_nano + other.cost_nano,
            saved_nano=self.saved_nano + other.saved_nano,
            lost_nano=self.lost_nano + other.lost_nano,
        )

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens

    @property
    def counts(self) -> dict[str, int]:
        """All counts, without the cost."""
        counts = msgspec.structs.asdict(self)
        del counts["cost_nano"]
        return counts

    def to_json(self) -> dict[str, Any]:
        """Return it as data, with money in dollars."""
        return {**counts_json(self.counts), "cost_usd": cost_usd(self.cost_nano, self.unpriced)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Usage:
        """Read what ``to_json`` returned; ValueError for an unknown key."""
        for name in data:
            if name not in _KEYS:
                raise ValueError(f"a usage has no {name!r}{suggestion(str(name), _KEYS)}; it has {', '.join(_KEYS)}")
        read = {**data}
        for name in ("cost", "saved", "lost"):
            usd = read.pop(f"{name}_usd", None)
            if usd is not None:
                read[f"{name}_nano"] = _nano(f"{name}_usd", usd)
        return cls(**read)


def _nano(name: str, usd: Any) -> int:
    try:
        return to_nano(usd)
    except ValueError:
        raise ValueError(f"{name} must be a number >= 0, or null if it is unknown, got {usd!r:.80}") from None


def to_usd(nano: int) -> float:
    """Return dollars, for JSON. Every digit is exact up to four million dollars."""
    return nano / NANO


def cost_usd(cost_nano: int, unpriced: int) -> float | None:
    """Return a known cost in dollars; None if no cost is known, which is not nothing."""
    if unpriced and not cost_nano:
        return None
    return to_usd(cost_nano)


def counts_json(counts: Mapping[str, int]) -> dict[str, Any]:
    """Return counts as data, with money in dollars."""
    data: dict[str, Any] = {**counts}
    for name in ("saved", "lost"):
        data[f"{name}_usd"] = to_usd(data.pop(f"{name}_nano", 0))
    return data


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """One limit: how much is allowed, how much remains, and in how many seconds all of it is back; None if unknown."""

    allowed: int | None = None
    remaining: int | None = None
    reset_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """All limits per minute in one response, ``tokens`` in both directions; ``retry_after_s`` is the wanted wait."""

    requests: RateLimit | None = None
    tokens: RateLimit | None = None
    input_tokens: RateLimit | None = None
    output_tokens: RateLimit | None = None
    retry_after_s: float | None = None


def add_usage(used: Usage | None, more: Usage | None) -> Usage | None:
    """Add two usages; None is no usage."""
    if used is None:
        return more
    if more is None:
        return used
    return used + more


def add_by_model(used: Mapping[str, Usage], *more: Mapping[str, Usage]) -> Mapping[str, Usage]:
    """Add up usages by model."""
    sums = dict(used)
    for each in more:
        for model, usage in each.items():
            sums[model] = sums[model] + usage if model in sums else usage
    return sums


_APART = "\t"


def spender(model: str, role: str = "", node: str = "") -> str:
    """Name who used something, in one text: the model, and the role and node that called it, if any."""
    return f"{model}{_APART}{role}{_APART}{node}" if role or node else model


def model_of(spender_name: str) -> str:
    """Return the model in such a name."""
    return spender_name.partition(_APART)[0]


class RunUsage(dict[str, Usage]):
    """Usage of a run by model; ``roles``, ``nodes`` and ``callers`` are the same by who called them, if known."""

    __slots__ = ("_spent",)

    def __init__(self, spent: Mapping[str, Usage] = MappingProxyType({})) -> None:
        super().__init__(_summed(spent, 0))
        self._spent = spent

    @property
    def roles(self) -> dict[str, Usage]:
        """Usage by the role of the nodes that called models."""
        found = _summed(self._spent, 1)
        found.pop("", None)
        return found

    @property
    def nodes(self) -> dict[str, Usage]:
        """Usage by node: its path, without rounds and items."""
        found = _summed(self._spent, 2)
        found.pop("", None)
        return found

    def with_spent(self, more: Mapping[str, Usage]) -> RunUsage:
        """Return it with more, which is named as by ``spender``."""
        return RunUsage(add_by_model(self._spent, more))

    @property
    def callers(self) -> dict[tuple[str, str], Usage]:
        """Usage by who called which model: its role, or else its node."""
        sums: dict[tuple[str, str], Usage] = {}
        for name, usage in self._spent.items():
            model, role, node = (*name.split(_APART), "", "")[:3]
            key = role or node, model
            sums[key] = sums[key] + usage if key in sums else usage
        return sums


def _summed(spent: Mapping[str, Usage], part: int) -> dict[str, Usage]:
    sums: dict[str, Usage] = {}
    for name, usage in spent.items():
        key = (*name.split(_APART), "", "")[part]
        sums[key] = sums[key] + usage if key in sums else usage
    return sums


def with_lost(used: RunUsage, held_nano: int) -> RunUsage:
    """Add what calls may have cost that were in flight when a process died that counted so much as spent."""
    lost_nano = held_nano - spent_nano(used)
    return used.with_spent({"": Usage(lost_nano=lost_nano)}) if lost_nano > 0 else used


def spent_nano(used: Mapping[str, Usage]) -> int:
    """Return what counts against a budget: known costs, and what lost answers may have cost."""
    total = sum(used.values(), NO_USAGE)
    return total.cost_nano + total.lost_nano


_WHOLE = {int}
_KEYS = (*(name for name in Usage.__struct_fields__ if not name.endswith("_nano")), "cost_usd", "saved_usd", "lost_usd")
NO_USAGE = Usage()
LOST = Usage(requests=1, unpriced=1)  # a request whose answer, and so its cost, is not known


def money_text(nano: int) -> str:
    """Write an amount: '$1,204.10', '$0.84', and below ten cents with two significant digits: '$0.0063'."""
    if nano == 0:
        return "$0"
    places = Decimal("0.01")
    amount = Decimal(nano) / NANO
    if nano < NANO // 10:
        places = Decimal(1).scaleb(amount.adjusted() - 1)
    text = f"{amount.quantize(places, ROUND_HALF_EVEN):,f}"
    whole, _, cents = text.partition(".")
    return f"${whole}.{cents.rstrip('0').ljust(2, '0')}"


def cost_text(cost_nano: int, unpriced: int) -> str:
    """Write a known cost and the requests without one: '$0.31 + 12 requests of unknown cost'; "" for nothing."""
    parts = []
    if cost_nano:
        parts.append(money_text(cost_nano))
    if unpriced:
        parts.append(f"{unpriced:,} {'request' if unpriced == 1 else 'requests'} of unknown cost")
    return " + ".join(parts)


def lost_text(lost_nano: int) -> str:
    """Write what lost answers may have cost: 'up to $0.05 for lost answers'; "" for nothing."""
    return f"up to {money_text(lost_nano)} for lost answers" if lost_nano else ""


def to_nano(usd: float | Decimal) -> int:
    """Return whole nano-dollars; ValueError for what is no amount, or above all that anything costs."""
    if isinstance(usd, bool) or not isinstance(usd, int | float | Decimal) or not 0 <= usd <= MOST_USD:
        raise ValueError(f"an amount must be a number from 0 to {MOST_USD:,}, got {usd!r:.80}")
    return int((Decimal(str(usd)) * NANO).to_integral_value(ROUND_HALF_EVEN))
