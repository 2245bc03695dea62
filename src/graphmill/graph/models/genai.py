"""Model calls in OpenTelemetry, by its GenAI conventions: a span for each call; metrics of time, tokens and cost."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from functools import lru_cache, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from graphmill.core.errors import AttemptError
from graphmill.core.job import without_numbers
from graphmill.core.json import to_json
from graphmill.core.model_call import Image, Message, ModelRequest, ModelResponse, ToolCall
from graphmill.core.usage import Usage, to_usd
from graphmill.engine.monitor.tracing import ERROR, end_span, error_kind, meter, tracer
from graphmill.graph.models.target import ModelTarget
from graphmill.graph.secrets import Redactor

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, Meter
    from opentelemetry.trace import Span, Tracer

# The names of opentelemetry-semantic-conventions 0.66, all still in development.
OPERATION, PROVIDER = "gen_ai.operation.name", "gen_ai.provider.name"
REQUEST_MODEL, RESPONSE_MODEL = "gen_ai.request.model", "gen_ai.response.model"
RESPONSE_ID, FINISH_REASONS = "gen_ai.response.id", "gen_ai.response.finish_reasons"
OUTPUT_TYPE, STOP_SEQUENCES, TOKEN_TYPE = "gen_ai.output.type", "gen_ai.request.stop_sequences", "gen_ai.token.type"
INPUT_MESSAGES, OUTPUT_MESSAGES = "gen_ai.input.messages", "gen_ai.output.messages"
SERVER_ADDRESS, SERVER_PORT = "server.address", "server.port"
PARAMS = {name: f"gen_ai.request.{name}" for name in ("temperature", "top_p", "max_tokens", "seed")}
USAGE = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "cache_written_tokens": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}
COST = "graphmill.cost_usd"  # the conventions have no name for it
DURATION, TOKENS = "gen_ai.client.operation.duration", "gen_ai.client.token.usage"
COSTS = "graphmill.client.cost"  # nor a metric
NODE, ROLE = "graphmill.node", "graphmill.role"
_CHAT = "chat"
_PROVIDERS = {"gemini": "gcp.gemini"}  # protocols that have another name in the conventions
_DURATIONS = [0.01 * 2**power for power in range(14)]
_COUNTS = [4**power for power in range(14)]
_CAPTURE, _CAPTURED = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", ("true", "span_only", "span_and_event")

Complete = Callable[..., Awaitable[ModelResponse]]


def observed_complete(target: ModelTarget, complete: Complete) -> Complete:
    """Return ``complete``, traced and measured if somebody has set up OpenTelemetry."""
    spans, metrics = tracer(), meter()
    if spans is None and metrics is None:
        return complete
    return partial(_complete, target, complete, spans, metrics)


async def _complete(
    target: ModelTarget,
    complete: Complete,
    spans: Tracer | None,
    metrics: Meter | None,
    request: ModelRequest,
    *,
    address: str,
    **access: Any,
) -> ModelResponse:
    call = _ObservedCall(target, request, address, spans, metrics)
    with call.as_current_span():
        try:
            response = await complete(request, address=address, **access)
        except BaseException as error:
            call.fail(error)
            raise
        call.succeed(response)
        return response


class _ObservedCall:
    """A call in progress; its span is None where nobody takes spans."""

    def __init__(
        self, target: ModelTarget, request: ModelRequest, address: str, spans: Tracer | None, metrics: Meter | None
    ) -> None:
        self._target = target
        self._instruments = None if metrics is None else _instruments(metrics)
        protocol = target.setting.protocol
        self._shared: dict[str, Any] = {
            OPERATION: _CHAT,
            PROVIDER: _PROVIDERS.get(protocol, protocol),
            REQUEST_MODEL: request.model,
            **_server(address),
        }
        origin = request.origin
        named = {NODE: without_numbers(origin.path), ROLE: origin.role}
        self._caller = {name: value for name, value in named.items() if value}
        self._span: Span | None = None
        if spans is not None:
            self._span = _start_span(spans, request, self._shared | self._caller)
            self._set_messages(INPUT_MESSAGES, [_message(each) for each in request.messages])
        self._started = perf_counter()

    def as_current_span(self) -> Any:
        """Make what happens on the wire a part of the span."""
        if self._span is None:
            return nullcontext()
        from opentelemetry.trace import use_span  # noqa: PLC0415  whoever takes spans has imported it

        return use_span(self._span, record_exception=False, set_status_on_exception=False)

    def succeed(self, response: ModelResponse) -> None:
        """End with a response."""
        shared = {**self._shared, RESPONSE_MODEL: response.model} if response.model else self._shared
        if self._span is not None:
            reason = str(response.finish_reason)
            self._span.set_attributes({FINISH_REASONS: [reason], **shared})
            if response.id:
                self._span.set_attribute(RESPONSE_ID, response.id)
            answer = Message("assistant", response.text, response.tool_calls)
            self._set_messages(OUTPUT_MESSAGES, [{**_message(answer), "finish_reason": reason}])
        self._end(shared, response.usage, None)

    def fail(self, error: BaseException) -> None:
        """End without one. The error's message is left out: it may quote the prompt."""
        usage = error.usage if isinstance(error, AttemptError) else None
        self._end(self._shared, usage, error_kind(error))

    def _end(self, shared: Mapping[str, Any], usage: Usage | None, kind: str | None) -> None:
        if self._instruments is not None:
            self._instruments.record(perf_counter() - self._started, usage, shared, self._caller, kind)
        if self._span is not None:
            if usage is not None:
                self._span.set_attributes(_counts(usage))
                if usage.cost_nano:
                    self._span.set_attribute(COST, to_usd(usage.cost_nano))
            end_span(self._span, kind)

    def _set_messages(self, name: str, messages: list[dict[str, Any]]) -> None:
        """Record what was said, if the user has asked for that; secrets are hidden even then."""
        is_captured = os.environ.get(_CAPTURE, "").strip().lower() in _CAPTURED
        if is_captured and self._span is not None and self._span.is_recording():
            self._span.set_attribute(name, Redactor(self._target.secrets).text(to_json(messages)))


