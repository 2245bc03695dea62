"""Content: what a value is as the text of a file, piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from graphmill.core.errors import Permanent, message_of
from graphmill.core.json import to_json
from graphmill.graph.run.outcomes import BatchSequence
from graphmill.graph.template import text_of

Format = Literal["text", "json", "jsonl"]
_OF_LINES = (".jsonl", ".ndjson")


def format_of(content: Any, path: str) -> Format:
    """Tell the format of content for which none is named: a list or mapping is JSON, a list one line each where the path says so."""
    if isinstance(content, list | BatchSequence):
        return "jsonl" if path.lower().endswith(_OF_LINES) else "json"
    return "json" if isinstance(content, dict) else "text"


def text_chunks(content: Any, form: Format) -> Iterator[str]:
    """Write content; the entries of a list one by one, so that a large batch's are never all in memory. Permanent if it can not be."""
    try:
        yield from _chunks(content, form)
    except (TypeError, ValueError, RecursionError) as error:
        raise Permanent(f"content: it can not be written as {form}: {message_of(error)}") from error


def _chunks(content: Any, form: Format) -> Iterable[str]:
    is_list = isinstance(content, list | BatchSequence)
    if form == "jsonl":
        return (f"{to_json(entry)}\n" for entry in (content if is_list else [content]))
    if form == "json":
        return _array(content) if is_list else (f"{to_json(content)}\n",)
    if content is None:
        raise ValueError('it is null; give "" for an empty file, or `format: json`')
    if is_list or isinstance(content, dict):
        raise ValueError("it is no text; leave `format` out, or name json or jsonl")
    return (text_of(content),)


def _array(entries: Iterable[Any]) -> Iterator[str]:
    yield "["
    for number, entry in enumerate(entries):
        yield f",{to_json(entry)}" if number else to_json(entry)
    yield "]\n"
