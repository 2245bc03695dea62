"""A model request: messages, images and params."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from graphmill.core.errors import Permanent, message_of
from graphmill.core.model_call import NO_ORIGIN, Image, Message, ModelRequest, Origin, Text, Tool
from graphmill.graph.models.target import ModelTarget
from graphmill.graph.node_params import misfit
from graphmill.graph.template import text_of

CHARS_PER_TOKEN = 4
USUAL_ANSWER = 500
PARAMS = ("temperature", "top_p", "max_tokens", "stop", "seed", "reasoning_effort", "tools", "logprobs", "extra")
_MAX_BYTES = 20 * 1024 * 1024
_KINDS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def messages_of(prompt: Any, system: Any = None, past: Any = None, images: Sequence[Image] = ()) -> tuple[Message, ...]:
    """Build the messages: the system prompt, earlier messages, and the prompt with its images."""
    made: list[Message] = []
    if system is not None:
        made.append(Message("system", _text(system)))
    if past:
        made += _read(past, list[Message], "messages")
    if prompt is not None:
        text = _text(prompt)
        made.append(Message("user", (*images, Text(text)) if images else text))
    elif images:
        made.append(Message("user", tuple(images)))
    return tuple(made)


def request_of(
    target: ModelTarget,
    messages: tuple[Message, ...],
    params: Mapping[str, Any],
    *,
    origin: Origin = NO_ORIGIN,
    defaults: Mapping[str, Any] | None = None,
) -> ModelRequest:
    """Build a request. Params of the run come first, then the given ones, the model's settings, ``defaults``."""
    found = effective_params(target, params, defaults)
    for name, read in _READ.items():
        if name in found:
            found[name] = read(found[name])
    return ModelRequest(model=target.model, messages=messages, origin=origin, **found)


def effective_params(target: ModelTarget, params: Mapping[str, Any], defaults: Any = None) -> dict[str, Any]:
    """Merge params by precedence: the run's, the given ones, the model's settings, ``defaults``. ``extra`` adds up.

    Defaults that are still a template count as none.
    """
    given = {name: value for name, value in params.items() if value is not None and value != {}}
    if not isinstance(defaults, Mapping):
        defaults = {}
    if not (defaults or target.defaults or target.chosen):
        return given
    found = {**defaults, **target.defaults, **given, **target.chosen}
    if isinstance(found.get("extra"), Mapping):
        found["extra"] = {**target.defaults.get("extra", {}), **found["extra"]}
    return found


def estimated_tokens(request: ModelRequest, schema: str = "") -> int:
    """Estimate the tokens of a request: four characters are a token, and an answer is as long as allowed.

    ``schema`` is the text of a schema that is not in the request yet.
    """
    sent = len(schema) + sum(len(message.text) for message in request.messages)
    if request.schema is not None:
        sent += len(_text(request.schema))
    if request.tools:
        sent += len(_text(msgspec.to_builtins(request.tools)))
    answer = USUAL_ANSWER
    if isinstance(request.max_tokens, int):
        answer = request.max_tokens
    return sent // CHARS_PER_TOKEN + answer


def tokens_of(target: ModelTarget, params: Mapping[str, Any]) -> int:
    """Estimate the tokens of a node with these params; invalid ones, which its attempt reports, count as an answer."""
    try:
        messages = messages_of(params.get("prompt"), params.get("system"), params.get("messages"))
        given = {name: params.get(name) for name in ("max_tokens", "tools")}
        request = request_of(target, messages, given, defaults=params.get("defaults"))
        return estimated_tokens(request, _text(params.get("output_schema")))
    except (Permanent, TypeError, ValueError):
        return USUAL_ANSWER


def _text(value: Any) -> str:
    try:
        return text_of(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise Permanent(f"cannot be sent as text: {message_of(error)}") from None


def _tools(given: Any) -> tuple[Tool, ...]:
    if not given:
        return ()
    return tuple(_read([plain_tool(each) for each in given], list[Tool], "tools"))


def plain_tool(value: Any) -> Any:
    """Accept a tool also in OpenAI's form: {type: function, function: {…}}."""
    if isinstance(value, Mapping) and "function" in value:
        return value["function"]
    return value


def _stops(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _logprobs(given: bool | int) -> int | None:  # noqa: FBT001  as a param is given
    if given is False:
        return None
    return int(given is not True and given)


def _read(value: Any, kind: Any, name: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise Permanent(str(misfit(kind, value, (name,)) or f"{name}: {error}")) from None


_READ: Mapping[str, Callable[[Any], Any]] = {"stop": _stops, "tools": _tools, "logprobs": _logprobs}


async def images_of(given: Iterable[Any], root: Path | None) -> tuple[Image, ...]:
    """Read images; Permanent for what is not an image. A file's path is relative to the workflow's folder."""
    return tuple([await _image(each, root) for each in given])


async def _image(given: Any, root: Path | None) -> Image:
    found = image_or_path(given)
    if isinstance(found, Image):
        return found
    return await asyncio.to_thread(_of_file, (root or Path()) / found)


def image_or_path(given: Any) -> Image | str:
    """Return an image, or the path of an image file; Permanent for anything else."""
    if isinstance(given, Mapping):
        return _of_mapping(given)
    if not isinstance(given, str) or not given:
        raise Permanent(f"an image must be a URL, a file's path, or {{data, media_type}}, got {given!r:.80}")
    if given.startswith(("http://", "https://")):
        return Image(url=given)
    if given.startswith("data:"):
        return _of_data(given)
    return given


def _of_mapping(given: Mapping[str, Any]) -> Image:
    try:
        found = msgspec.convert({"type": "image", **given}, Image)
    except msgspec.ValidationError as error:
        raise Permanent(f"images: {error}") from None
    if not (found.data or found.url):
        raise Permanent("an image must have data or url")
    return found


def _of_data(address: str) -> Image:
    head, comma, data = address.partition(",")
    kind, _, coding = head.removeprefix("data:").partition(";")
    if not comma or coding != "base64":
        raise Permanent("a data: image must be written data:image/png;base64,…")
    return Image(data=data, media_type=kind)


def _of_file(path: Path) -> Image:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise Permanent(f"cannot read the image {str(path)!r}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > _MAX_BYTES:
        raise Permanent(f"the image {str(path)!r} is larger than {_MAX_BYTES // 2**20} MB")
    return Image(data=base64.b64encode(data).decode(), media_type=_kind(data, path))


def _kind(data: bytes, path: Path) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    kind = next((kind for mark, kind in _KINDS if data.startswith(mark)), None)
    if kind is None:
        raise Permanent(f"{str(path)!r} is not a PNG, JPEG, GIF or WebP image")
    return kind