class _Instruments(NamedTuple):
    """The histograms, and the counter of costs."""

    duration: Histogram
    tokens: Histogram
    cost: Counter

    def record(
        self,
        took_s: float,
        usage: Usage | None,
        shared: Mapping[str, Any],
        caller: Mapping[str, str],
        kind: str | None,
    ) -> None:
        """Record one call; its cost also by who called."""
        self.duration.record(took_s, shared if kind is None else {**shared, ERROR: kind})
        if usage is not None and usage.tokens:
            self.tokens.record(usage.input_tokens, {**shared, TOKEN_TYPE: "input"})
            self.tokens.record(usage.output_tokens, {**shared, TOKEN_TYPE: "output"})
        if usage is not None and usage.cost_nano:
            self.cost.add(to_usd(usage.cost_nano), {**shared, **caller})


@lru_cache(maxsize=4)
def _instruments(metrics: Meter) -> _Instruments:
    took, used = "Duration of model calls.", "Tokens used by model calls."
    return _Instruments(
        metrics.create_histogram(DURATION, unit="s", description=took, explicit_bucket_boundaries_advisory=_DURATIONS),
        metrics.create_histogram(TOKENS, unit="{token}", description=used, explicit_bucket_boundaries_advisory=_COUNTS),
        metrics.create_counter(COSTS, unit="USD", description="Known cost of model calls."),
    )


def _start_span(spans: Tracer, request: ModelRequest, shared: Mapping[str, Any]) -> Span:
    from opentelemetry.trace import SpanKind  # noqa: PLC0415

    attributes = dict(shared)
    for name, attribute in PARAMS.items():
        if (value := getattr(request, name)) is not None:
            attributes[attribute] = value
    if request.schema is not None:
        attributes[OUTPUT_TYPE] = "json"
    if request.stop:
        attributes[STOP_SEQUENCES] = list(request.stop)
    return spans.start_span(f"{_CHAT} {request.model}", kind=SpanKind.CLIENT, attributes=attributes)


def _counts(usage: Usage) -> dict[str, int]:
    counts = usage.counts
    always = ("input_tokens", "output_tokens")
    return {attribute: counts[name] for name, attribute in USAGE.items() if counts[name] or name in always}


@lru_cache(maxsize=100)
def _server(address: str) -> Mapping[str, Any]:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return {}
    return {} if host is None or port is None else {SERVER_ADDRESS: host, SERVER_PORT: port}


def _message(message: Message) -> dict[str, Any]:
    """Write a message as the conventions do, without the data of images."""
    content = message.content
    if message.role == "tool":
        return {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": message.tool_call_id, "response": message.text}],
        }
    if isinstance(content, str):
        parts = [_part(content)] if content else []
    else:
        parts = [_part(part if isinstance(part, Image) else part.text) for part in content]
    return {"role": message.role, "parts": [*parts, *map(_tool_call, message.tool_calls)]}


def _part(content: str | Image) -> dict[str, Any]:
    if isinstance(content, str):
        return {"type": "text", "content": content}
    if content.url is not None:
        return {"type": "uri", "modality": "image", "mime_type": content.media_type, "uri": content.url}
    return {"type": "blob", "modality": "image", "mime_type": content.media_type, "content": ""}


def _tool_call(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": msgspec.to_builtins(call.arguments)}
