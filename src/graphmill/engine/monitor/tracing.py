"""The spans of one run, for whoever watches it by OpenTelemetry: of itself, of each item, and of each attempt at a job or a step."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from graphmill.core import telemetry
from graphmill.core.errors import StepError
from graphmill.core.job import Job
from graphmill.core.result import Result
from graphmill.engine.failures import kind_of, root_cause

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, Tracer

    from graphmill.engine.jobs.context import AttemptContext
    from graphmill.engine.results.recorder import Recorder

_NUMBERS = re.compile(r"\[\d+\]|[@#]\d+")  # of items, rounds and calls in a path: a span's name is to be one of few
_PARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
ERROR = "error.type"


class Tracing:
    """Made when a run begins that somebody watches.

    The run's span is a child of that in which the run was started, and linked to that of the process that had the run before.
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
        """Begin the run's span; None where nobody watches."""
        tracer = telemetry.tracer()
        return None if tracer is None else cls(tracer, recorder)

    def note(self, recorder: Recorder) -> None:
        """Let the next process that goes on with the run find its span."""
        recorder.note(traced=_parent(self._run))

    def begin_attempt(self, context: AttemptContext) -> None:
        """Begin the span of an attempt, and, with the first, that of its item."""
        job, path = context.attempt.step.job, context.path
        item = self._items.get(job.id) or self._item(job)
        context.span = self._under(item, _name(path) if path else "graphmill.attempt", _of(context))

    def end_attempt(self, context: AttemptContext, error: BaseException | None) -> None:
        """End the span of an attempt: with what ended it from outside, if something did; one that waits for a person has not failed."""
        reason, is_waiting = context.attempt.cancel_reason, bool(context.attempt.questions)
        if context.span is not None:
            raised = None if error is None or is_waiting else word_of(error)
            self.end(context.span, raised if reason is None else str(reason.failure.kind))

    @contextmanager
    def step(self, context: AttemptContext) -> Iterator[None]:
        """Hold the span of one attempt of a step inside of a function."""
        from opentelemetry.trace import use_span  # noqa: PLC0415  whoever watches has imported it

        parent = self._run if context.parent is None or context.parent.span is None else context.parent.span
        span = context.span = self._under(parent, _name(context.path), _of(context))
        try:
            with use_span(span, record_exception=False, set_status_on_exception=False):
                yield
        except BaseException as error:
            self.end(span, word_of(error))
            raise
        self.end(span, None)

    @staticmethod
    def end(span: Span, word: str | None) -> None:
        """End a span; ``word`` is the kind of its failure. What an exception says is not told: it may repeat what nobody may read."""
        if word is not None:
            from opentelemetry.trace import StatusCode  # noqa: PLC0415

            span.set_attribute(ERROR, word)
            span.set_status(StatusCode.ERROR)
        span.end()

    def end_item(self, result: Result) -> None:
        """End the span of an item, if it was begun."""
        span = self._items.pop(result.job_id, None)
        if span is not None:
            span.set_attributes({"graphmill.status": str(result.status), "graphmill.attempts": result.attempts})
            self.end(span, None if result.error is None or not result.is_failure else str(result.error.kind))

    def close(self, stopped: str | None, fault: BaseException | None) -> None:
        """End what is left, and the run's own span."""
        for span in self._items.values():
            span.end()
        if stopped is not None:
            self._run.set_attribute("graphmill.stopped", str(stopped))
        self.end(self._run, None if fault is None else type(fault).__name__)

    def _item(self, job: Job) -> Span:
        span = self._items[job.id] = self._under(self._run, "graphmill.item", {"graphmill.item.id": job.id})
        return span

    def _under(self, parent: Span, name: str, attributes: dict[str, Any]) -> Span:
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415

        return self._tracer.start_span(name, context=set_span_in_context(parent), attributes=attributes)


def enter_span(span: Span) -> None:
    """Make what the present task or thread goes on to do a part of a span."""
    from opentelemetry.context import attach  # noqa: PLC0415
    from opentelemetry.trace import set_span_in_context  # noqa: PLC0415

    attach(set_span_in_context(span))


def word_of(error: BaseException) -> str:
    """Name the kind of what was raised."""
    error = root_cause(error)
    if isinstance(error, StepError):
        return str(error.failure.kind)
    if isinstance(error, Exception):
        return "timeout" if isinstance(error, TimeoutError) else str(kind_of(error))
    return "cancelled"


def _name(path: str) -> str:
    return f"graphmill.step {_NUMBERS.sub('', path)}"


def _of(context: AttemptContext) -> dict[str, Any]:
    attributes = {"graphmill.item.id": context.attempt.step.job.id, "graphmill.attempt": context.number}
    return {**attributes, "graphmill.step.path": context.path} if context.path else attributes


def _parent(span: Span) -> str:
    """Give a span as the header ``traceparent`` does."""
    context = span.get_span_context()
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def _links(traced: str | None) -> list[Link]:
    from opentelemetry.trace import Link, SpanContext, TraceFlags  # noqa: PLC0415

    found = _PARENT.fullmatch(traced or "")
    if found is None:
        return []
    trace, span, flags = (int(part, 16) for part in found.groups())
    return [Link(SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(flags)))]
