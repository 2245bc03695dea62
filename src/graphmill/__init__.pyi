from graphmill.api import abatch, aresume, aretry, arun, ascore, batch, resume, retry, run, score, stream
from graphmill.api.complete import complete, report_usage
from graphmill.api.reward import reward
from graphmill.api.run_reader import RunReader, open_run
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
    SandboxError,
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
from graphmill.core.problem import Problem
from graphmill.core.result import Failure, Kind, Result, Status, StopReason, Trace, TraceStep
from graphmill.core.version import __version__
from graphmill.datasets.sink import Sink, sink
from graphmill.datasets.source import source
from graphmill.engine.executor import BatchExecutor, Run
from graphmill.engine.jobs.context import idempotency_key
from graphmill.engine.jobs.steps import ask, step
from graphmill.engine.monitor.events import (
    Alert,
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
from graphmill.engine.policy import Alerts, Guards, Policy, Retry
from graphmill.engine.results.statistics import LaneProgress, Progress, Statistics
from graphmill.engine.scheduling.health import HealthState
from graphmill.graph.graph import Graph
from graphmill.graph.models.completion import Completion
from graphmill.graph.workflow import load
from graphmill.journal.journal import Journal, open_journal
from graphmill.report.report import Report
from graphmill.scoring.figures import Figure, ScoreFigures
from graphmill.scoring.score import Score

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
    "Figure",
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
    "Problem",
    "Progress",
    "Report",
    "Result",
    "Retry",
    "RetryScheduled",
    "Run",
    "RunFinished",
    "RunReader",
    "RunStarted",
    "RunStopped",
    "SandboxError",
    "Score",
    "ScoreFigures",
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
    "Trace",
    "TraceStep",
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
    "ascore",
    "ask",
    "batch",
    "complete",
    "idempotency_key",
    "load",
    "open_journal",
    "open_run",
    "report_usage",
    "resume",
    "retry",
    "reward",
    "run",
    "score",
    "sink",
    "source",
    "step",
    "stream",
]
