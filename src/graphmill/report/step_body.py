"""What a step has given or why it failed, in short or in full."""

from __future__ import annotations

import json
import re
from typing import Any

from graphmill.journal.records import StepRow

MOST_BYTES = 2000
_NODE_OUTPUT = 3
_NODE_TAIL = re.compile(rb'\},"[^"]*",\[[^\[\]]*\]\]\Z')


def body_text(body: bytes | None, chars: int) -> str:
    """Give the beginning of a stored value as text, without reading all of a long one."""
    if body is None:
        return "null"
    return visible(_beginning(body, chars) if len(body) > MOST_BYTES else _plain_text(body), chars)


def visible(text: str, chars: int) -> str:
    """Make text fit for a line: cut, and with what a terminal would obey written out."""
    cut = text[:chars]
    told = "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode() for char in cut
    )
    return told if len(told) <= chars and len(text) <= chars else told[: chars - 1] + "…"


def read_body(body: bytes | None) -> Any:
    """Read what a row holds as JSON."""
    return None if body is None else json.loads(body)


def read_output(row: StepRow) -> tuple[Any, str | None]:
    """Give the output of a step and, of a workflow's node, the action it returned."""
    return _parted(read_body(row.output))


def error_message(body: bytes | None) -> str:
    """Give the kind and the message of a stored failure."""
    error = read_body(body)
    if not isinstance(error, dict):
        return "" if error is None else str(error)
    return ": ".join(str(error[name]) for name in ("kind", "message") if error.get(name))


def _beginning(body: bytes, chars: int) -> str:
    is_node = body.startswith(b"[{") and _NODE_TAIL.search(body[-MOST_BYTES:]) is not None
    return body[is_node : chars * 4].decode(errors="ignore")


def _plain_text(body: bytes) -> str:
    value, action = _parted(json.loads(body))
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if action in (None, "default") else f"{action}: {text}"


def _parted(value: Any) -> tuple[Any, str | None]:
    """Tell a node's output, which is kept with its action and flags, from any other value."""
    if isinstance(value, list) and len(value) == _NODE_OUTPUT:
        values, action, flags = value
        if isinstance(values, dict) and isinstance(action, str) and isinstance(flags, list):
            return values, action
    return value, None
