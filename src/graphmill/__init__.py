"""Graphmill runs a graph over a dataset: a function or a workflow, over anything from three items to millions of rows.

A name is imported when it is first asked for, so that what a program does not use costs it nothing. Type checkers read
``__init__.pyi``.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "api.complete": "complete report_usage",
    "api.reward": "reward",
    "api.run_reader": "RunReader open_run",
    "api": "abatch aresume aretry arun ascore batch resume retry run score stream",
    "core.errors": "Ambiguous AttemptError ChangedError DamagedError DuplicateIdError ExportError GraphmillError"
    " InternalError JournalError OwnedError Permanent SandboxError SourceError StepError Throttled Transient"
    " Unavailable UnknownRunError UsageError WorkflowError",
    "core.job": "Job",
    "core.problem": "Problem",
    "core.result": "Failure Kind Result Status StopReason Trace TraceStep",
    "core.version": "__version__",
    "datasets.sink": "Sink sink",
    "datasets.source": "source",
    "engine.monitor.events": "Alert AlertRaised AttemptStarted ConcurrencyChanged Event HealthChanged JobFinished"
    " RetryScheduled RunFinished RunStarted RunStopped SourceEnded StartsHeld StartsReleased",
    "engine.executor": "BatchExecutor Run",
    "engine.jobs.context": "idempotency_key",
    "engine.scheduling.health": "HealthState",
    "engine.policy": "Alerts Guards Policy Retry",
    "engine.results.statistics": "LaneProgress Progress Statistics",
    "engine.jobs.steps": "ask step",
    "graph.graph": "Graph",
    "graph.models.completion": "Completion",
    "graph.workflow": "load",
    "journal.journal": "Journal open_journal",
    "report.report": "Report",
    "scoring.figures": "Figure ScoreFigures",
    "scoring.score": "Score",
}
_HOME_OF = {name: f"graphmill.{home}" for home, names in _HOMES.items() for name in names.split()}

__all__ = list(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
