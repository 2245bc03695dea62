"""Encodings: from a file's bytes to text and back, exactly, line ends included."""

from __future__ import annotations

import binascii
import codecs
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator

from graphmill.core.errors import Permanent

BINARY = "binary"
_WITH_MARK = {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}


def require_encoding(name: str, *, appends: bool = False) -> None:
    """Refuse what is no text encoding, and for appending one whose byte order is said only at a file's beginning; ValueError says why."""
    if name == BINARY:
        return
    try:
        "".encode(name)
    except (LookupError, UnicodeError, ValueError) as error:
        raise ValueError(
            f"no encoding {name!r:.80}; there are utf-8, utf-8-sig, latin-1, cp1252, utf-16 …, and binary for base64"
        ) from error
    plain = codecs.lookup(name).name
    if appends and plain in _WITH_MARK:
        raise ValueError(
            f"{name} says its byte order at the beginning of a file only; to append, name it: {_WITH_MARK[plain]}"
        )


def decoded(data: bytes, encoding: str) -> str:
    """Give bytes as text, as base64 if they are binary; Permanent says where they are no such text."""
    if encoding == BINARY:
        return b64encode(data).decode()
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        found = f"byte 0x{data[error.start]:02x} at offset {error.start:,}" if error.start < len(data) else "its end"
        raise Permanent(
            f"the file is not {encoding}: {found} ({error.reason}); name its `encoding`, or take it as base64 by `encoding: {BINARY}`"
        ) from error
    except UnicodeError as error:
        raise Permanent(
            f"the file is not {encoding}: {error}; name its `encoding`, or take it as base64 by `encoding: {BINARY}`"
        ) from error


def encoded(chunks: Iterable[str], encoding: str, *, is_first: bool = True) -> Iterator[bytes]:
    """Give text as bytes, chunk by chunk; what does not stand at a file's beginning gets no byte order mark."""
    if encoding == BINARY:
        yield _from_base64("".join(chunks))
        return
    plain = encoding if is_first or codecs.lookup(encoding).name != "utf-8-sig" else "utf-8"
    encoder = codecs.getincrementalencoder(plain)()
    before = 0
    for chunk in chunks:
        try:
            yield encoder.encode(chunk)
        except UnicodeEncodeError as error:
            raise Permanent(
                f"content: character {chunk[error.start]!r} at position {before + error.start:,} can not be written as {encoding} "
                f"({error.reason}); {_remedy(chunk[error.start])}"
            ) from error
        before += len(chunk)
    yield encoder.encode("", final=True)


def _remedy(letter: str) -> str:
    return "take it out: it is half of a surrogate pair" if "\ud800" <= letter <= "\udfff" else "use `encoding: utf-8`"


def _from_base64(text: str) -> bytes:
    try:
        return b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Permanent(f"content: binary content is given as base64, and this is none: {error}") from error
