"""The content of files: text from values, bytes from text, and back."""

from __future__ import annotations

import binascii
import codecs
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from graphmill.core.errors import Permanent, message_of
from graphmill.core.json import to_json
from graphmill.graph.run.outcomes import BatchSequence
from graphmill.graph.template import text_of

FileFormat = Literal["text", "json", "jsonl"]
BINARY = "binary"
_LINE_SUFFIXES = (".jsonl", ".ndjson")
_WITH_MARK = {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}


def format_of(content: Any, path: str) -> FileFormat:
    """Return the format of unnamed content: JSON for lists and mappings, lines for a list if the path says so."""
    if not isinstance(content, list | dict | BatchSequence):
        return "text"
    if path.lower().endswith(_LINE_SUFFIXES) and not isinstance(content, dict):
        return "jsonl"
    return "json"


def text_chunks(content: Any, form: FileFormat) -> Iterator[str]:
    """Write content as text, a list entry by entry, so that a large batch's results are never all in memory."""
    try:
        yield from _chunks(content, form)
    except (TypeError, ValueError, RecursionError) as error:
        raise Permanent(f"content cannot be written as {form}: {message_of(error)}") from error


def _chunks(content: Any, form: FileFormat) -> Iterable[str]:
    is_list = isinstance(content, list | BatchSequence)
    if form == "jsonl" and is_list:
        return (f"{to_json(entry)}\n" for entry in content)
    if form == "json" and is_list:
        return _array(content)
    if form != "text":
        return (f"{to_json(content)}\n",)
    if content is None:
        raise ValueError('it is null; use "" for an empty file, or `format: json`')
    if is_list or isinstance(content, dict):
        raise ValueError("it is not text; leave `format` out, or use json or jsonl")
    return (text_of(content),)


def _array(entries: Iterable[Any]) -> Iterator[str]:
    yield "["
    is_first = True
    for entry in entries:
        if not is_first:
            yield ","
        yield to_json(entry)
        is_first = False
    yield "]\n"


def check_encoding(name: str, *, appends: bool = False) -> None:
    """Refuse unknown encodings and, for appending, those that begin a file with a mark. ValueError says why."""
    if name == BINARY:
        return
    try:
        "".encode(name)
    except (LookupError, UnicodeError, ValueError) as error:
        raise ValueError(
            f"unknown encoding {name!r:.80}; use utf-8, utf-8-sig, latin-1, cp1252, utf-16 …, or binary for base64"
        ) from error
    plain = codecs.lookup(name).name
    if appends and plain in _WITH_MARK:
        raise ValueError(
            f"{name} marks its byte order at the beginning of a file; to append, use {_WITH_MARK[plain]} or {plain}-be"
        )


def decode(data: bytes, encoding: str) -> str:
    """Return bytes as text, or as base64 if binary; Permanent says where they are not such text."""
    if encoding == BINARY:
        return b64encode(data).decode()
    try:
        return data.decode(encoding)
    except UnicodeError as error:
        raise Permanent(
            f"the file is not {encoding}: {_place(data, error)}; set `encoding`, or use `encoding: {BINARY}` for base64"
        ) from error


def _place(data: bytes, error: UnicodeError) -> str:
    if not isinstance(error, UnicodeDecodeError):
        return str(error)
    if error.start >= len(data):
        return f"its end ({error.reason})"
    return f"byte 0x{data[error.start]:02x} at offset {error.start:,} ({error.reason})"


def encode(chunks: Iterable[str], encoding: str, *, is_first: bool = True) -> Iterator[bytes]:
    """Return text as bytes, chunk by chunk; only the beginning of a file gets a byte order mark."""
    if encoding == BINARY:
        yield _from_base64("".join(chunks))
        return
    if not is_first and codecs.lookup(encoding).name == "utf-8-sig":
        encoding = "utf-8"
    encoder = codecs.getincrementalencoder(encoding)()
    before = 0
    for chunk in chunks:
        try:
            yield encoder.encode(chunk)
        except UnicodeEncodeError as error:
            letter = chunk[error.start]
            remedy = "remove it: it is half of a surrogate pair"
            if not "\ud800" <= letter <= "\udfff":
                remedy = "use `encoding: utf-8`"
            raise Permanent(
                f"content: character {letter!r} at position {before + error.start:,} cannot be written as {encoding} "
                f"({error.reason}); {remedy}"
            ) from error
        before += len(chunk)
    yield encoder.encode("", final=True)


def _from_base64(text: str) -> bytes:
    try:
        return b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Permanent(f"content: binary content must be base64: {error}") from error
