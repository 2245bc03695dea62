"""The rules a batch runs under: frozen, checked when made."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from graphmill.core.errors import UsageError

Backoff = Literal["fixed", "linear", "exponential"]
OnFailure = Literal["continue", "fail_fast"]
Isolation = Literal["process"]

DEFAULT_CONCURRENCY = 10
DEFAULT_WINDOW = 1000
_MB = 1_000_000
_MOST_S = 1e9  # thirty years


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often and after what wait a failed attempt is tried again.

    ``wait_s`` is the least wait; growth and jitter come on top, up to ``cap_s``. A server's own Retry-After stands in
    for it, even above the cap, unless it is less than ``wait_s``. Throttles use up ``throttle_budget_s`` of waiting instead of
    attempts; the last wait is cut to what is left of it.
    """

    attempts: int = 3
    wait_s: float = 1.0
    backoff: Backoff = "exponential"
    cap_s: float = 60.0
    jitter: bool = True
    throttle_budget_s: float = 900.0

    def __post_init__(self) -> None:
        require_count("attempts", self.attempts)
        require_seconds("wait_s", self.wait_s)
        require_seconds("cap_s", self.cap_s)
        require_seconds("throttle_budget_s", self.throttle_budget_s)
        _require_choice("backoff", self.backoff, get_args(Backoff))
        if type(self.jitter) is not bool:
            raise UsageError(f"jitter is True or False, not {self.jitter!r}")
        if self.cap_s < self.wait_s:
            raise UsageError(
                f"cap_s ({self.cap_s}) is less than wait_s ({self.wait_s}); raise the cap or shorten the wait"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """The high-water marks of a run, None for off.

    ``memory`` and ``cpu`` are shares of what the process may use; nothing is above a share of 1, so a mark there never pauses.
    ``worker_memory_bytes`` is the most that one worker process may hold.
    """

    memory: float | None = 0.85
    cpu: float | None = None
    worker_memory_bytes: int | None = None

    def __post_init__(self) -> None:
        require_share("memory", self.memory)
        require_share("cpu", self.cpu)
        if self.worker_memory_bytes is not None:
            _require_bytes("worker_memory_bytes", self.worker_memory_bytes)


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
class Policy:
    """The rules of one batch.

    ``concurrency`` is how many attempts are made at once; unset it is 10 or, if more, the largest ``max_concurrent`` of a workflow
    that is run. ``timeout_s`` is for one attempt, ``job_timeout_s`` for a job from its first start, waits included,
    ``batch_timeout_s`` for the whole batch; None means no limit. ``max_failures`` is how many failures are tolerated:
    a whole number, or a share between 0 and 1 that counts from 20 finished jobs on. ``window`` bounds all unfinished
    jobs: queued, running, waiting for a retry, not yet taken by the consumer; unset it is 1,000 or twice the
    concurrency. ``grace_s`` is how long a cancelled function may go on before it is abandoned, ``drain_s`` how long what
    runs may go on when a run is drained. ``classify`` maps an exception to a kind ("transient", "permanent", …) or to None
    for the usual rule.

    With ``adaptive`` the concurrency is a ceiling, and below it each key's own limit is found. ``park_after_s`` is how long
    what a job depends on may be unavailable before the run is parked. With ``isolation="process"`` attempts run in worker
    processes, which can be killed, and whose death harms one attempt only.
    """

    concurrency: int | None = None
    adaptive: bool | None = None
    retry: Retry = field(default_factory=Retry)
    timeout_s: float | None = 300.0
    job_timeout_s: float | None = None
    batch_timeout_s: float | None = None
    on_failure: OnFailure = "continue"
    max_failures: int | float | None = None
    window: int | None = None
    grace_s: float = 2.0
    drain_s: float = 25.0
    park_after_s: float = 60.0
    guards: Guards = field(default_factory=Guards)
    alerts: Alerts = field(default_factory=Alerts)
    classify: Callable[[BaseException], Any] | None = None
    isolation: Isolation | None = None

    def __post_init__(self) -> None:
        if self.concurrency is not None:
            require_count("concurrency", self.concurrency)
        _require_a("retry", self.retry, Retry, example="Retry(attempts=3)")
        _require_a("guards", self.guards, Guards, example="Guards(memory=0.9)")
        _require_a("alerts", self.alerts, Alerts, example="Alerts(failure_rate=0.2)")
        _require_times(self)
        if self.adaptive is not None and type(self.adaptive) is not bool:
            raise UsageError(f"adaptive is True, False or None, not {self.adaptive!r:.80}")
        _require_choice("on_failure", self.on_failure, get_args(OnFailure))
        _require_tolerance(self.max_failures, self.on_failure)
        if self.window is not None:
            require_count("window", self.window)
            require_window(self.window, self.slots)
        if self.classify is not None and not callable(self.classify):
            raise UsageError(f"classify is a function of one exception, not {self.classify!r:.80}")
        if self.isolation is not None:
            _require_choice("isolation", self.isolation, get_args(Isolation))

    @property
    def slots(self) -> int:
        """How many attempts are made at once, also where nobody has said so."""
        return DEFAULT_CONCURRENCY if self.concurrency is None else self.concurrency

    def tolerates(self, failed: int, judged: int) -> bool:
        """Tell whether so many failures among so many that succeeded or failed are within ``max_failures``; unset it is none."""
        if type(self.max_failures) is float:
            return not judged or failed / judged <= self.max_failures
        return failed <= (self.max_failures or 0)

    def window_for(self, concurrency: int) -> int:
        """Tell how many jobs may be unfinished at once."""
        return self.window or max(DEFAULT_WINDOW, 2 * concurrency)


def require_policy(policy: Policy | None) -> Policy:
    """Give the policy, or the usual one for None; refuse what is none."""
    if policy is not None and not isinstance(policy, Policy):
        raise UsageError(f"policy is a Policy, not {policy!r:.80}; for example Policy(concurrency=20)")
    return Policy() if policy is None else policy


def require_count(name: str, value: object) -> None:
    """Refuse what is not a whole number of at least 1; a bool is not a number here."""
    if type(value) is not int or value < 1:
        raise UsageError(f"{name} is a whole number of at least 1, not {value!r:.80}")


def require_window(window: int, concurrency: int) -> None:
    """Refuse a window in which the asked concurrency could never be reached."""
    if window < concurrency:
        raise UsageError(
            f"window ({window}) is less than concurrency ({concurrency}); raise the window or leave it unset"
        )


def require_seconds(name: str, value: object, *, zero: bool = True) -> None:
    """Refuse what is not a number of seconds, 0 included unless told otherwise."""
    is_sane = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST_S
    if not is_sane or (value == 0 and not zero):
        raise UsageError(f"{name} is a number of seconds {'of at least 0' if zero else 'above 0'}, not {value!r:.80}")


def _require_times(policy: Policy) -> None:
    for name in ("timeout_s", "job_timeout_s", "batch_timeout_s"):
        if getattr(policy, name) is not None:
            require_seconds(name, getattr(policy, name), zero=False)
    for name in ("grace_s", "drain_s", "park_after_s"):
        require_seconds(name, getattr(policy, name))


def _require_a(name: str, value: object, kind: type, *, example: str) -> None:
    if not isinstance(value, kind):
        raise UsageError(f"{name} is made by {kind.__name__}, not {value!r:.80}; for example {example}")


def _require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"{name} is one of {', '.join(choices)}, not {value!r:.80}")


def _require_tolerance(value: object, on_failure: str) -> None:
    if value is None:
        return
    if on_failure == "fail_fast":
        raise UsageError(
            "max_failures has no meaning with on_failure='fail_fast', which tolerates none; leave one of them out"
        )
    is_count = type(value) is int and value >= 0
    is_share = type(value) is float and 0 < value <= 1
    if not (is_count or is_share):
        raise UsageError(
            f"max_failures is a whole number of at least 0, or a share above 0 and up to 1, not {value!r:.80}"
        )


def require_share(name: str, value: object) -> None:
    """Refuse what is neither None nor a share above 0 and up to 1; a bool is not a number here."""
    if value is None:
        return
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    if not 0 < number <= 1:
        hint = f"; for {number:g} % write {number / 100:g}" if 1 < number <= 100 else ""
        raise UsageError(f"{name} is a share above 0 and up to 1, or None for off, not {value!r:.80}{hint}")


def _require_bytes(name: str, value: object) -> None:
    if type(value) is not int or value < _MB:
        hint = f"; for {value} MB write {value}_000_000" if type(value) is int and value > 0 else ""
        raise UsageError(f"{name} is a whole number of bytes, at least 1_000_000, not {value!r:.80}{hint}")
