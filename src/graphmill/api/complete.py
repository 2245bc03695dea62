"""Call a model from plain Python, a durable step inside a job as the llm node is; or report what such a call used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Self, TypeVar

import msgspec

from graphmill.api.recording import cache_for_run
from graphmill.core.errors import Permanent, UsageError
from graphmill.core.json import canonical, digest
from graphmill.core.model_call import ModelRequest
from graphmill.core.usage import Usage, to_nano
from graphmill.engine.attempts.workers import C, SharedResources
from graphmill.engine.bridge import blocking
from graphmill.engine.jobs.context import AttemptContext, current_context, find_context
from graphmill.engine.jobs.steps import run_on_loop
from graphmill.engine.scheduling.rate_limits import Limits, RateLimiter, Reservation
from graphmill.graph.models.answer import AnswerSchema, is_model, schema_of
from graphmill.graph.models.cache import request_data
from graphmill.graph.models.completion import Completion, call_timeout, find_cached, is_cacheable, origin_of
from graphmill.graph.models.completion import complete as completed
from graphmill.graph.models.models import Models
from graphmill.graph.models.request import estimated_tokens, messages_of, request_of
from graphmill.graph.models.target import ModelTarget
from graphmill.graph.node_params import given_params
from graphmill.graph.node_type import Context
from graphmill.nodes.llm import LlmNode

_STEP = "complete"
T = TypeVar("T")
_LLM = LlmNode()


def complete(  # noqa: PLR0913  one parameter per choice
    model: str | None = None,
    prompt: str | Sequence[Mapping[str, Any]] | None = None,
    *,
    role: str | None = None,
    schema: Any = None,
    system: str | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    max_tokens: int | None = None,
    stop: str | Sequence[str] | None = None,
    seed: int | None = None,
    reasoning_effort: str | None = None,
    tools: Sequence[Mapping[str, Any]] = (),
    logprobs: bool | int | None = None,
    extra: Mapping[str, Any] | None = None,
    timeout_s: float | None = None,
    cache: bool | None = None,
) -> Any:
    """Call a model. Inside a job this is a durable step: once answered, it is not called again, even after ``kill -9``.

    In an async function write ``await gm.complete("openai/gpt-5-mini", prompt)``, in a plain one leave ``await`` out.
    ``model`` is ``provider/model`` or a name from graphmill.yaml; ``role`` is a role from there instead; with neither,
    it is the model named default. ``prompt`` is text, or messages ``{role, content}``.

    Returns a Completion. With a ``schema`` (a JSON Schema or a pydantic model) it returns the data or the instance
    instead, unless the model asks for tools. Cached answers are used with ``cache=True`` and, unless it is False, at
    temperature 0.

    A cut, refused or badly shaped answer is raised: inside a job as StepError once the retries are used up, outside of
    one as the AttemptError itself.
    """
    _require_model_and_prompt(model, role, prompt)
    _require_options(schema, timeout_s, cache)
    target = Models.here().find(model, role, is_node=False)
    shape = None if schema is None else schema_of(schema)
    if isinstance(prompt, str):
        messages = _as_usage_error(messages_of, prompt, system)
    else:
        messages = _as_usage_error(messages_of, None, system, list(prompt or ()))
    if not messages:
        raise UsageError("prompt is empty")
    params = {
        "temperature": temperature,
        "top_p": top_p,
        "max_tokens": max_tokens,
        "stop": stop,
        "seed": seed,
        "reasoning_effort": reasoning_effort,
        "tools": tools or None,
        "logprobs": logprobs,
        "extra": (dict(extra) if isinstance(extra, Mapping) else extra) or None,
    }
    given = given_params(_LLM, params, of="gm.complete")
    request = _as_usage_error(request_of, target, messages, given)
    return _call(_PreparedCall(target, request, shape, timeout_s, cache=cache, role=role))


def _require_model_and_prompt(model: Any, role: Any, prompt: Any) -> None:
    if not isinstance(model, str | None):
        raise UsageError(f"model must be a name such as 'openai/gpt-5-mini', got {model!r:.80}")
    if model is not None and role is not None:
        raise UsageError(f"model and role are both given; leave one out: gm.complete(prompt=…, role={role!r:.80})")
    if prompt is None and model is not None:
        raise UsageError(f"no prompt: the first argument, {model!r:.80}, is the model; use gm.complete(model, prompt)")
    if not isinstance(prompt, Sequence):
        raise UsageError(f"prompt must be text or a list of messages {{role, content}}, got {prompt!r:.80}")


def _require_options(schema: Any, timeout_s: Any, cache: Any) -> None:
    if cache is not None and not isinstance(cache, bool):
        raise UsageError(f"cache must be True, False or None, got {cache!r:.80}")
    if timeout_s is not None and not (isinstance(timeout_s, int | float) and timeout_s > 0):
        raise UsageError(f"timeout_s must be a number > 0, got {timeout_s!r:.80}")
    if isinstance(schema, type) and not is_model(schema):
        raise UsageError(f"schema must be a JSON Schema (a dict) or a pydantic model, got {schema!r:.80}")


def _as_usage_error(make: Callable[..., T], *given: Any) -> T:
    """Call a function whose failure here is a mistake of the program, not a failed call."""
    try:
        return make(*given)
    except Permanent as error:
        raise UsageError(f"gm.complete: {error}") from None


class _PreparedCall:
    """One call, ready to be made."""

    def __init__(
        self,
        target: ModelTarget,
        request: ModelRequest,
        schema: AnswerSchema | None,
        timeout_s: float | None,
        *,
        cache: bool | None,
        role: str | None,
    ) -> None:
        self._target = target
        self._request = request
        self._schema = schema
        self._timeout_s = timeout_s
        self._cache = cache
        self._given: dict[str, Any] = {"schema": schema, "cache": cache, "role": role}

    def content(self) -> bytes:
        """Hash the request and the model's name, but not its address: after a resume it may be another server."""
        return digest(canonical([self._target.lane, request_data(self._request, self._schema)]))

    async def ask(self, context: Context) -> Completion:
        """Make the call, within its timeout, which stands still while the call waits for a budget."""
        async with asyncio.timeout(self._timeout_s) as limit:
            token = call_timeout.set(limit)
            try:
                return await completed(self._target, self._of(context), context, **self._given)
            finally:
                call_timeout.reset(token)

    async def known(self, context: Context) -> Completion | None:
        """Return a cached answer, which needs no rate limit."""
        return await find_cached(self._target, self._of(context), context, **self._given)

    def _of(self, context: Context) -> ModelRequest:
        return msgspec.structs.replace(self._request, origin=origin_of(context, self._given["role"]))

    async def ask_here(self) -> dict[str, Any]:
        """Make the call inside a step of a job."""
        attempt, target = current_context.get(), self._target
        context = Context(attempt.path, attempt)
        look = partial(self.known, context) if is_cacheable(target, self._request, self._cache) else None
        made = await attempt.steps.nested_calls.call(
            attempt, target.lane, target.limits, self._estimated_tokens(), partial(self.ask, context), find_cached=look
        )
        return made.to_json()

    async def ask_alone(self, context: StandaloneContext) -> Completion:
        """Make the call outside of a run, within the rate limits of this process."""
        if (limits := self._target.limits) is None:
            return await self.ask(context)
        if (found := await self.known(context)) is not None:
            return found
        async with context.turn(limits, self._estimated_tokens()) as turn:
            made = await self.ask(context)
            turn.used = None if made.metadata.get("cached") else made.usage.tokens
            return made

    def _estimated_tokens(self) -> int:
        return estimated_tokens(self._request, "" if self._schema is None else self._schema.text)

    def given(self, made: Completion) -> Any:
        """Return what the caller gets: the completion, or its data in the shape of the schema."""
        if self._schema is None or made.tool_calls:
            return made
        return self._schema.instance(made.data)


