"""Images for a model: addresses, data, or files, of which only what is an image is ever sent."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from graphmill.core.errors import Permanent
from graphmill.core.model_call import Image

_MOST_BYTES = 20 * 1024 * 1024
_KINDS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


async def images_of(given: Iterable[Any], root: Path | None) -> tuple[Image, ...]:
    """Give images as they are sent; Permanent says what is none. A file's path is relative to the workflow's folder."""
    return tuple([await _image(each, root) for each in given])


async def _image(given: Any, root: Path | None) -> Image:
    found = image_or_path(given)
    return found if isinstance(found, Image) else await asyncio.to_thread(_of_file, (root or Path()) / found)


def image_or_path(given: Any) -> Image | str:
    """Give what is an image already, or the path of a file; Permanent says what is neither."""
    if isinstance(given, Mapping):
        return _of_mapping(given)
    if not isinstance(given, str) or not given:
        raise Permanent(f"an image is an address, a file's path, or {{data, media_type}}, not {given!r:.80}")
    if given.startswith(("http://", "https://")):
        return Image(url=given)
    return _of_data(given) if given.startswith("data:") else given


def _of_mapping(given: Mapping[str, Any]) -> Image:
    try:
        found = msgspec.convert({"type": "image", **given}, Image)
    except msgspec.ValidationError as error:
        raise Permanent(f"images: {error}") from None
    if not (found.data or found.url):
        raise Permanent("an image has neither data nor url")
    return found


def _of_data(address: str) -> Image:
    head, comma, data = address.partition(",")
    kind, _, coding = head.removeprefix("data:").partition(";")
    if not comma or coding != "base64":
        raise Permanent("an image given as data: is written data:image/png;base64,…")
    return Image(data=data, media_type=kind)


def _of_file(path: Path) -> Image:
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise Permanent(f"can not read the image {str(path)!r}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > _MOST_BYTES:
        raise Permanent(f"the image {str(path)!r} is larger than {_MOST_BYTES // 2**20} MB")
    return Image(data=base64.b64encode(data).decode(), media_type=_kind(data, path))


def _kind(data: bytes, path: Path) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    kind = next((kind for mark, kind in _KINDS if data.startswith(mark)), None)
    if kind is None:
        raise Permanent(f"{str(path)!r} is no PNG, JPEG, GIF or WebP, and is not sent")
    return kind
