"""OpenTelemetry: finds the tracer and the meter that the program has set up, and makes the spans of a run.

Nothing is imported to find them: whoever takes spans or metrics has imported the API to set that up.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

from graphmill.core.errors import StepError
from graphmill.core.job import Job, without_numbers
from graphmill.core.result import Result
from graphmill.core.version import __version__
from graphmill.engine.failures import kind_of, root_cause

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Link, Span, Tracer

    from graphmill.engine.jobs.context import AttemptContext
    from graphmill.engine.results.recorder import Recorder

ERROR = "error.type"
_NAME = "graphmill"
_FLUSH_S = 5.0
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def tracer() -> Tracer | None:
    """Return what makes spans; None if nobody takes them."""
    provider = _provider("opentelemetry.trace", "get_tracer_provider")
    return None if provider is None else provider.get_tracer(_NAME, __version__)


def meter() -> Meter | None:
    """Return what measures; None if nobody takes metrics."""
    provider = _provider("opentelemetry.metrics", "get_meter_provider")
    return None if provider is None else provider.get_meter(_NAME, __version__)


def flush_telemetry() -> None:
    """Send what is not sent yet, for a process that exits without running exit handlers; wait at most 5 s."""
    providers = (
        _provider("opentelemetry.trace", "get_tracer_provider"),
        _provider("opentelemetry.metrics", "get_meter_provider"),
    )
    flushes = [flush for provider in providers if (flush := getattr(provider, "force_flush", None)) is not None]
    if flushes:
        thread = Thread(target=_flush_all, args=(flushes,), name="graphmill-telemetry", daemon=True)
        thread.start()
        thread.join(_FLUSH_S)


def _flush_all(flushes: list[Callable[[], Any]]) -> None:
    for flush in flushes:
        with suppress(Exception):  # a failing exporter logs why
            flush()


def _provider(module: str, getter: str) -> Any | None:
    """Return the provider that was set up; None for the API's own, which takes nothing."""
    api = sys.modules.get(module)
    if api is None:
        return None
    provider = getattr(api, getter)()
    if type(provider).__module__.startswith(module):
        return None
    return provider


class Tracing:
    """The spans of a run, its items, and the attempts of jobs and steps.

    The run's span is a child of the current span, and linked to the run's span in the process before.
    """

    def __init__(self, tracer: Tracer, recorder: Recorder) -> None:
        self._tracer = tracer
        self._items: dict[str, Span] = {}
        links = _links(recorder.traced)
        self._run = tracer.start_span("graphmill.run", links=links)
        if recorder.is_recording:
            self._run.set_attribute("graphmill.run.id", recorder.run_id)

    @classmethod
    def start(cls, recorder: Recorder) -> Tracing | None:
        """Start the run's span; None if nobody takes spans."""
        found = tracer()
        if found is None:
            return None
        return cls(found, recorder)

    def note(self, recorder: Recorder) -> None:
        """Record the run's span, so that the next process which resumes the run can link to it."""
        recorder.note(traced=_traceparent(self._run))

    def begin_attempt(self, context: AttemptContext) -> None:
        """Start the span of an attempt, and with the first one that of its item."""
        job, path = context.attempt.step.job, context.path
        item = self._items.get(job.id) or self._item(job)
        name = _span_name(path) if path else "graphmill.attempt"
        context.span = self._under(item, name, _attributes(context))

    def end_attempt(self, context: AttemptContext, error: BaseException | None) -> None:
        """End the span of an attempt. Why it was cancelled wins over what it raised; a question is not a failure."""
        reason, is_waiting = context.attempt.cancel_reason, bool(context.attempt.questions)
        if context.span is not None:
            kind = None
            if reason is not None:
                kind = str(reason.failure.kind)
            elif error is not None and not is_waiting:
                kind = error_kind(error)
            end_span(context.span, kind)

    @contextmanager
    def step(self, context: AttemptContext) -> Iterator[None]:
        """Make the span of a step's attempt inside a function."""
        from opentelemetry.trace import use_span  # noqa: PLC0415  whoever takes spans has imported it

        parent = self._run
        if context.parent is not None and context.parent.span is not None:
            parent = context.parent.span
        span = context.span = self._under(parent, _span_name(context.path), _attributes(context))
        try:
            with use_span(span, record_exception=False, set_status_on_exception=False):
                yield
        except BaseException as error:
            end_span(span, error_kind(error))
            raise
        end_span(span, None)

    def end_item(self, result: Result) -> None:
        """End the span of an item, if it was started."""
        span = self._items.pop(result.job_id, None)
        if span is not None:
            span.set_attributes({"graphmill.status": str(result.status), "graphmill.attempts": result.attempts})
            kind = None
            if result.is_failure and result.error is not None:
                kind = str(result.error.kind)
            end_span(span, kind)

    def close(self, stopped: str | None, fault: BaseException | None) -> None:
        """End the open spans, and the run's own."""
        for span in self._items.values():
            span.end()
        if stopped is not None:
            self._run.set_attribute("graphmill.stopped", str(stopped))
        end_span(self._run, None if fault is None else type(fault).__name__)

    def _item(self, job: Job) -> Span:
        span = self._items[job.id] = self._under(self._run, "graphmill.item", {"graphmill.item.id": job.id})
        return span

    def _under(self, parent: Span, name: str, attributes: dict[str, Any]) -> Span:
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415

        return self._tracer.start_span(name, context=set_span_in_context(parent), attributes=attributes)


def end_span(span: Span, kind: str | None) -> None:
    """End a span; ``kind`` is that of its failure. An exception's message is left out: it may hold private data."""
    if kind is not None:
        from opentelemetry.trace import StatusCode  # noqa: PLC0415

        span.set_attribute(ERROR, kind)
        span.set_status(StatusCode.ERROR)
    span.end()


def enter_span(span: Span) -> None:
    """Make what this task or thread does from now on a part of a span."""
    from opentelemetry.context import attach  # noqa: PLC0415
    from opentelemetry.trace import set_span_in_context  # noqa: PLC0415

    attach(set_span_in_context(span))


def error_kind(error: BaseException) -> str:
    """Return the kind of failure of an exception, as text."""
    error = root_cause(error)
    if isinstance(error, StepError):
        return str(error.failure.kind)
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, Exception):
        return str(kind_of(error))
    return "cancelled"


def _span_name(path: str) -> str:
    return f"graphmill.step {without_numbers(path)}"


def _attributes(context: AttemptContext) -> dict[str, Any]:
    attributes: dict[str, Any] = {"graphmill.item.id": context.attempt.step.job.id, "graphmill.attempt": context.number}
    if context.path:
        attributes["graphmill.step.path"] = context.path
    return attributes


def _traceparent(span: Span) -> str:
    """Write a span's identity like the header ``traceparent``."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def _links(traced: str | None) -> list[Link]:
    from opentelemetry.trace import Link, SpanContext, TraceFlags  # noqa: PLC0415

    found = _TRACEPARENT.fullmatch(traced or "")
    if found is None:
        return []
    trace, span, flags = (int(part, 16) for part in found.groups())
    return [Link(SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(flags)))]
