from graphmill.api import abatch, aresume, aretry, arun, batch, resume, retry, run
from graphmill.api.complete import complete
from graphmill.core.errors import (
    Ambiguous,
    AttemptError,
    ChangedError,
    DamagedError,
    DuplicateIdError,
    ExportError,
    GraphmillError,
    InternalError,
    JournalError,
    OwnedError,
    Permanent,
    SourceError,
    StepError,
    Throttled,
    Transient,
    Unavailable,
    UnknownRunError,
    UsageError,
    WorkflowError,
)
from graphmill.core.job import Job
from graphmill.core.result import Failure, Kind, Result, Status, StopReason
from graphmill.core.version import __version__
from graphmill.datasets.sink import Sink, sink
from graphmill.datasets.source import source
from graphmill.engine.alerts import Alert, Alerts
from graphmill.engine.events import (
    AlertRaised,
    AttemptStarted,
    ConcurrencyChanged,
    Event,
    HealthChanged,
    JobFinished,
    RetryScheduled,
    RunFinished,
    RunStarted,
    RunStopped,
    SourceEnded,
    StartsHeld,
    StartsReleased,
)
from graphmill.engine.executor import BatchExecutor
from graphmill.engine.frame import idempotency_key
from graphmill.engine.guards import Guards
from graphmill.engine.health import HealthState
from graphmill.engine.policy import Policy, Retry
from graphmill.engine.progress import LaneProgress, Progress
from graphmill.engine.run import Run
from graphmill.engine.statistics import Statistics
from graphmill.engine.steps import ask, step
from graphmill.graph.graph import Graph
from graphmill.graph.models.completion import Completion
from graphmill.graph.workflow import load
from graphmill.journal.journal import Journal, open_journal
from graphmill.report.report import Report

__all__ = [
    "Alert",
    "AlertRaised",
    "Alerts",
    "Ambiguous",
    "AttemptError",
    "AttemptStarted",
    "BatchExecutor",
    "ChangedError",
    "Completion",
    "ConcurrencyChanged",
    "DamagedError",
    "DuplicateIdError",
    "Event",
    "ExportError",
    "Failure",
    "Graph",
    "GraphmillError",
    "Guards",
    "HealthChanged",
    "HealthState",
    "InternalError",
    "Job",
    "JobFinished",
    "Journal",
    "JournalError",
    "Kind",
    "LaneProgress",
    "OwnedError",
    "Permanent",
    "Policy",
    "Progress",
    "Report",
    "Result",
    "Retry",
    "RetryScheduled",
    "Run",
    "RunFinished",
    "RunStarted",
    "RunStopped",
    "Sink",
    "SourceEnded",
    "SourceError",
    "StartsHeld",
    "StartsReleased",
    "Statistics",
    "Status",
    "StepError",
    "StopReason",
    "Throttled",
    "Transient",
    "Unavailable",
    "UnknownRunError",
    "UsageError",
    "WorkflowError",
    "__version__",
    "abatch",
    "aresume",
    "aretry",
    "arun",
    "ask",
    "batch",
    "complete",
    "idempotency_key",
    "load",
    "open_journal",
    "resume",
    "retry",
    "run",
    "sink",
    "source",
    "step",
]
