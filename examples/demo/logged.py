"""The command ``graphmill``, with each call to a local model also written to a file of its own: LOG=calls.jsonl."""

from __future__ import annotations

import json
import os
from typing import Any

from graphmill.cli.main import main
from graphmill.providers.local.provider import Local

_LOG = os.open(os.environ["LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
_call_model = Local.complete


async def complete(self: Local, request: Any, **more: Any) -> Any:
    """Call the model, and write a line before and after."""
    call = [request.origin.item, request.origin.round]
    write("sent", call)
    response = await _call_model(self, request, **more)
    write("answered", call)
    return response


def write(event: str, call: list[Any]) -> None:
    """Append a line to the log, at once."""
    os.write(_LOG, json.dumps({"event": event, "call": call, "process": os.getpid()}).encode() + b"\n")


if __name__ == "__main__":
    Local.complete = complete  # type: ignore[method-assign]
    main()