def _call(call: _PreparedCall) -> Any:
    attempt = find_context()
    if attempt is None:
        return _alone(call)
    return run_on_loop(
        attempt, partial(_in_a_job, call, partial(attempt.steps.perform, attempt, _STEP, call.content(), call.ask_here))
    )


async def _in_a_job(call: _PreparedCall, perform: Callable[[], Awaitable[Any]]) -> Any:
    return call.given(Completion.from_json(await perform()))


def _alone(call: _PreparedCall) -> Any:
    """Call outside of a batch: nothing is recorded or retried."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return blocking(_ask_alone)(call)
    return _ask_alone(call)


async def _ask_alone(call: _PreparedCall) -> Any:
    with cache_for_run(None):
        async with StandaloneContext(_STEP) as context:
            return call.given(await call.ask_alone(context))


_CLOSE_S = 5.0


class RateLimitTurn:
    """A call within rate limits; ``used`` are its tokens, at first the reserved ones; None if no request was sent."""

    def __init__(self, reserved: Reservation) -> None:
        self.reserved = reserved
        self.used: int | None = reserved.tokens


class StandaloneContext(Context):
    """The context of a call outside of any run; what calls share is closed at its end."""

    __slots__ = ("_limiter", "_shared")

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._shared = SharedResources()
        self._limiter: RateLimiter | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._shared.close(_CLOSE_S)

    def shared(self, key: Hashable, make: Callable[[], C]) -> C:
        """Return the shared object of this key; make it at the first call."""
        return self._shared.get(key, make)

    @asynccontextmanager
    async def turn(self, limits: Limits, weight: int) -> AsyncIterator[RateLimitTurn]:
        """Wait until the rate limits allow a call of so many tokens, beside all others of this process."""
        self._limiter = RateLimiter.for_account(limits, asyncio.get_running_loop().time)
        turn = RateLimitTurn(await self._reserve(self._limiter, weight))
        try:
            yield turn
        finally:
            if turn.used is None:
                self._limiter.cancel(turn.reserved)
            else:
                self._limiter.settle(turn.reserved, turn.used)

    async def wait_for_next_call(self, estimated_tokens: int) -> None:
        """Wait until the rate limits allow one more request."""
        if self._limiter is not None:
            reserved = await self._reserve(self._limiter, estimated_tokens)
            self._limiter.settle(reserved, reserved.tokens)

    @staticmethod
    async def _reserve(limiter: RateLimiter, weight: int) -> Reservation:
        clock = asyncio.get_running_loop().time
        while (wait_s := limiter.opens_at(weight) - clock()) > 0:  # noqa: ASYNC110  other calls move that time
            await asyncio.sleep(wait_s)
        return limiter.reserve(clock(), weight)


def report_usage(
    model: str,
    *,
    input_tokens: int = 0,
    output_tokens: int = 0,
    cached_tokens: int = 0,
    reasoning_tokens: int = 0,
    requests: int = 1,
    cost_usd: float | None = None,
) -> None:
    """Report the usage of a model call made with another client.

    ``model`` is ``provider/model`` or a name in ``graphmill.yaml``; its tokens are priced as those of other calls,
    unless ``cost_usd`` says what they cost. ``input_tokens`` include ``cached_tokens``, ``output_tokens`` the
    reasoning. Outside of a run nothing is added.
    """
    cost_nano = None
    if cost_usd is not None:
        try:
            cost_nano = to_nano(cost_usd)
        except ValueError:
            raise UsageError(f"cost_usd must be a number >= 0, got {cost_usd!r:.80}") from None
    if not isinstance(model, str) or not model:
        raise UsageError(f"model must be a name such as 'openai/gpt-5-mini', got {model!r:.80}")
    try:
        usage = Usage(
            requests=requests,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cached_tokens=cached_tokens,
            reasoning_tokens=reasoning_tokens,
            unpriced=0 if cost_nano is not None else requests,
            reported=0 if cost_nano is None else requests,
            cost_nano=cost_nano or 0,
        )
    except ValueError as error:
        raise UsageError(f"gm.report_usage: {error}") from None
    context = find_context()
    if context is not None:
        lane, priced = Models.here().price(model, usage)
        _on_loop(context, partial(context.report, priced, lane))


def _on_loop(context: AttemptContext, report: Callable[[], None]) -> None:
    try:
        is_there = asyncio.get_running_loop() is context.loop
    except RuntimeError:
        is_there = False
    if is_there:
        report()
    else:
        asyncio.run_coroutine_threadsafe(_report_there(report), context.loop).result()


async def _report_there(report: Callable[[], None]) -> None:
    report()
