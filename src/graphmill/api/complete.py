"""A model asked from plain Python: the same step as the llm node's, durable inside a job."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Self, TypeVar

import msgspec

from graphmill.api.recording import kept_beside
from graphmill.core.errors import Permanent, UsageError
from graphmill.core.json import canonical, digest
from graphmill.core.model_call import ModelRequest
from graphmill.engine.bridge import blocking
from graphmill.engine.frame import current, frame_here
from graphmill.engine.rate_limits import Limits, RateLimiter, Reservation
from graphmill.engine.shared import C, Shared
from graphmill.engine.steps import done_in
from graphmill.graph.models.answer import AnswerSchema, is_model, schema_of
from graphmill.graph.models.cache import asked, is_cacheable
from graphmill.graph.models.completion import Completion, known, origin_of
from graphmill.graph.models.completion import complete as completed
from graphmill.graph.models.models import Models
from graphmill.graph.models.request import estimated_tokens, messages_of, request_of
from graphmill.graph.models.target import Target
from graphmill.graph.node_params import given_params
from graphmill.graph.node_type import Context
from graphmill.nodes.llm import Llm

_STEP = "complete"
T = TypeVar("T")
_LLM = Llm()


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
    """Ask a model; inside a job this is a durable step: once it has an answer it is not asked again, also after ``kill -9``.

    In an async function write ``await gm.complete("openai/gpt-5-mini", prompt)``, in a plain one leave ``await`` out. ``model`` is
    ``provider/model`` or a name that graphmill.yaml gives one; ``prompt`` is text, or messages ``{role, content}``. With a
    ``role`` of graphmill.yaml no model is named: ``gm.complete(prompt=…, role="judge")``; with neither, it is the one named default.
    It gives a Completion; with a ``schema``, a JSON Schema or a pydantic model, the data or the instance instead, unless the model asks
    for tools.

    An answer that is known may be used again with ``cache=True`` and, unless that is False, at temperature 0.

    An answer that is cut, refused or of the wrong shape is raised, never given. In a job that is a StepError, once the batch's
    retries are used up; outside of one, the AttemptError itself.
    """
    if not isinstance(model, str | None):
        raise UsageError(f"a model is a name such as 'openai/gpt-5-mini', not {model!r:.80}")
    if model is not None and role is not None:
        raise UsageError(f"model and role are both given; leave one out: gm.complete(prompt=…, role={role!r:.80})")
    if cache is not None and not isinstance(cache, bool):
        raise UsageError(f"cache is True, False or None, not {cache!r:.80}")
    if prompt is None and model is not None:
        raise UsageError(
            f"there is no prompt: the first argument, {model!r:.80}, is the model; say gm.complete(model, prompt) or prompt=…"
        )
    if not isinstance(prompt, Sequence):
        raise UsageError(f"a prompt is text, or a list of messages {{role, content}}, not {prompt!r:.80}")
    if timeout_s is not None and not (isinstance(timeout_s, int | float) and timeout_s > 0):
        raise UsageError(f"timeout_s is a number of seconds > 0, not {timeout_s!r:.80}")
    if isinstance(schema, type) and not is_model(schema):
        raise UsageError(f"a schema must be a JSON Schema, as a dict, or a pydantic model, got {schema!r:.80}")
    target, shape = Models.here().find(model, role, is_node=False), None if schema is None else schema_of(schema)
    messages = (
        _meant(messages_of, prompt, system)
        if isinstance(prompt, str)
        else _meant(messages_of, None, system, list(prompt))
    )
    if not messages:
        raise UsageError("there is nothing to ask: prompt is empty")
    params = {"temperature": temperature, "top_p": top_p, "max_tokens": max_tokens, "stop": stop, "seed": seed}
    own = dict(extra) if isinstance(extra, Mapping) else extra
    more = {"reasoning_effort": reasoning_effort, "tools": tools or None, "logprobs": logprobs, "extra": own or None}
    given = given_params(_LLM, params | more, of="gm.complete")
    return _asked(_Call(target, _meant(request_of, target, messages, given), shape, timeout_s, cache=cache))


def _meant(make: Callable[..., T], *given: Any) -> T:
    """Make something of what is given; what can not be is a mistake of the program, not a failure of a call."""
    try:
        return make(*given)
    except Permanent as error:
        raise UsageError(f"gm.complete: {error}") from None


class _Call:
    """One question, ready to be asked."""

    def __init__(
        self,
        target: Target,
        request: ModelRequest,
        schema: AnswerSchema | None,
        timeout_s: float | None,
        *,
        cache: bool | None,
    ) -> None:
        self._target = target
        self._request = request
        self._schema = schema
        self._timeout_s = timeout_s
        self._cache = cache

    def content(self) -> bytes:
        """Hash what is asked, and of which model; where that is does not count: it may be another server after a resume."""
        return digest(canonical([self._target.lane, asked(self._request, self._schema)]))

    async def ask(self, context: Context) -> Completion:
        """Ask, within the time that is set for it."""
        async with asyncio.timeout(self._timeout_s):
            return await completed(self._target, self._of(context), context, schema=self._schema, cache=self._cache)

    async def known(self, context: Context) -> Completion | None:
        """Give an answer for which nobody has to be asked, and so no turn be waited for."""
        return await known(self._target, self._of(context), context, schema=self._schema, cache=self._cache)

    def _of(self, context: Context) -> ModelRequest:
        return msgspec.structs.replace(self._request, origin=origin_of(context))

    async def ask_here(self) -> dict[str, Any]:
        """Ask in the frame of a step."""
        frame, target = current.get(), self._target
        context = Context(frame.path, frame)
        look = partial(self.known, context) if is_cacheable(target, self._request, self._cache) else None
        made = await frame.steps.visits.call(
            frame, target.lane, target.limits, self._weight(), partial(self.ask, context), known=look
        )
        return made.to_json()

    async def ask_alone(self, context: Alone) -> Completion:
        """Ask outside of a run; the limits that are set are those of its process."""
        if (limits := self._target.limits) is None:
            return await self.ask(context)
        if (found := await self.known(context)) is not None:
            return found
        async with context.turn(limits, self._weight()) as turn:
            made = await self.ask(context)
            turn.used = None if made.metadata.get("cached") else made.usage.tokens
            return made

    def _weight(self) -> int:
        return estimated_tokens(self._request, "" if self._schema is None else self._schema.text)

    def given(self, made: Completion) -> Any:
        """Give what whoever asked is given."""
        return made if self._schema is None or made.tool_calls else self._schema.made(made.data)


def _asked(call: _Call) -> Any:
    frame = frame_here()
    if frame is None:
        return _alone(call)
    return done_in(
        frame, partial(_in_a_job, call, partial(frame.steps.perform, frame, _STEP, call.content(), call.ask_here))
    )


async def _in_a_job(call: _Call, perform: Callable[[], Awaitable[Any]]) -> Any:
    return call.given(Completion.from_json(await perform()))


def _alone(call: _Call) -> Any:
    """Ask outside of a batch: nothing is recorded, and nothing tried again."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return blocking(_ask_alone)(call)
    return _ask_alone(call)


