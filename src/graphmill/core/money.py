"""Money in whole nano-dollars, and the one way it is written."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

NANO = 1_000_000_000


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
    """Write a known cost and the requests without one: '$0.31 + 12 requests without a price'; "" for nothing."""
    parts = []
    if cost_nano:
        parts.append(money_text(cost_nano))
    if unpriced:
        parts.append(f"{unpriced:,} {'request' if unpriced == 1 else 'requests'} without a price")
    return " + ".join(parts)


def lost_text(lost_nano: int) -> str:
    """Write what lost answers may have cost: 'up to $0.05 for lost answers'; "" for nothing."""
    return f"up to {money_text(lost_nano)} for lost answers" if lost_nano else ""


def to_nano(usd: float | Decimal) -> int:
    """Return whole nano-dollars; ValueError for what is no amount."""
    if isinstance(usd, bool) or not isinstance(usd, int | float | Decimal) or not 0 <= usd < float("inf"):
        raise ValueError(f"an amount must be a number >= 0, got {usd!r:.80}")
    return int((Decimal(str(usd)) * NANO).to_integral_value(ROUND_HALF_EVEN))
