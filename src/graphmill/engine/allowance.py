"""An allowance: what all processes that share a store may take together, in slices, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple, Protocol

SLICE_S = 0.25  # how long a slice lasts: the store is asked four times a second at most


class Return(NamedTuple):
    """What was not used of a slice; of tokens, less than none where more were used."""

    slice: int
    requests: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a run would have next: a slice of so many seconds, and at least ``weight`` tokens; what it gives back counts first.

    ``request_s`` and ``token_s`` are the time that one takes, 0 for no limit.
    """

    account: str
    holder: str
    request_s: float
    token_s: float
    tokens_per_minute: int | None = None
    weight: int = 0
    slice_s: float = SLICE_S
    returns: tuple[Return, ...] = ()


class Grant(NamedTuple):
    """A slice, for so long; or the time to wait before one may be asked for. ``sharers`` counts those who had some in the last minute."""

    slice: int = 0
    requests: float = inf
    tokens: float = inf
    lasts_s: float = 0.0
    wait_s: float = 0.0
    sharers: int = 1


class Learned(NamedTuple):
    """What a provider has said that it allows in a minute, and for how long from now it allows nothing."""

    account: str
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    closed_s: float = 0.0


class Allowances(Protocol):
    """Allowances by account, shared by all that have the same store; its calls block, and whatever they raise costs no run.

    The time is the store's own: nobody's clock is compared with another's.
    """

    def take(self, wish: Wish) -> Grant:
        """Give a slice to whoever comes first when the one before it is over: never two at once."""

    def give_back(self, wish: Wish) -> None:
        """Take back what is returned, and give nothing."""

    def note(self, learned: Learned) -> None:
        """Keep what a provider has said, for the others and for whoever asks."""

    def learned(self) -> list[Learned]:
        """Give all that is kept."""

    def close(self) -> None:
        """Let go of the disk."""