async def _ask_alone(call: _Call) -> Any:
    with kept_beside(None):
        async with Alone(_STEP) as context:
            return call.given(await call.ask_alone(context))


_CLOSE_S = 5.0


class Turn:
    """A call that is under way; ``used`` are its tokens, as they were reserved until more is known, or None if nobody was asked."""

    def __init__(self, reserved: Reservation) -> None:
        self.reserved = reserved
        self.used: int | None = reserved.tokens


class Alone(Context):
    """What calls share while it is entered is closed when it is left."""

    __slots__ = ("_limiter", "_shared")

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._shared = Shared()
        self._limiter: RateLimiter | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._shared.close(_CLOSE_S)

    def shared(self, key: Hashable, make: Callable[[], C]) -> C:
        """Give what goes by this key, made now if nobody asked for it before."""
        return self._shared.get(key, make)

    @asynccontextmanager
    async def turn(self, limits: Limits, weight: int) -> AsyncIterator[Turn]:
        """Wait until the limits allow a call of so many tokens, beside all others of this process."""
        self._limiter = RateLimiter.for_account(limits, asyncio.get_running_loop().time)
        turn = Turn(await self._reserved(self._limiter, weight))
        try:
            yield turn
        finally:
            if turn.used is None:
                self._limiter.cancel(turn.reserved)
            else:
                self._limiter.settle(turn.reserved, turn.used)

    async def again(self, weight: int) -> None:
        """Wait until one more call is allowed."""
        if self._limiter is not None:
            reserved = await self._reserved(self._limiter, weight)
            self._limiter.settle(reserved, reserved.tokens)

    @staticmethod
    async def _reserved(limiter: RateLimiter, weight: int) -> Reservation:
        clock = asyncio.get_running_loop().time
        while (wait_s := limiter.opens_at(weight) - clock()) > 0:  # noqa: ASYNC110  others move that time
            await asyncio.sleep(wait_s)
        return limiter.reserve(clock(), weight)
