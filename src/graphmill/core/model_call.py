"""A model call: request and response, in one form for all providers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Literal

import msgspec

from graphmill.core.errors import AttemptError, Permanent, Transient
from graphmill.core.result import CONTENT_FILTER, REFUSAL, TRUNCATED
from graphmill.core.usage import NO_USAGE, RateLimits, Usage

Role = Literal["system", "user", "assistant", "tool"]


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text", forbid_unknown_fields=True):
    """A text part of a message."""

    text: str


class Image(msgspec.Struct, frozen=True, tag_field="type", tag="image", forbid_unknown_fields=True, kw_only=True):
    """An image part of a message: ``data`` in base64, or a ``url`` that the provider fetches."""

    data: str | None = None
    media_type: str = "image/png"
    url: str | None = None


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call by the model; ``arguments`` is the object it wrote, or the text if that is not a JSON object."""

    id: str
    name: str
    arguments: Any


class Tool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that the model may call; ``parameters`` is a JSON Schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One message; one with the role ``tool`` answers the tool call that it names."""

    role: Role
    content: str | tuple[Text | Image, ...] = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """All its text."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


class Origin(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Which step makes the call; it is not sent. ``input`` is that of its job, the whole item."""

    item: str = ""
    path: str = ""
    node: str = ""
    role: str = ""
    round: int = 1
    sample: int = 0
    attempt: int = 1
    input: Any = None


NO_ORIGIN = Origin()


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A request; ``model`` is the provider's own name, and None leaves a setting to the provider.

    ``schema`` is the JSON Schema that the answer must fit. ``logprobs`` asks for those of the answer's tokens, with so
    many alternatives. ``extra`` is merged into the request as it is, and wins over all else.
    """

    model: str
    messages: tuple[Message, ...]
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    reasoning_effort: str | None = None
    schema: Mapping[str, Any] | None = None
    tools: tuple[Tool, ...] = ()
    logprobs: int | None = None
    extra: Mapping[str, Any] = msgspec.field(default_factory=dict)
    origin: Origin = NO_ORIGIN

    def chance(self, salt: str = "") -> float:
        """Draw a number below 1, always the same for the same prompt in the same attempt of a step of an item."""
        origin = self.origin
        step = f"{origin.item}|{origin.path}|{origin.round}|{origin.sample}|{origin.attempt}"
        text = f"{salt}|{step}|{self.messages[-1].text}"
        return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=7).digest(), "big") / 2**56


class FinishReason(StrEnum):
    """Why a model stopped; those in ``COMPLETE`` mean a complete answer."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    OTHER = "other"


COMPLETE = frozenset({FinishReason.STOP, FinishReason.TOOL_CALLS})


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """The log probability of a token, and those of its alternatives."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


class ModelResponse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A response: the answer and its usage; ``model`` is the one that answered, as the provider says.

    ``reasoning`` is what the model thought, where the provider returns it. ``system_fingerprint`` and ``service_tier``
    say what served it, in the provider's words.
    """

    text: str
    usage: Usage = NO_USAGE
    finish_reason: FinishReason = FinishReason.STOP
    model: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    logprobs: tuple[TokenLogprob, ...] | None = None
    id: str = ""
    limits: RateLimits | None = None
    reason: str = ""
    reasoning: str = ""
    system_fingerprint: str = ""
    service_tier: str = ""

    def error(self) -> AttemptError | None:
        """Return why this is not a success, with usage and limits; None if it is one."""
        if self.finish_reason in COMPLETE:
            return None
        error = _ERRORS[self.finish_reason](_SAID[self.finish_reason] + (f": {self.reason}" if self.reason else ""))
        error.usage, error.limits, error.cause = self.usage, self.limits, _CAUSES.get(self.finish_reason, "")
        return error


_ERRORS: Mapping[FinishReason, type[AttemptError]] = {
    FinishReason.LENGTH: Permanent,
    FinishReason.REFUSAL: Permanent,
    FinishReason.CONTENT_FILTER: Permanent,
    FinishReason.OTHER: Transient,
}
_CAUSES: Mapping[FinishReason, str] = {
    FinishReason.LENGTH: TRUNCATED,
    FinishReason.REFUSAL: REFUSAL,
    FinishReason.CONTENT_FILTER: CONTENT_FILTER,
}
_SAID: Mapping[FinishReason, str] = {
    FinishReason.LENGTH: "the answer was cut at max_tokens; raise max_tokens, or ask for less",
    FinishReason.REFUSAL: "the model refused",
    FinishReason.CONTENT_FILTER: "the provider's content filter stopped the answer",
    FinishReason.OTHER: "the model stopped before the answer was complete",
}
