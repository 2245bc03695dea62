"""Graphmill runs a graph over a dataset: a function or a workflow, over anything from three items to millions of rows."""

from graphmill.api import abatch, batch
from graphmill.core.errors import (
    AttemptError,
    DuplicateIdError,
    ExportError,
    GraphmillError,
    InternalError,
    Permanent,
    SourceError,
    Throttled,
    Transient,
    Unavailable,
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
from graphmill.engine.guards import Guards
from graphmill.engine.health import HealthState
from graphmill.engine.policy import Policy, Retry
from graphmill.engine.progress import LaneProgress, Progress
from graphmill.engine.run import Run
from graphmill.engine.statistics import Statistics
from graphmill.graph.graph import Graph
from graphmill.graph.workflow import load
from graphmill.report.report import Report

__all__ = [
    "Alert",
    "AlertRaised",
    "Alerts",
    "AttemptError",
    "AttemptStarted",
    "BatchExecutor",
    "ConcurrencyChanged",
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
    "Kind",
    "LaneProgress",
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
    "StopReason",
    "Throttled",
    "Transient",
    "Unavailable",
    "UsageError",
    "WorkflowError",
    "__version__",
    "abatch",
    "batch",
    "load",
    "sink",
    "source",
]
