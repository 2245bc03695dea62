"""What became of one item of a batch, and how that is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from graphmill.core.json import to_json
from graphmill.core.result import Failure, Kind

_ITEM_CHARS = 100
_TEXT_CHARS = 500


class Outcome(NamedTuple):
    """The values that a node gave for an item, or its failure."""

    number: int
    item: Any
    values: Mapping[str, Any] | None
    failure: Failure | None
    attempts: int
    began_s: float
    ended_s: float

    @property
    def status(self) -> str:
        """The word for it."""
        if self.failure is None:
            return "succeeded"
        return "timed_out" if self.failure.kind is Kind.TIMEOUT else "failed"

    def result(self) -> dict[str, Any]:
        """Give it as one of ``results``."""
        return {**(self.values or {}), "item": self.item, "original_index": self.number}

    def error(self) -> dict[str, Any]:
        """Give it as one of ``errors``."""
        failure = self.failure
        return {
            "index": self.number,
            "item": self.item,
            "error": "" if failure is None else failure.message,
            "kind": "" if failure is None else str(failure.kind),
            "attempts": self.attempts,
        }

    def noted(self, redact: Callable[[Failure], Failure] | None) -> dict[str, Any]:
        """Return it as a short error to record; ``redact`` removes secrets, from the item too."""
        error, failure = self.error(), self.failure
        item = _text(self.item)
        if redact is not None and failure is not None:
            item = redact(replace(failure, message=item, traceback="")).message
        return {**error, "item": item[:_ITEM_CHARS], "error": error["error"][:_TEXT_CHARS]}

    def told(self) -> dict[str, Any]:
        """Give it as one of ``outcomes``."""
        told = {"result": self.result()} if self.failure is None else {"error": self.error()}
        return {"status": self.status, **told}


def cancelled() -> dict[str, Any]:
    """Give the outcome of an item that did not end."""
    return {"status": "cancelled", "error": None}


def _text(item: Any) -> str:
    try:
        return to_json(item)
    except (TypeError, ValueError, RecursionError):
        return repr(item)
