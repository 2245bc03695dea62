"""A completion: a model is called until its answer is whole and fits its schema."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from functools import partial
from typing import Any

import msgspec

from graphmill.core.errors import MOST_MESSAGE_CHARS, AttemptError, Permanent, Transient, cut, message_of
from graphmill.core.job import item_of_sample, round_of, without_numbers
from graphmill.core.json import fresh, json_bytes
from graphmill.core.model_call import COMPLETE, FinishReason, Message, ModelRequest, ModelResponse, Origin, ToolCall
from graphmill.core.result import UNMET_SCHEMA, Kind
from graphmill.core.usage import LOST, NO_USAGE, Usage
from graphmill.engine.failures import kind_of
from graphmill.graph.models.answer import AnswerSchema, JsonAnswer, Misfit
from graphmill.graph.models.bounds import most_cost_nano
from graphmill.graph.models.cache import CachedCall, content_key
from graphmill.graph.models.call_record import ModelCall
from graphmill.graph.models.genai import observed_complete
from graphmill.graph.models.request import estimated_tokens
from graphmill.graph.models.target import ModelTarget
from graphmill.graph.node_type import Context
from graphmill.graph.secrets import Redactor

MAX_REASKS = 2
_MAX_PROBLEM_CHARS = 1000
_SCHEMA_PROMPT = (
    "Answer with one JSON value and nothing else: no fence, no words around it. It must fit this JSON Schema:\n"
)
_AGAIN = "That cannot be used: {problem}. Answer again with the whole JSON value, and nothing else."
_KEY_REFUSED = "check the key"  # how a provider's message about a refused key ends


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a model: its ``text`` and, if a schema was given, the ``data`` in it.

    ``usage`` is that of all calls it took. ``metadata`` has the number of ``calls``, and what was ``repaired`` to read
    the data; for a ``cached`` answer also its ``original_usage``.
    """

    text: str
    data: Any = None
    usage: Usage = NO_USAGE
    finish_reason: str = "stop"
    model: str = ""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    logprobs: tuple[Mapping[str, Any], ...] | None = None
    metadata: Mapping[str, Any] = {}

    def to_json(self) -> dict[str, Any]:
        """Return it as data."""
        return msgspec.structs.asdict(self) | {"usage": self.usage.to_json(), "tool_calls": list(self.tool_calls)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Completion:
        """Read what ``to_json`` gave."""
        made = {**data, "usage": Usage.from_json(data["usage"]), "tool_calls": tuple(data["tool_calls"])}
        if data["logprobs"] is not None:
            made["logprobs"] = tuple(data["logprobs"])
        return cls(**made)


async def complete(
    target: ModelTarget,
    request: ModelRequest,
    context: Context,
    *,
    schema: AnswerSchema | None = None,
    cache: bool | None = None,
    role: str | None = None,
) -> Completion:
    """Return a whole answer that fits the schema: a cached one if that may be used, else by calling the model.

    With ``cache=None`` answers at temperature 0 are cached, and no others.
    """
    asked = _with_schema(target, _with_sample_seed(request), schema)
    cached = _cached_call(target, asked, schema, cache)
    ask = partial(_ask_until_valid, target, asked, context, schema, role)
    if cached is None:
        return await ask()
    shared, is_asked = await cached.once(context, ask, is_wanted=cache is True)
    made = _copied(shared)  # by everyone who was given it, before any of them can change it
    if is_asked:
        return made
    return _from_cache(made, ModelCall(target, asked, context, role, is_cached=True), context, target.lane)


async def find_cached(
    target: ModelTarget,
    request: ModelRequest,
    context: Context,
    *,
    schema: AnswerSchema | None = None,
    cache: bool | None = None,
    role: str | None = None,
) -> Completion | None:
    """Return the cached answer; None if there is none."""
    asked = _with_schema(target, _with_sample_seed(request), schema)
    cached = _cached_call(target, asked, schema, cache)
    if cached is None:
        return None
    made = await cached.find(context, is_wanted=cache is True)
    if made is None:
        return None
    return _from_cache(made, ModelCall(target, asked, context, role, is_cached=True), context, target.lane)


def _cached_call(
    target: ModelTarget,
    asked: ModelRequest,
    schema: AnswerSchema | None,
    cache: bool | None,  # noqa: FBT001
) -> CachedCall[Completion] | None:
    """Return a call whose answer may be cached; None for one that may not."""
    if not is_cacheable(target, asked, cache):
        return None
    key = content_key(target, asked, schema)
    if key is None:
        return None
    return CachedCall(key, target.lane, encode=_encode, decode=partial(_decode, schema))


def is_cacheable(target: ModelTarget, request: ModelRequest, cache: bool | None) -> bool:  # noqa: FBT001
    """Return whether an answer may be cached: if ``cache`` says so, or at temperature 0."""
    if cache is False or not getattr(target.provider, "is_cached", True):
        return False
    return cache is True or (request.temperature == 0 and all(value == 0 for value in _temperatures(request.extra)))


def _temperatures(extra: Mapping[str, Any]) -> Iterator[Any]:
    """Find temperatures in ``extra``, at any depth."""
    for name, value in extra.items():
        if name == "temperature":
            yield value
        elif isinstance(value, Mapping):
            yield from _temperatures(value)


async def _ask_until_valid(
    target: ModelTarget, asked: ModelRequest, context: Context, schema: AnswerSchema | None, role: str | None
) -> Completion:
    """Call the model until the answer is whole and fits the schema; the usage of every call is reported as it ends."""
    used, problem = NO_USAGE, ""
    for calls in range(1, MAX_REASKS + 2):
        if calls > 1:
            await context.wait_for_next_call(estimated_tokens(asked))
        call = ModelCall(target, asked, context, role)
        response = await _ask_once(call, target, asked, context)
        used = used + response.usage if calls > 1 else response.usage
        answer = None
        try:
            if schema is not None and response.finish_reason is not FinishReason.TOOL_CALLS:
                answer = schema.read(response.text)
            call.answered(response)
            return _completion(response, used, calls, answer)
        except Misfit as misfit:
            problem = cut(str(misfit), _MAX_PROBLEM_CHARS)
            call.answered(response, problem=problem)
            asked = msgspec.structs.replace(asked, messages=(*asked.messages, *_correction(response.text, problem)))
    error = Permanent(f"{target.lane}: no valid answer in {MAX_REASKS + 1} calls; {problem}")
    error.cause = UNMET_SCHEMA
    raise _with_answer(error, target, response)


async def _ask_once(call: ModelCall, target: ModelTarget, asked: ModelRequest, context: Context) -> ModelResponse:
    """Call the model; return a whole answer, or record why there is none and raise it."""
    response = None
    try:
        response = await call_model(target, asked, context)
        _require_whole(target, asked, response)
    except (AttemptError, TimeoutError, asyncio.CancelledError) as error:
        call.failed(error, response)
        raise
    return response


def _require_whole(target: ModelTarget, asked: ModelRequest, response: ModelResponse) -> None:
    """Raise the error of an answer that is missing or cut off."""
    if response.finish_reason not in COMPLETE and (error := response.error()) is not None:
        raise _with_answer(translate_error(target, error), target, response)
    if not response.text.strip() and not response.tool_calls and not asked.stop:
        raise Transient(f"{target.lane}: the answer is empty")


def _with_answer(error: AttemptError, target: ModelTarget, response: ModelResponse) -> AttemptError:
    """Add the model's answer to an error: whoever fixes the prompt or the schema must see it."""
    error.answer = cut(Redactor(target.secrets).text(response.text), MOST_MESSAGE_CHARS)
    return error


def _completion(response: ModelResponse, used: Usage, calls: int, answer: JsonAnswer | None) -> Completion:
    metadata: dict[str, Any] = {"calls": calls}
    data = logprobs = None
    if answer is not None:
        data = answer.value
        if answer.repaired is not None:
            metadata["repaired"] = answer.repaired
    if response.logprobs is not None:
        logprobs = tuple(asdict(each) for each in response.logprobs)
    return Completion(
        text=response.text,
        data=data,
        usage=used,
        finish_reason=str(response.finish_reason),
        model=response.model,
        tool_calls=tuple(msgspec.to_builtins(call) for call in response.tool_calls),
        logprobs=logprobs,
        metadata=metadata,
    )


def _encode(made: Completion) -> bytes:
    """Encode an answer for the cache, without the data, which are read from its text again."""
    return json_bytes({name: value for name, value in made.to_json().items() if name != "data"})


def _decode(schema: AnswerSchema | None, body: bytes) -> Completion | None:
    """Decode a cached answer; None if it is malformed or does not fit the schema."""
    try:
        made = Completion.from_json(json.loads(body))
        if schema is None or made.tool_calls:
            return made
        return msgspec.structs.replace(made, data=schema.read(made.text).value)
    except (ValueError, TypeError, KeyError, AttributeError, Misfit):
        return None


def _copied(shared: Completion) -> Completion:
    own = {name: fresh(getattr(shared, name)) for name in ("data", "tool_calls", "logprobs", "metadata")}
    return msgspec.structs.replace(shared, **own)


def _from_cache(made: Completion, call: ModelCall, context: Context, model: str) -> Completion:
    """Return a cached answer: it used nothing here, and says what it used originally."""
    call.answered(
        ModelResponse(
            text=made.text,
            finish_reason=FinishReason(made.finish_reason),
            model=made.model,
            tool_calls=tuple(ToolCall(**each) for each in made.tool_calls),
        )
    )
    context.report_usage(Usage(reused=1, saved_nano=made.usage.cost_nano), model, role=call.role)
    metadata = {**made.metadata, "calls": 0, "cached": True, "original_usage": made.usage.to_json()}
    return msgspec.structs.replace(made, usage=NO_USAGE, metadata=metadata)


def _with_schema(target: ModelTarget, request: ModelRequest, schema: AnswerSchema | None) -> ModelRequest:
    """Add the schema: for the provider to enforce if it can, else in words."""
    if schema is None:
        return request
    if target.is_native:
        return msgspec.structs.replace(request, schema=schema.json)
    words = _SCHEMA_PROMPT + schema.text
    first, *others = request.messages
    if first.role == "system" and isinstance(first.content, str):
        return msgspec.structs.replace(request, messages=(Message("system", f"{first.content}\n\n{words}"), *others))
    return msgspec.structs.replace(request, messages=(Message("system", words), *request.messages))


def _correction(text: str, problem: str) -> tuple[Message, Message]:
    return Message("assistant", text), Message("user", _AGAIN.format(problem=problem))


def origin_of(context: Context, role: str | None = None) -> Origin:
    """Say which step makes a call."""
    return Origin(
        item=item_of_sample(context.item, context.sample),
        path=context.path,
        node=without_numbers(context.path.rpartition("/")[2]),
        role=role or "",
        round=round_of(context.path) or 1,
        sample=context.sample,
        attempt=context.attempt,
        input=context.job_input,
    )


def _with_sample_seed(request: ModelRequest) -> ModelRequest:
    """Give each sample of an item its own seed, if there is a seed."""
    if request.seed is None or request.origin.sample <= 1:
        return request
    return msgspec.structs.replace(request, seed=request.seed + request.origin.sample - 1)


async def call_model(
    target: ModelTarget, request: ModelRequest, context: Context, *, timeout_s: float | None = None
) -> ModelResponse:
    """Call a model once. Usage is reported even when the call fails; errors hold no secrets."""
    model = context.shared(("access", target.lane), partial(_ModelAccess, target, context))
    access = model.access
    reserved = _Reserved(target.lane, request.origin.role, context)
    unknown = LOST if context.has_budget else None  # where the provider does not say whether a request was sent
    if context.has_budget:
        await reserved.reserve(most_cost_nano(target, request, access.address), estimated_tokens(request))
    try:
        response = await model.complete(
            request,
            session=model.session,
            address=access.address,
            key=access.key,
            headers=access.headers,
            timeout_s=timeout_s,
        )
    except asyncio.CancelledError as error:
        reserved.settle(getattr(error, "usage", unknown), is_answer=False)  # None if it was not sent
        raise
    except TimeoutError:
        reserved.settle(unknown, is_answer=False)
        raise TimeoutError(f"{target.lane}: no answer in time") from None
    except Exception as error:  # noqa: BLE001  a provider may be third-party code: its errors are translated
        reserved.settle(error.usage if isinstance(error, AttemptError) else unknown, is_answer=False)
        if isinstance(error, AttemptError) and error.limits is not None:
            context.report_limits(target, error.limits)
        raise translate_error(target, error) from None
    reserved.settle(response.usage)
    if response.limits is not None:
        context.report_limits(target, response.limits)
    return response


class _Reserved:
    """A call that may be made; ``nano`` is what a budget has reserved for it, None without one."""

    __slots__ = ("_context", "_lane", "_role", "nano")

    def __init__(self, lane: str, role: str, context: Context) -> None:
        self._lane = lane
        self._role = role
        self._context = context
        self.nano: int | None = None

    async def reserve(self, nano: int, tokens: int) -> None:
        """Wait until the budget has room for a call that costs at most this, then for its turn if that has passed."""
        with _paused(call_timeout.get()):
            has_waited = await self._context.reserve(nano)
            self.nano = nano
            if not has_waited:
                return
            try:
                await self._context.wait_for_next_call(tokens)
            except BaseException:
                self.settle(None)
                raise

    def settle(self, usage: Usage | None, *, is_answer: bool = True) -> None:
        """Report what the call used; under a budget a request whose cost is not known used all that was reserved."""
        nano = self.nano or 0
        if usage is None:
            self._context.release(nano)
            return
        if nano and usage.unpriced:
            usage = msgspec.structs.replace(usage, lost_nano=max(0, nano - usage.cost_nano))
        self._context.report_usage(usage, self._lane, role=self._role, is_answer=is_answer, reserved_nano=nano)


call_timeout: ContextVar[asyncio.Timeout | None] = ContextVar("graphmill_call_timeout", default=None)


@contextmanager
def _paused(timeout: asyncio.Timeout | None) -> Iterator[None]:
    """Stop a call's own timeout in this block."""
    if timeout is None or (at := timeout.when()) is None:
        yield
        return
    clock = asyncio.get_running_loop().time
    left_s = at - clock()
    timeout.reschedule(None)
    try:
        yield
    finally:
        timeout.reschedule(clock() + left_s)


async def _complete_priced(target: ModelTarget, request: ModelRequest, *, address: str, **access: Any) -> ModelResponse:
    """Call the provider, and price what the response says was used, even one without an answer."""
    prices = target.prices
    try:
        response = await target.provider.complete(request, address=address, **access)
    except (AttemptError, asyncio.CancelledError) as error:
        if (used := getattr(error, "usage", None)) is not None:
            error.usage = prices.price(used, address, extra=request.extra)  # type: ignore[union-attr]
        raise
    used = prices.price(response.usage, address, served=response.model, tier=response.service_tier, extra=request.extra)
    return response if used is response.usage else msgspec.structs.replace(response, usage=used)


class _ModelAccess:
    """Address, key and session for the calls of one model during a run: the environment is read once, not per call."""

    def __init__(self, target: ModelTarget, context: Context) -> None:
        self.access = target.access()
        self.session = context.shared(("model", target.provider.name), target.provider.open)
        self.complete = observed_complete(target, partial(_complete_priced, target))

    async def close(self) -> None:
        """Forget the key."""
        del self.access


def translate_error(target: ModelTarget, error: Exception) -> AttemptError:
    """Return an error without secrets that names the model and, for a refused key, the variable of the key."""
    said = _named(target, Redactor(target.secrets).text(message_of(error)))
    if isinstance(error, AttemptError):
        error.args, error.__notes__ = (said,), []
        return error
    # A bug in a provider: the traceback helps to fix it.
    kind = Permanent if kind_of(error) is Kind.PERMANENT else Transient
    return kind(f"{type(error).__name__}: {said}").with_traceback(error.__traceback__)


def _named(target: ModelTarget, message: str) -> str:
    """Name the model in place of the protocol, which servers of other names speak too."""
    text = message if target.lane in message else f"{target.lane}: {message}"
    protocol = target.provider.name
    if message.startswith((f"{protocol} returned ", f"{protocol}: ")):
        text = f"{target.lane}{message.removeprefix(protocol)}"
    if text.endswith(_KEY_REFUSED):
        return f"{text}{_key_hint(target)}"
    return text


def _key_hint(target: ModelTarget) -> str:
    if not target.key_variable:
        return f": none was sent; write providers: {{{target.name}: {{key: {{env: NAME}}}}}} in graphmill.yaml"
    if os.environ.get(target.key_variable):
        return f" in {target.key_variable}"
    return f": none was sent; set {target.key_variable}"
