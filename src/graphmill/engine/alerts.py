"""What a run tells its owner of without being asked: too many failures, no progress, too many throttled calls."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from graphmill.core.errors import UsageError
from graphmill.engine.latch import Latch
from graphmill.engine.share import Share, percent, require_share

AlertName = Literal["failure_rate", "stalled", "throttled_share", "unavailable", "parked"]

_LEAST_COUNT = 20  # a share of fewer says little
_CLEARLY_BELOW = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerts:
    """The thresholds above which a run alerts, None for off.

    ``failure_rate`` is the share of failures among about the last 100 results, ``throttled_share`` that of throttled ones
    among the recent calls; both are silent until there were 20. ``stalled_s`` is how long no job finishes while some run.
    """

    failure_rate: float | None = 0.5
    stalled_s: float | None = 300.0
    throttled_share: float | None = 0.5

    def __post_init__(self) -> None:
        require_share("failure_rate", self.failure_rate)
        require_share("throttled_share", self.throttled_share)
        stalled_s = self.stalled_s
        is_number = isinstance(stalled_s, int | float) and not isinstance(stalled_s, bool)
        if stalled_s is not None and not (is_number and 0 < stalled_s < math.inf):
            raise UsageError(f"stalled_s is a number of seconds above 0, or None for off, not {stalled_s!r:.80}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """What somebody should know: a threshold was crossed, or what the jobs depend on is down, which has none."""

    name: AlertName
    message: str
    value: float | None = None
    threshold: float | None = None


class Watch:
    """Gives each alert once when its threshold is crossed, and again only after all was well in between.

    Well is a share below 0.8 of its threshold, or a result after a stall.
    """

    def __init__(self, alerts: Alerts, now: float) -> None:
        self._failures = Share()
        self._failure_rate = Latch(alerts.failure_rate, low_share=_CLEARLY_BELOW)
        self._throttled_share = Latch(alerts.throttled_share, low_share=_CLEARLY_BELOW)
        self._stalled_s = math.inf if alerts.stalled_s is None else alerts.stalled_s
        self._is_stalled = False
        self._waiting_since = now

    def result(self, now: float, *, is_failure: bool) -> None:
        """Note a result; a cancelled one is none."""
        self._failures.add(hit=is_failure)
        self._is_stalled = False
        self._waiting_since = now

    def check(self, now: float, *, is_idle: bool, throttled: Iterable[Share]) -> list[Alert]:
        """Give the alerts that are new.

        ``is_idle`` is for a run that is paused or waits for its source, and so can not stall; ``throttled`` holds the
        share of each key, of which the worst counts.
        """
        found = [
            _crossed("failure_rate", self._failure_rate, [self._failures], "the last results failed"),
            self._stall(now, is_idle=is_idle),
            _crossed("throttled_share", self._throttled_share, throttled, "recent calls were throttled"),
        ]
        return [alert for alert in found if alert is not None]

    def _stall(self, now: float, *, is_idle: bool) -> Alert | None:
        if is_idle:
            self._waiting_since = now
        waited_s = now - self._waiting_since
        if self._is_stalled or waited_s < self._stalled_s:
            return None
        self._is_stalled = True
        message = f"no item has finished for {round(waited_s, 1):g} s"
        return Alert(name="stalled", message=message, value=waited_s, threshold=self._stalled_s)


def _crossed(name: AlertName, latch: Latch, shares: Iterable[Share], what: str) -> Alert | None:
    share = max((share.value for share in shares if share.count >= _LEAST_COUNT), default=0.0)
    if not latch.feed(share):
        return None
    message = f"{percent(share)} of {what} (alert above {percent(latch.high)})"
    return Alert(name=name, message=message, value=share, threshold=latch.high)
