"""A report as data, for machines: one object, the same at every door."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from graphmill.report.report import Report
from graphmill.report.usage import usage_record


def report_record(report: Report, error: Exception | None = None) -> dict[str, Any]:
    """Give the summary, why it stopped, what went wrong beside the items, and all figures."""
    statistics = report.statistics
    return {
        "run": report.run_id,
        "summary": report.summary(),
        "done_now": report.done_now,
        "orphans": report.orphans,
        "stopped": report.stopped,
        "stopped_because": report.stopped_because,
        "error": None if error is None else {"type": type(error).__name__, "message": str(error)},
        "waiting": [{"id": result.job_id, "questions": dict(result.questions)} for result in report.waiting],
        "usage": usage_record(statistics.usage),
        "statistics": {
            field.name: getattr(statistics, field.name) for field in fields(statistics) if field.name != "usage"
        },
    }
