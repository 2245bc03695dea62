"""The rules of a batch: frozen values, checked when they are made."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from graphmill.core.errors import UsageError
from graphmill.core.usage import MOST_USD
from graphmill.engine.monitor.machine import usable_cores

Backoff = Literal["fixed", "linear", "exponential"]
OnFailure = Literal["continue", "fail_fast"]
Isolation = Literal["process"]

DEFAULT_CONCURRENCY = 10
DEFAULT_WINDOW = 1000
_MB = 1_000_000
_MAX_S = 1e9  # thirty years


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a failed attempt is retried, and after what wait.

    ``wait_s`` is the shortest wait; backoff and jitter are added, up to ``cap_s``. A server's Retry-After replaces the
    wait, even above the cap, unless it is shorter than ``wait_s``. Throttled calls use up ``throttle_budget_s`` of
    waiting instead of attempts.
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
            raise UsageError(f"jitter must be True or False, got {self.jitter!r:.80}")
        if self.cap_s < self.wait_s:
            raise UsageError(
                f"cap_s ({self.cap_s}) must be at least wait_s ({self.wait_s}); raise cap_s or lower wait_s"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Guards:
    """When the machine is too full to start anything new; None turns a guard off.

    ``memory`` and ``cpu`` are shares of what the process may use; at 1 they never pause a run. ``worker_memory_bytes``
    is the limit of one worker process.
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
    """The thresholds above which a run raises an alert; None turns one off.

    ``failure_rate`` is the share of failures among about the last 100 results, ``throttled_share`` that of throttled
    calls; both need at least 20. ``stalled_s`` is how long no job has finished while some are running.
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
            raise UsageError(f"stalled_s must be a number of seconds > 0 or None, got {stalled_s!r:.80}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules of one batch.

    ``concurrency`` is how many attempts run at once; the default is 10 or, if larger, the largest ``max_concurrent`` of
    the workflow. ``timeout_s`` applies to one attempt, ``job_timeout_s`` to a job from its first start, waits included,
    ``batch_timeout_s`` to the whole batch; None means no limit. ``max_failures`` is how many failures are tolerated: a
    number, or a share between 0 and 1 that counts after 20 finished jobs. ``window`` bounds all unfinished jobs:
    queued, running, waiting for a retry, or not yet taken by the reader; the default is 1,000 or twice the concurrency.
    ``grace_s`` is how long a cancelled function may take to end before it is abandoned, ``drain_s`` how long running
    attempts may take when a run is stopped. ``classify`` maps an exception to a kind ("transient", "permanent", …), or
    to None for the usual rule.

    The concurrency is a ceiling: the limit of each model is found below it. With ``adaptive=True`` so is that of each
    job's key, with ``adaptive=False`` none is. ``park_after_s`` is how long something that jobs depend on may be
    unavailable before the run pauses: by default 60 seconds or, as long as no call of a model has succeeded, until one
    more has failed. ``budget_usd`` is the most that the run may cost, across resumes. It never changes a request: each
    call reserves what it may cost at most, and the run pauses when nothing more may start.

    With ``isolation="process"`` attempts run in worker processes, which can be killed and whose death fails one attempt
    only. At most ``workers`` of them run at once, whatever the concurrency; by default as many as there are cores to
    use.
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
    park_after_s: float | None = None
    guards: Guards = field(default_factory=Guards)
    alerts: Alerts = field(default_factory=Alerts)
    classify: Callable[[BaseException], Any] | None = None
    isolation: Isolation | None = None
    workers: int | None = None
    budget_usd: float | None = None

    def __post_init__(self) -> None:
        if self.concurrency is not None:
            require_count("concurrency", self.concurrency)
        _require_a("retry", self.retry, Retry, example="Retry(attempts=3)")
        _require_a("guards", self.guards, Guards, example="Guards(memory=0.9)")
        _require_a("alerts", self.alerts, Alerts, example="Alerts(failure_rate=0.2)")
        _require_times(self)
        if self.adaptive is not None and type(self.adaptive) is not bool:
            raise UsageError(f"adaptive must be True, False or None, got {self.adaptive!r:.80}")
        _require_choice("on_failure", self.on_failure, get_args(OnFailure))
        _require_tolerance(self.max_failures, self.on_failure)
        if self.window is not None:
            require_count("window", self.window)
            require_window(self.window, self.slots)
        if self.budget_usd is not None:
            _require_usd("budget_usd", self.budget_usd)
        if self.classify is not None and not callable(self.classify):
            raise UsageError(f"classify must be a function of one exception, got {self.classify!r:.80}")
        if self.isolation is not None:
            _require_choice("isolation", self.isolation, get_args(Isolation))
        if self.workers is not None:
            require_count("workers", self.workers)

    @property
    def worker_limit(self) -> int:
        """How many worker processes run at once, by default too."""
        return usable_cores() if self.workers is None else self.workers

    @property
    def slots(self) -> int:
        """How many attempts run at once, by default too."""
        return DEFAULT_CONCURRENCY if self.concurrency is None else self.concurrency

    def tolerates(self, failed: int, judged: int) -> bool:
        """Whether so many failures, of so many finished items, are within ``max_failures``; by default none are."""
        if type(self.max_failures) is float:
            return not judged or failed / judged <= self.max_failures
        return failed <= (self.max_failures or 0)

    def window_for(self, concurrency: int) -> int:
        """Return how many jobs may be unfinished at once."""
        return self.window or max(DEFAULT_WINDOW, 2 * concurrency)


def require_policy(policy: Policy | None) -> Policy:
    """Return the policy, or the default one for None."""
    if policy is not None and not isinstance(policy, Policy):
        raise UsageError(f"policy must be a Policy, got {policy!r:.80}; for example gm.Policy(concurrency=20)")
    return Policy() if policy is None else policy


def require_count(name: str, value: object) -> None:
    """Refuse anything but an integer of at least 1; a bool does not count as one."""
    if type(value) is not int or value < 1:
        raise UsageError(f"{name} must be an integer >= 1, got {value!r:.80}")


def require_window(window: int, concurrency: int) -> None:
    """Refuse a window in which the concurrency could never be reached."""
    if window < concurrency:
        raise UsageError(
            f"window ({window}) is less than concurrency ({concurrency}); raise the window or leave it unset"
        )


def require_seconds(name: str, value: object, *, zero: bool = True) -> None:
    """Refuse anything but a number of seconds; ``zero`` says whether 0 is allowed."""
    is_sane = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MAX_S
    if not is_sane or (value == 0 and not zero):
        limit = ">= 0" if zero else "> 0"
        raise UsageError(f"{name} must be a number of seconds {limit}, got {value!r:.80}")


def _require_times(policy: Policy) -> None:
    for name in ("timeout_s", "job_timeout_s", "batch_timeout_s"):
        if getattr(policy, name) is not None:
            require_seconds(name, getattr(policy, name), zero=False)
    for name in ("grace_s", "drain_s"):
        require_seconds(name, getattr(policy, name))
    if policy.park_after_s is not None:
        require_seconds("park_after_s", policy.park_after_s)


def _require_usd(name: str, value: object) -> None:
    is_amount = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MOST_USD
    if not is_amount:
        raise UsageError(f"{name} must be an amount in US dollars > 0 and at most {MOST_USD:,}, got {value!r:.80}")


def _require_a(name: str, value: object, kind: type, *, example: str) -> None:
    if not isinstance(value, kind):
        raise UsageError(f"{name} must be a {kind.__name__}, got {value!r:.80}; for example gm.{example}")


def _require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"{name} must be one of {', '.join(choices)}, got {value!r:.80}")


def _require_tolerance(value: object, on_failure: str) -> None:
    if value is None:
        return
    if on_failure == "fail_fast":
        raise UsageError(
            "max_failures can't be combined with on_failure='fail_fast', which tolerates no failure; leave one out"
        )
    is_count = type(value) is int and value >= 0
    is_share = type(value) is float and 0 < value <= 1
    if not (is_count or is_share):
        raise UsageError(f"max_failures must be an integer >= 0 or a share > 0 and <= 1, got {value!r:.80}")


def require_share(name: str, value: object) -> None:
    """Refuse anything but None or a share above 0 and up to 1."""
    if value is None:
        return
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    if not 0 < number <= 1:
        hint = f"; for {number:g} % write {number / 100:g}" if 1 < number <= 100 else ""
        raise UsageError(f"{name} must be a share > 0 and <= 1, or None, got {value!r:.80}{hint}")


def _require_bytes(name: str, value: object) -> None:
    if type(value) is not int or value < _MB:
        hint = f"; for {value} MB write {value}_000_000" if type(value) is int and value > 0 else ""
        raise UsageError(f"{name} must be a number of bytes >= 1_000_000, got {value!r:.80}{hint}")
