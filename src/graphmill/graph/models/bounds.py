"""The most that a call can cost, from its request alone: what a budget reserves for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from graphmill.core.errors import Permanent
from graphmill.core.json import json_bytes
from graphmill.core.model_call import Image, Message, ModelRequest, Text
from graphmill.graph.models.prices import bills_apart
from graphmill.graph.models.settings import FILE_NAME
from graphmill.graph.models.target import ModelTarget

_PER_REQUEST = 1000  # tokens of what providers put around messages, tools and schemas
_PER_PART = 50
_PER_IMAGE = 50_000  # of a small file may become as many
_LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens", "maxOutputTokens")
_REPLACED = frozenset({"model", "messages", "contents"})
_ANSWERS = ("n", "best_of", "candidateCount")


def most_cost_nano(target: ModelTarget, request: ModelRequest, address: str) -> int:
    """Return the most that a call can cost; Permanent says why that is not known."""
    if target.prices.costs_nothing:
        return 0
    most = target.prices.most_nano(address, most_input_tokens(request), most_output_tokens(request))
    problem = ""
    if bills_apart("", request.extra):
        problem = "what `extra` asks for is billed apart from tokens; leave it out"
    elif not target.prices.is_own and bills_apart(request.model, {}):
        problem = f"its searches are billed apart from tokens; {price_remedy([target.lane])}, with request: …"
    elif not _REPLACED.isdisjoint(request.extra):
        problem = "`extra` replaces the model or the messages; leave that out"
    elif any(image.data is None for message in request.messages for image in _images(message)):
        problem = "an image by URL may have any size; give a file or its data"
    elif most is None and target.prices.is_known(address):
        problem = "limit its answers with max_tokens (--max-tokens)"
    elif most is None:
        problem = price_remedy([target.lane])
    if most is None or problem:
        raise Permanent(f"{target.lane}: a budget needs a bound for every call; {problem}")
    return most


def price_remedy(lanes: Iterable[str]) -> str:
    """Say how to give models a price."""
    entries = ", ".join(f"{lane}: {{input: …, output: …}}" for lane in lanes)
    return f"write prices: {{{entries}}} in {FILE_NAME}, in US dollars for a million tokens"


def most_input_tokens(request: ModelRequest) -> int:
    """Return an upper bound: a token is at least one byte, and an image at most as many tokens as bytes, or 50,000."""
    found = _PER_REQUEST
    for message in request.messages:
        found += _PER_PART + _tokens_of(message)
    for part in (request.schema, request.extra, msgspec.to_builtins(request.tools)):
        if part:
            found += len(json_bytes(part)) + _PER_PART
    return found + 2 * _PER_PART * len(request.tools)


def _tokens_of(message: Message) -> int:
    if isinstance(message.content, str):
        found = len(message.content.encode(errors="replace"))
    else:
        found = sum(_PER_PART + _part_tokens(part) for part in message.content)
    if message.tool_calls:
        found += len(json_bytes(msgspec.to_builtins(message.tool_calls)))
    return found


def _part_tokens(part: Text | Image) -> int:
    if isinstance(part, Text):
        return len(part.text.encode(errors="replace"))
    return max(_PER_IMAGE, len(part.data or ""))


def _images(message: Message) -> list[Image]:
    if isinstance(message.content, str):
        return []
    return [part for part in message.content if isinstance(part, Image)]


def most_output_tokens(request: ModelRequest) -> int | None:
    """Return how long the answers to a request can be in all; None if that is not limited."""
    nested = request.extra.get("generationConfig")  # of Gemini
    settings = {**request.extra, **(nested if isinstance(nested, Mapping) else {})}
    limits = [settings[name] for name in _LIMITS if name in settings]
    answers: list[int] = [settings[name] for name in _ANSWERS if type(settings.get(name)) is int]
    if request.max_tokens is not None:
        limits.append(request.max_tokens)
    if not limits or any(type(limit) is not int for limit in limits):  # null removes a limit
        return None
    most: int = max(limits) * max([1, *answers])
    return most
