"""What is recorded of a model call: request, answer, and what was wrong with it. No secrets, no images."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import msgspec

from graphmill.core.errors import AttemptError, message_of
from graphmill.core.json import json_bytes
from graphmill.core.model_call import Image, Message, ModelRequest, ModelResponse, Text
from graphmill.core.result import Failure, Kind
from graphmill.engine.failures import kind_of
from graphmill.graph.models.target import ModelTarget
from graphmill.graph.node_type import Context
from graphmill.graph.secrets import Redactor

_PARAMS = ("temperature", "top_p", "max_tokens", "stop", "seed", "reasoning_effort", "logprobs", "extra")
_RESPONSE = ("reasoning", "model", "id", "system_fingerprint", "service_tier")
_NOT_RECORDED = (Kind.THROTTLED, Kind.UNAVAILABLE)  # refused before a model read it, maybe thousands of times


class ModelCall:
    """A call that is under way; one of the methods ends and records it. ``is_cached`` marks one that was not sent."""

    __slots__ = ("_began_s", "_context", "_is_cached", "_request", "_role", "_target")

    def __init__(
        self, target: ModelTarget, request: ModelRequest, context: Context, role: str | None, *, is_cached: bool = False
    ) -> None:
        self._target = target
        self._request = request
        self._context = context
        self._role = role
        self._is_cached = is_cached
        self._began_s = context.job_time_s

    @property
    def role(self) -> str:
        """The role of the node that calls; "" for none."""
        return self._role or ""

    def answered(self, response: ModelResponse, *, problem: str = "") -> None:
        """Record an answer; ``problem`` says why it is asked for again."""
        self._record(response, problem=problem)

    def failed(self, error: BaseException, response: ModelResponse | None = None) -> None:
        """Record a call without a usable answer."""
        if isinstance(error, asyncio.CancelledError):
            if getattr(error, "usage", None) is not None:  # else it was not sent
                self._record(None, error={"kind": str(Kind.CANCELLED), "message": "cancelled before it was answered"})
            return
        kind = kind_of(error) if isinstance(error, AttemptError) else Kind.TIMEOUT
        if kind in _NOT_RECORDED and response is None:
            return
        self._record(response, error={"kind": str(kind), "message": message_of(error)})

    def _record(
        self, response: ModelResponse | None, *, problem: str = "", error: Mapping[str, str] | None = None
    ) -> None:
        if not self._target.records_calls:
            return
        context = self._context
        facts = {
            "problem": problem or None,
            "error": error,
            "model": self._target.lane,
            "role": self._role,
            "cached": self._is_cached or None,
            "path": context.path,
            "attempt": context.attempt,
            "began_s": round(self._began_s, 6),
            "duration_s": round(context.job_time_s - self._began_s, 6),
        }
        request, target = self._request, self._target
        context.record_call(lambda redact: encode_call(target, request, response, facts, redact))


def encode_call(
    target: ModelTarget,
    request: ModelRequest,
    response: ModelResponse | None,
    facts: Mapping[str, Any],
    redact: Callable[[Failure], Failure] | None,
) -> bytes:
    """Return a call as JSON; what JSON cannot hold is left out, and named."""
    redactor = _redactor(target.secrets, redact if isinstance(redact, Redactor) else Redactor())
    said = {name: value for name, value in facts.items() if value is not None}
    answer = None
    if response is not None:
        answer = _answer_data(response)
        if "error" in said or "problem" in said:  # messages about such answers hide also parts of secrets
            answer = {name: redactor.text(value) if isinstance(value, str) else value for name, value in answer.items()}
    try:
        return _encode({"request": _request_data(request), "response": answer, **said}, redactor)
    except (TypeError, ValueError, RecursionError) as error:
        return _encode({"request": None, "response": None, **said, "not_recorded": message_of(error)}, redactor)


@lru_cache
def _redactor(names: tuple[str, ...], of_step: Redactor) -> Redactor:
    """Return what redacts the variables of a model, and all that is secret in its step."""
    return replace(of_step, names=tuple(dict.fromkeys((*names, *of_step.names))))


def _encode(record: Mapping[str, Any], redactor: Redactor) -> bytes:
    body = json_bytes(record)
    # A look at the whole text tells at a tenth of the cost that there is nothing to hide.
    return json_bytes(redactor.data(record)) if redactor.may_be_in(body) else body


def _request_data(request: ModelRequest) -> dict[str, Any]:
    params = {name: value for name in _PARAMS if (value := getattr(request, name)) not in (None, (), {})}
    data: dict[str, Any] = {"messages": [_message_data(message) for message in request.messages]}
    if params:
        data["params"] = params
    if request.tools:
        data["tools"] = msgspec.to_builtins(request.tools)
    if request.schema is not None:
        data["schema"] = request.schema
    return data


def _message_data(message: Message) -> dict[str, Any]:
    data: dict[str, Any] = {"role": message.role}
    if isinstance(message.content, str):
        data["content"] = message.content
    else:
        data["content"] = [_part_data(part) for part in message.content]
    if message.tool_calls:
        data["tool_calls"] = msgspec.to_builtins(message.tool_calls)
    if message.tool_call_id is not None:
        data["tool_call_id"] = message.tool_call_id
    return data


def _part_data(part: Text | Image) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if part.data is None:
        return {"type": "image", "url": part.url}
    try:
        image = base64.b64decode(part.data)
    except (binascii.Error, ValueError):  # the provider has refused it
        image = part.data.encode(errors="replace")
    return {
        "type": "image",
        "media_type": part.media_type,
        "bytes": len(image),
        "sha256": hashlib.sha256(image).hexdigest(),
    }


def _answer_data(response: ModelResponse) -> dict[str, Any]:
    data: dict[str, Any] = {"text": response.text, "finish_reason": str(response.finish_reason)}
    data |= {name: value for name in _RESPONSE if (value := getattr(response, name))}
    if response.tool_calls:
        data["tool_calls"] = msgspec.to_builtins(response.tool_calls)
    data["usage"] = msgspec.to_builtins(response.usage)
    return data
