"""A call of a model: what is asked, and what comes back, in words that are the same for every provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import msgspec

from graphmill.core.errors import AttemptError, Permanent, Transient
from graphmill.core.usage import NO_USAGE, RateLimits, Usage

Role = Literal["system", "user", "assistant", "tool"]


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text", forbid_unknown_fields=True):
    """A part of a message that is text."""

    text: str


class Image(msgspec.Struct, frozen=True, tag_field="type", tag="image", forbid_unknown_fields=True, kw_only=True):
    """A part of a message that is an image: ``data`` in base64, of this media type, or an ``url`` that the provider fetches."""

    data: str | None = None
    media_type: str = "image/png"
    url: str | None = None


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the model asks for; ``arguments`` are the object it wrote, or its text where that is no JSON object."""

    id: str
    name: str
    arguments: Any


class Tool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that the model may call; ``parameters`` is a JSON Schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One message; one of role ``tool`` answers the call that it names."""

    role: Role
    content: str | tuple[Text | Image, ...] = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """All its text."""
        return (
            self.content
            if isinstance(self.content, str)
            else "\n".join(part.text for part in self.content if isinstance(part, Text))
        )


class Origin(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Which step asks; it is not sent."""

    item: str = ""
    path: str = ""
    round: int = 1
    sample: int = 0
    attempt: int = 1


NO_ORIGIN = Origin()


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is asked; ``model`` is the provider's own name, None leaves a choice to the provider.

    ``schema`` is the JSON Schema that the answer must have. ``logprobs`` asks for those of the answer's tokens, with so many
    alternatives. ``extra`` is put into what is sent as it is, over all else.
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


class FinishReason(StrEnum):
    """Why a model stopped; only the first two are a whole answer."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """The logarithm of a token's probability, and of those it was preferred to."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


class ModelResponse(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What came back: one answer, with what it used; ``model`` is what the provider says has answered. Its raw form is not kept."""

    text: str
    usage: Usage = NO_USAGE
    finish_reason: FinishReason = FinishReason.STOP
    model: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    logprobs: tuple[TokenLogprob, ...] | None = None
    id: str = ""
    limits: RateLimits | None = None
    reason: str = ""

    def error(self) -> AttemptError | None:
        """Give why this is no success, None if it is one; it holds the usage and the limits."""
        if self.finish_reason in (FinishReason.STOP, FinishReason.TOOL_CALLS):
            return None
        error = _ERRORS[self.finish_reason](_SAID[self.finish_reason] + (f": {self.reason}" if self.reason else ""))
        error.usage, error.limits = self.usage, self.limits
        return error


_ERRORS: Mapping[FinishReason, type[AttemptError]] = {
    FinishReason.LENGTH: Permanent,
    FinishReason.REFUSAL: Permanent,
    FinishReason.CONTENT_FILTER: Permanent,
    FinishReason.OTHER: Transient,
}
_SAID: Mapping[FinishReason, str] = {
    FinishReason.LENGTH: "the answer was cut at the most tokens it may have; raise max_tokens, or ask for less",
    FinishReason.REFUSAL: "the model refused",
    FinishReason.CONTENT_FILTER: "the provider's content filter stopped the answer",
    FinishReason.OTHER: "the model stopped for a reason that is no end of an answer",
}
