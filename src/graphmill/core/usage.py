"""Usage of an attempt, a step or a run, in tokens and money, and the rate limits that providers report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from graphmill.core.suggest import suggestion


class Usage(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Counts that add up with ``+``. A cost of None is unknown, and so is every sum with it.

    ``reused`` counts answers from Graphmill's cache, which cost nothing. ``reasoning_tokens`` are part of the output's;
    ``cached_tokens`` (read from a provider's cache), ``cache_written_tokens`` and ``image_tokens`` are part of the
    input's.
    ``sum(usages, NO_USAGE)`` adds them all up.
    """

    requests: int = 0
    reused: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    cache_written_tokens: int = 0
    image_tokens: int = 0
    cost_usd: float | None = None

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
        )
        if set(map(type, counts)) != _WHOLE or min(counts) < 0:
            name, count = next(
                pair for pair in zip(_COUNTS, counts, strict=True) if type(pair[1]) is not int or pair[1] < 0
            )
            raise ValueError(f"{name} must be an integer >= 0, got {count!r:.80}")
        cost = self.cost_usd
        if cost is not None and (type(cost) not in (int, float) or not 0 <= cost < float("inf")):
            raise ValueError(f"cost_usd must be a number >= 0, or None if it is unknown, got {cost!r:.80}")

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
            cost_usd=None if self.cost_usd is None or other.cost_usd is None else self.cost_usd + other.cost_usd,
        )

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens

    @property
    def counts(self) -> dict[str, int]:
        """All counts, without the cost."""
        counts = msgspec.structs.asdict(self)
        del counts["cost_usd"]
        return counts

    def to_json(self) -> dict[str, Any]:
        """Return it as data."""
        return msgspec.structs.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Usage:
        """Read what ``to_json`` returned; ValueError for an unknown key."""
        known = (*_COUNTS, "cost_usd")
        for name in data:
            if name not in known:
                raise ValueError(f"a usage has no {name!r}{suggestion(str(name), known)}; it has {', '.join(known)}")
        return cls(**data)


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


_WHOLE = {int}
_COUNTS = tuple(name for name in Usage.__struct_fields__ if name != "cost_usd")
NO_USAGE = Usage(cost_usd=0.0)
REUSED = Usage(reused=1, cost_usd=0.0)
