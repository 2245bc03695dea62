"""A completion: a model is called until its answer is whole and fits its schema."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import msgspec

from graphmill.core.errors import MOST_MESSAGE_CHARS, AttemptError, Permanent, Transient, cut, message_of
from graphmill.core.json import fresh, json_bytes
from graphmill.core.model_call import FinishReason, Message, ModelRequest, ModelResponse, Origin
from graphmill.core.result import Kind
from graphmill.core.usage import NO_USAGE, REUSED, Usage
from graphmill.engine.failures import kind_of
from graphmill.graph.models.answer import AnswerSchema, JsonAnswer, Misfit
from graphmill.graph.models.cache import Kept, content_key, is_cacheable
from graphmill.graph.models.genai import observed_complete
from graphmill.graph.models.request import estimated_tokens
from graphmill.graph.models.target import ModelTarget
from graphmill.graph.node_type import Context
from graphmill.graph.secrets import Redactor

MOST_REASKS = 2
_MOST_TOLD = 1000
_ROUND = re.compile(r"@(\d+)")
_ASKED = "Answer with one JSON value and nothing else: no fence, no words around it. It must fit this JSON Schema:\n"
_AGAIN = "That can not be used: {problem}. Answer again with the whole JSON value, and nothing else."
_KEY_REFUSED = "check the key"  # how providers end what they say of one


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """What a model has answered: its ``text``, and, where a schema was given, the ``data`` in it.

    ``usage`` is of all calls that it took, ``metadata`` says how many these were and what had to be left out to read the data; of an
    answer that was not asked for here but used again, that it is ``cached``, and its ``original_usage``.
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
        """Give it as data."""
        return msgspec.structs.asdict(self) | {"usage": self.usage.to_json(), "tool_calls": list(self.tool_calls)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Completion:
        """Read what ``to_json`` gave."""
        logprobs = data["logprobs"]
        made = {"usage": Usage.from_json(data["usage"]), "tool_calls": tuple(data["tool_calls"])}
        return cls(**{**data, **made, "logprobs": None if logprobs is None else tuple(logprobs)})


async def complete(
    target: ModelTarget,
    request: ModelRequest,
    context: Context,
    *,
    schema: AnswerSchema | None = None,
    cache: bool | None = None,
) -> Completion:
    """Give a whole answer that has its shape: one that is known, if this may be, or else asked for.

    Without ``cache``, the same is expected of the same call at temperature 0, and not else.
    """
    asked = _shaped(target, _seeded(request), schema)
    kept = _kept(target, asked, schema, cache)
    if kept is None:
        return await _asked(target, asked, context, schema)
    shared, is_asked = await kept.once(
        context, partial(_asked, target, asked, context, schema), is_wanted=cache is True
    )
    made = _copied(shared)  # by all who were given it, before any of them can change it
    return made if is_asked else _used_again(made, context, target.lane)


async def known(
    target: ModelTarget,
    request: ModelRequest,
    context: Context,
    *,
    schema: AnswerSchema | None = None,
    cache: bool | None = None,
) -> Completion | None:
    """Give the answer if it is kept; None where somebody has to be asked."""
    kept = _kept(target, _shaped(target, _seeded(request), schema), schema, cache)
    made = None if kept is None else await kept.found(context, is_wanted=cache is True)
    return None if made is None else _used_again(made, context, target.lane)


def _kept(
    target: ModelTarget,
    asked: ModelRequest,
    schema: AnswerSchema | None,
    cache: bool | None,  # noqa: FBT001
) -> Kept[Completion] | None:
    """Give the way to an answer that may be used again; None for one that may not."""
    key = content_key(target, asked, schema) if is_cacheable(target, asked, cache) else None
    return None if key is None else Kept(key, target.lane, written=_written, read=partial(_read, schema))


async def _asked(target: ModelTarget, asked: ModelRequest, context: Context, schema: AnswerSchema | None) -> Completion:
    """Ask until the answer is whole and has its shape; every call is counted, and reported to the attempt as it ends."""
    used, problem = None, ""
    for calls in range(1, MOST_REASKS + 2):
        if calls > 1:
            await context.again(estimated_tokens(asked))
        response = await ask(target, asked, context)
        used = response.usage if used is None else used + response.usage
        _require_whole(target, asked, response)
        if schema is None or response.finish_reason is FinishReason.TOOL_CALLS:
            return _completion(response, used, calls, None)
        try:
            return _completion(response, used, calls, schema.read(response.text))
        except Misfit as misfit:
            problem = cut(str(misfit), _MOST_TOLD)
            asked = msgspec.structs.replace(asked, messages=(*asked.messages, *_reproach(response.text, problem)))
    error = Permanent(f"{target.lane}: asked {MOST_REASKS + 1} times, {problem}")
    raise _with_answer(error, target, response)


def _require_whole(target: ModelTarget, asked: ModelRequest, response: ModelResponse) -> None:
    """Raise what an answer means that is none, or is cut."""
    if (error := response.error()) is not None:
        raise _with_answer(translate_error(target, error), target, response)
    if not response.text.strip() and not response.tool_calls and not asked.stop:
        raise Transient(f"{target.lane}: the answer is empty")


def _with_answer(error: AttemptError, target: ModelTarget, response: ModelResponse) -> AttemptError:
    """Let an error hold what the model has said: whoever mends prompt or schema must read it."""
    error.answer = cut(Redactor(target.secrets).text(response.text), MOST_MESSAGE_CHARS)
    return error


def _completion(response: ModelResponse, used: Usage, calls: int, answer: JsonAnswer | None) -> Completion:
    repaired = {} if answer is None or answer.repaired is None else {"repaired": answer.repaired}
    return Completion(
        text=response.text,
        data=None if answer is None else answer.value,
        usage=used,
        finish_reason=str(response.finish_reason),
        model=response.model,
        tool_calls=tuple(msgspec.to_builtins(call) for call in response.tool_calls),
        logprobs=None if response.logprobs is None else tuple(asdict(each) for each in response.logprobs),
        metadata={"calls": calls, **repaired},
    )


def _written(made: Completion) -> bytes:
    """Give what is kept of an answer: what is read from its text is read from it again."""
    return json_bytes({name: value for name, value in made.to_json().items() if name != "data"})


def _read(schema: AnswerSchema | None, body: bytes) -> Completion | None:
    """Read what was kept; None for what is of another kind, or would not be taken for an answer now."""
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


def _used_again(made: Completion, context: Context, model: str) -> Completion:
    """Give an answer that was not asked for here: it took nothing, and says what it took whoever asked."""
    context.report_usage(REUSED, model)
    metadata = {**made.metadata, "calls": 0, "cached": True, "original_usage": made.usage.to_json()}
    return msgspec.structs.replace(made, usage=NO_USAGE, metadata=metadata)


def _shaped(target: ModelTarget, request: ModelRequest, schema: AnswerSchema | None) -> ModelRequest:
    """Ask for the shape: by the provider where it has the means, else in words."""
    if schema is None:
        return request
    if target.is_native:
        return msgspec.structs.replace(request, schema=schema.json)
    words = _ASKED + schema.text
    first, *others = request.messages
    if first.role == "system" and isinstance(first.content, str):
        return msgspec.structs.replace(request, messages=(Message("system", f"{first.content}\n\n{words}"), *others))
    return msgspec.structs.replace(request, messages=(Message("system", words), *request.messages))


def _reproach(text: str, problem: str) -> tuple[Message, Message]:
    return Message("assistant", text), Message("user", _AGAIN.format(problem=problem))


def origin_of(context: Context) -> Origin:
    """Tell which step asks."""
    rounds = _ROUND.findall(context.path) if "@" in context.path else ()
    number = int(rounds[-1]) if rounds else 1
    return Origin(item=context.item, path=context.path, round=number, sample=context.sample, attempt=context.attempt)


def _seeded(request: ModelRequest) -> ModelRequest:
    """Give each sample of an item a seed of its own, if it has one."""
    if request.seed is None or request.origin.sample <= 1:
        return request
    return msgspec.structs.replace(request, seed=request.seed + request.origin.sample - 1)


async def ask(
    target: ModelTarget, request: ModelRequest, context: Context, *, timeout_s: float | None = None
) -> ModelResponse:
    """Call a model once. Usage is reported even when the call fails; errors hold no secrets."""
    door = context.shared(("door", target.lane), partial(_Door, target, context))
    access = door.access
    try:
        response = await door.complete(
            request,
            session=door.session,
            address=access.address,
            key=access.key,
            headers=access.headers,
            timeout_s=timeout_s,
        )
    except asyncio.CancelledError as error:
        if (usage := getattr(error, "usage", None)) is not None:  # it was sent, and is no longer waited for
            context.report_usage(usage, target.lane, is_answer=False)
        raise
    except TimeoutError:
        raise TimeoutError(f"{target.lane}: no answer in time") from None
    except Exception as error:  # noqa: BLE001  a provider may be third-party code: its errors are translated
        if isinstance(error, AttemptError) and error.usage is not None:
            context.report_usage(error.usage, target.lane, is_answer=False)
        if isinstance(error, AttemptError) and error.limits is not None:
            context.report_limits(target, error.limits)
        raise translate_error(target, error) from None
    context.report_usage(response.usage, target.lane)
    if response.limits is not None:
        context.report_limits(target, response.limits)
    return response


class _Door:
    """How the calls of one model are let in, and over what, for as long as a run lasts: the environment is not read for each of them."""

    def __init__(self, target: ModelTarget, context: Context) -> None:
        self.access = target.access()
        self.session = context.shared(("model", target.provider.name), target.provider.open)
        self.complete = observed_complete(target)

    async def close(self) -> None:
        """Forget the key."""
        del self.access


def translate_error(target: ModelTarget, error: Exception) -> AttemptError:
    """Return an error without secrets that names the model and, for a refused key, the variable of the key."""
    said = _named(target, Redactor(target.secrets).text(message_of(error)))
    if isinstance(error, AttemptError):
        error.args, error.__notes__ = (said,), []
        return error
    # A provider's own fault: where it was raised helps whoever mends it.
    kind = Permanent if kind_of(error) is Kind.PERMANENT else Transient
    return kind(f"{type(error).__name__}: {said}").with_traceback(error.__traceback__)


def _named(target: ModelTarget, message: str) -> str:
    """Name the model, in the place of the protocol: a server of another name speaks that too."""
    said = message if target.lane in message else f"{target.lane}: {message}"
    protocol = target.provider.name
    if message.startswith((f"{protocol} returned ", f"{protocol}: ")):
        said = f"{target.lane}{message.removeprefix(protocol)}"
    return f"{said}{_key_told(target)}" if said.endswith(_KEY_REFUSED) else said


def _key_told(target: ModelTarget) -> str:
    if not target.key_variable:
        return f": none was sent; name its variable, providers: {{{target.name}: {{key: {{env: NAME}}}}}} in graphmill.yaml"
    return (
        f" in {target.key_variable}"
        if os.environ.get(target.key_variable)
        else f": none was sent; set {target.key_variable}"
    )
