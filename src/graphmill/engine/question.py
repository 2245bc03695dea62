"""A question to a person: asked inside a job, which is paused until it is answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from graphmill.core.errors import Permanent, cut, message_of
from graphmill.core.json import MOST_LEVELS, canonical, digest, is_too_deep, to_json
from graphmill.core.result import Failure, Kind
from graphmill.engine.failures import paused

ASK = "ask"  # what a question is called in a path, as a step is by its function
_SHOWN_CHARS = 500


class Question(NamedTuple):
    """What is asked, as JSON has it; ``path`` and ``content`` tell it from all other questions of its job, the same after a restart."""

    path: str
    content: bytes
    value: Any

    @classmethod
    def of(cls, path: str, value: Any, redact: Callable[[Failure], Failure] | None = None) -> Question:
        """Take what is asked; Permanent if that is not JSON. ``redact`` removes secrets."""
        try:
            text = to_json(value)
            plain = json.loads(text) if redact is None else _redacted(text, redact)
            too_deep = is_too_deep(plain)
        except RecursionError:
            too_deep = True
        except (TypeError, ValueError) as error:
            raise Permanent(f"the question {path} is not JSON: {message_of(error)}") from error
        if too_deep:
            raise Permanent(f"the question {path} is nested deeper than {MOST_LEVELS} levels")
        return cls(path, digest(canonical(plain)), plain)

    def noted(self) -> dict[str, Any]:
        """Give it as a result holds it."""
        return {"path": self.path, "question": self.value, "content": self.content.hex()}

    @classmethod
    def from_note(cls, note: Mapping[str, Any]) -> Question:
        """Read it from a result."""
        return cls(note["path"], bytes.fromhex(note["content"]), note["question"])


class Waiting(BaseException):
    """Ends an attempt that has asked what nobody has answered yet; no Exception, so that code which catches those lets it pass."""


def waiting(questions: Iterable[Question]) -> Failure:
    """Record that a job waits for answers."""
    asked = "; ".join(cut(_text(question.value), _SHOWN_CHARS) for question in questions)
    return Failure(kind=Kind.PAUSED, message=f"waits for an answer: {asked}", type="graphmill.Waiting")


def is_question(failure: Failure | None) -> bool:
    """Tell whether a step has not failed but waits for an answer: that is no outcome, and nothing may handle it."""
    return failure is not None and failure.kind is Kind.PAUSED


def metadata_of(questions: Iterable[Question]) -> dict[str, Any]:
    """Give what a result notes of its open questions."""
    return {"questions": [question.noted() for question in questions]}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value)


def _redacted(text: str, redact: Callable[[Failure], Failure]) -> Any:
    kept = redact(paused(text)).message
    if kept == text:
        return json.loads(text)
    try:
        return json.loads(kept)
    except ValueError:
        return kept
