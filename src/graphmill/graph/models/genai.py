"""A call of a model as OpenTelemetry's GenAI conventions tell of it: a span, and metrics of what it took and used."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from functools import lru_cache, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from graphmill.core import telemetry
from graphmill.core.errors import AttemptError
from graphmill.core.json import to_json
from graphmill.core.model_call import Image, Message, ModelRequest, ModelResponse, ToolCall
from graphmill.core.usage import Usage
from graphmill.engine.tracing import ERROR, Tracing, word_of
from graphmill.graph.models.target import Target
from graphmill.graph.secrets import Redactor

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram, Meter
    from opentelemetry.trace import Span, Tracer

# As opentelemetry-semantic-conventions 0.66 has them, all still in development: what is renamed there is renamed here and nowhere else.
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
DURATION, TOKENS = "gen_ai.client.operation.duration", "gen_ai.client.token.usage"
_CHAT = "chat"
_PROVIDERS = {"gemini": "gcp.gemini"}  # protocols that the conventions call otherwise
_DURATIONS = [0.01 * 2**power for power in range(14)]
_COUNTS = [4**power for power in range(14)]
_CAPTURE, _CAPTURED = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", ("true", "span_only", "span_and_event")

Complete = Callable[..., Awaitable[ModelResponse]]


def observed(target: Target) -> Complete:
    """Give what asks a target's provider once, and lets those see it who watch; where nobody does, the provider's own."""
    if not telemetry.is_possible():
        return target.provider.complete
    tracer, meter = telemetry.tracer(), telemetry.meter()
    if tracer is None and meter is None:
        return target.provider.complete
    return partial(_observed, target, tracer, meter)


async def _observed(
    target: Target, tracer: Tracer | None, meter: Meter | None, request: ModelRequest, *, address: str, **access: Any
) -> ModelResponse:
    call = _Call(target, request, address, tracer, meter)
    with call.entered():
        try:
            response = await target.provider.complete(request, address=address, **access)
        except BaseException as error:
            call.failed(error)
            raise
        call.answered(response)
        return response


class _Call:
    """One call under way."""

    def __init__(
        self, target: Target, request: ModelRequest, address: str, tracer: Tracer | None, meter: Meter | None
    ) -> None:
        self._target = target
        self._instruments = None if meter is None else _instruments(meter)
        protocol = target.setting.protocol
        self._shared: dict[str, Any] = {
            OPERATION: _CHAT,
            PROVIDER: _PROVIDERS.get(protocol, protocol),
            REQUEST_MODEL: request.model,
            **_server(address),
        }
        self._span: Span | None = None
        if tracer is not None:
            self._span = _begun(tracer, request, self._shared)
            self._tell(INPUT_MESSAGES, [_said(message) for message in request.messages])
        self._began = perf_counter()

    def entered(self) -> Any:
        """Make what happens on the wire a part of the span."""
        if self._span is None:
            return nullcontext()
        from opentelemetry.trace import use_span  # noqa: PLC0415  whoever watches has imported it

        return use_span(self._span, record_exception=False, set_status_on_exception=False)

    def answered(self, response: ModelResponse) -> None:
        """End with an answer."""
        shared = {**self._shared, RESPONSE_MODEL: response.model} if response.model else self._shared
        if self._span is not None:
            told = {
                FINISH_REASONS: [str(response.finish_reason)],
                **({RESPONSE_ID: response.id} if response.id else {}),
            }
            self._span.set_attributes({**told, **shared})
            self._tell(OUTPUT_MESSAGES, [{**_said(_answer(response)), "finish_reason": str(response.finish_reason)}])
        self._end(shared, response.usage, None)

    def failed(self, error: BaseException) -> None:
        """End without one; what the error says is not told."""
        usage = error.usage if isinstance(error, AttemptError) else None
        self._end(self._shared, usage, word_of(error))

    def _end(self, shared: Mapping[str, Any], usage: Usage | None, word: str | None) -> None:
        if self._instruments is not None:
            self._instruments.note(perf_counter() - self._began, usage, shared, word)
        if self._span is not None:
            if usage is not None:
                self._span.set_attributes(_counts(usage))
            Tracing.end(self._span, word)

    def _tell(self, name: str, messages: list[dict[str, Any]]) -> None:
        """Tell what was said, if somebody has asked for that; keys are left out even then."""
        if (
            self._span is not None
            and self._span.is_recording()
            and os.environ.get(_CAPTURE, "").strip().lower() in _CAPTURED
        ):
            self._span.set_attribute(name, Redactor(self._target.secrets).text(to_json(messages)))


class _Instruments(NamedTuple):
    """What metrics are noted with."""

    duration: Histogram
    tokens: Histogram

    def note(self, took_s: float, usage: Usage | None, shared: Mapping[str, Any], word: str | None) -> None:
        """Note one call."""
        self.duration.record(took_s, shared if word is None else {**shared, ERROR: word})
        if usage is not None and usage.tokens:
            self.tokens.record(usage.input_tokens, {**shared, TOKEN_TYPE: "input"})
            self.tokens.record(usage.output_tokens, {**shared, TOKEN_TYPE: "output"})


@lru_cache(maxsize=4)
def _instruments(meter: Meter) -> _Instruments:
    said, counted = "How long calls of models took.", "Tokens that calls of models used."
    return _Instruments(
        meter.create_histogram(DURATION, unit="s", description=said, explicit_bucket_boundaries_advisory=_DURATIONS),
        meter.create_histogram(
            TOKENS, unit="{token}", description=counted, explicit_bucket_boundaries_advisory=_COUNTS
        ),
    )


def _begun(tracer: Tracer, request: ModelRequest, shared: Mapping[str, Any]) -> Span:
    from opentelemetry.trace import SpanKind  # noqa: PLC0415

    params = {said: value for name, said in PARAMS.items() if (value := getattr(request, name)) is not None}
    shape = {} if request.schema is None else {OUTPUT_TYPE: "json"}
    stop = {STOP_SEQUENCES: list(request.stop)} if request.stop else {}
    return tracer.start_span(
        f"{_CHAT} {request.model}", kind=SpanKind.CLIENT, attributes={**shared, **params, **shape, **stop}
    )


def _counts(usage: Usage) -> dict[str, int]:
    counts = usage.counts
    always = ("input_tokens", "output_tokens")
    return {said: counts[name] for name, said in USAGE.items() if counts[name] or name in always}


@lru_cache(maxsize=100)
def _server(address: str) -> Mapping[str, Any]:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return {}
    return {} if host is None or port is None else {SERVER_ADDRESS: host, SERVER_PORT: port}


def _answer(response: ModelResponse) -> Message:
    return Message("assistant", response.text, response.tool_calls)


def _said(message: Message) -> dict[str, Any]:
    """Give a message as the conventions write it; an image's data are left out."""
    content = message.content
    if message.role == "tool":
        return {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": message.tool_call_id, "response": message.text}],
        }
    texts = (
        [content] if isinstance(content, str) else [part if isinstance(part, Image) else part.text for part in content]
    )
    return {
        "role": message.role,
        "parts": [*(_part(each) for each in texts if each), *(_called(call) for call in message.tool_calls)],
    }


def _part(content: str | Image) -> dict[str, Any]:
    if isinstance(content, str):
        return {"type": "text", "content": content}
    if content.url is not None:
        return {"type": "uri", "modality": "image", "mime_type": content.media_type, "uri": content.url}
    return {"type": "blob", "modality": "image", "mime_type": content.media_type, "content": ""}


def _called(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": msgspec.to_builtins(call.arguments)}
