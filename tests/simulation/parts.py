"""What a scenario is made of, as plain data."""

from dataclasses import dataclass

from simulation.plain import Plain


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Price(Plain):
    """What a call costs, in whole dollars: at most ``most``, in the end ``used``. It takes ``s`` seconds."""

    most: int = 1
    used: int = 1
    s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Act(Plain):
    """What a function does in one attempt: ``s`` seconds of it, then ``more_s`` of what makes it special; a call is of a lane.

    With a price, it first makes a call that costs something.
    """

    do: str = "sleep"
    s: float = 0.0
    more_s: float = 0.0
    target: int = 0
    key: str = ""
    price: Price | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanStep(Plain):
    """A step of a program: its n-th attempt does its n-th act. Without a key it goes in its item's lane; a needed one fails its line.

    Its time-out and attempts are those of the rules, unless it has its own.
    """

    acts: tuple[Act, ...] = (Act(),)
    key: str = ""
    timeout_s: float | None = None
    attempts: int | None = None
    is_needed: bool = False
    is_unsafe: bool = False
    is_recorded: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanNote(Plain):
    """Something that a program decides; it would decide otherwise in every process."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PlanFork(Plain):
    """Lines side by side, each a plan of its own, at most so many at once; the first that fails may stop the others."""

    lines: tuple[tuple["PlanStep | PlanNote | PlanFork", ...], ...] = ()
    limit: int | None = None
    timeout_s: float | None = None
    stops_on_failure: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Item(Plain):
    """One item: its n-th attempt does its n-th act, and the last one from then on; or, with a plan, it is a program."""

    key: str = ""
    priority: int = 0
    acts: tuple[Act, ...] = (Act(),)
    plan: tuple[PlanStep | PlanNote | PlanFork, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Recording(Plain):
    """The run is recorded: how long a commit takes, and in how many more processes it is resumed while something is left."""

    commit_s: float = 0.0
    restarts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Server(Plain):
    """What the jobs of a key call: at most ``limit`` calls at once, ``per_s`` calls a second, down in some spans of time."""

    limit: int | None = None
    per_s: float | None = None
    retry_after_s: float | None = None
    down: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Source(Plain):
    """Where items come from: a list, a list of jobs with priorities, or a stream with gaps; it may fail, repeat an id, or hang."""

    kind: str = "list"
    gap_s: float = 0.0
    fails_at: int | None = None
    repeats_at: int | None = None
    hangs_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Consumer(Plain):
    """Who reads the results: from when on, in what order, how slowly, how many."""

    kind: str = "read"
    is_ordered: bool = False
    begins_at_s: float = 0.0
    pause_s: float = 0.0
    stops_after: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Control(Plain):
    """Something done to the run from outside, in one of its processes; the first is 0."""

    at_s: float
    do: str
    value: float | None = None
    process: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Rules(Plain):
    """The policy, as plain data. The budget is in whole dollars; each further process has ``more_budget`` more."""

    concurrency: int = 2
    window: int | None = None
    attempts: int = 3
    wait_s: float = 1.0
    cap_s: float = 60.0
    backoff: str = "exponential"
    has_jitter: bool = False
    throttle_budget_s: float = 900.0
    timeout_s: float | None = None
    job_timeout_s: float | None = None
    batch_timeout_s: float | None = None
    on_failure: str = "continue"
    max_failures: int | float | None = None
    grace_s: float = 2.0
    drain_s: float = 25.0
    park_after_s: float = 60.0
    is_adaptive: bool = False
    memory_mark: float | None = None
    stalled_s: float | None = None
    alert_share: float | None = None
    is_strict: bool = False
    budget: int | None = None
    more_budget: int = 0

    def budget_in(self, process):
        """Give the budget in one of the run's processes."""
        return None if self.budget is None else self.budget + process * self.more_budget
