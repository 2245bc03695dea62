"""Every exception Graphmill raises, in one tree.

GraphmillError
├── UsageError            an argument or a policy that can not be meant
├── WorkflowError         a workflow file with mistakes, all of them listed
├── SourceError           the source of items failed; says after how many
│   └── DuplicateIdError  two items of one batch carry the same id
├── ChangedError          what a run is to go on with is not what it began with
├── ExportError           results could not be written
├── JournalError          the journal can not be written or read
│   └── DamagedError      what it holds is not what was written
├── OwnedError            a run is under way in another process
├── UnknownRunError       no run of that name
├── StepError             a step inside a job has failed for good
├── InternalError         a fault of Graphmill itself
└── AttemptError          raised by a user's function to say how it failed
    ├── Throttled         told to slow down; waits, uses no attempt
    ├── Unavailable       what the function depends on is down; waits for it, uses no attempt
    ├── Transient         may go well next time
    ├── Ambiguous         may have happened or not; not retried
    └── Permanent         will never go well; not retried
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphmill.core.positions import Problem

if TYPE_CHECKING:  # every command loads this file, and few of them models
    from graphmill.core.usage import RateLimits, Usage


class GraphmillError(Exception):
    """The base of every exception that Graphmill raises; all of them survive pickling, with their attributes."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Made without its constructor, whose arguments an exception does not keep.
        return _remade, (type(self), self.args), self.__dict__


def _remade(kind: type[GraphmillError], args: tuple[Any, ...]) -> GraphmillError:
    return kind.__new__(kind, *args)


class UsageError(GraphmillError, ValueError):
    """An argument or a policy that can not be meant; the message names the remedy."""


class WorkflowError(GraphmillError):
    """A workflow file with mistakes; ``problems`` lists all of them, not only the first.

    ``placed`` are those among them whose line and column are known; they may stand in other files than ``path``.
    """

    def __init__(self, path: str, problems: Sequence[str | Problem]) -> None:
        self.path = path
        self.problems = [str(problem) for problem in problems]
        self.placed = tuple(problem for problem in problems if isinstance(problem, Problem))
        super().__init__(
            "\n".join(str(problem) if isinstance(problem, Problem) else f"{path}: {problem}" for problem in problems)
        )


class SourceError(GraphmillError):
    """The source of items failed; what was admitted before is finished and kept.

    ``position`` is the position, counted from 0, of the item that could not be had; ``report``, where a batch raises
    this, is the report of all items before it.
    """

    def __init__(self, message: str, *, position: int) -> None:
        self.position = position
        self.report: Any = None
        super().__init__(message)


class DuplicateIdError(SourceError):
    """Two items of one batch carry the same id; a batch that is not recorded notices it only among its unfinished items."""

    def __init__(self, job_id: str, *, first: int | None, second: int) -> None:
        shown = job_id if len(job_id) <= 80 else job_id[:79] + "…"
        before = "by an item before it" if first is None else f"at position {first}"
        super().__init__(
            f"id {shown!r} at position {second} is already used {before} (counted from 0); "
            "give every item an id of its own, or none (then it goes by its position, or in a journal by its content)",
            position=second,
        )


class ExportError(GraphmillError):
    """Results could not be written; no file was left. ``report``, where a batch raises this, is the report up to there."""

    report: Any = None


class ChangedError(GraphmillError):
    """What a run is to go on with is not what it began with; the message says what changed and how many results it concerns."""

    report: Any = None


class JournalError(GraphmillError):
    """The journal can not be written or read: no space, no permission, an I/O error, a store that is gone. What it holds stays.

    ``report``, where a batch raises this, is the report up to there.
    """

    report: Any = None


class DamagedError(JournalError):
    """What the store holds is not what was written; the message names the row."""


class OwnedError(GraphmillError):
    """A run is under way in another process, which is named."""


class UnknownRunError(GraphmillError, LookupError):
    """The journal holds no run of that name."""


class StepError(GraphmillError):
    """A step inside a job has failed for good; ``failure`` says how, ``path`` which. A job that lets it pass is not tried again."""

    def __init__(self, path: str, failure: Any) -> None:
        self.path = path
        self.failure = failure
        super().__init__(f"step {path}: {failure}")


class InternalError(GraphmillError):
    """A fault of Graphmill itself; please report it with the traceback."""


class AttemptError(GraphmillError):
    """Raised by a user's function to say how its attempt failed: use one of the five below.

    One that comes of a model says also what the call has used all the same, what the answer told of its limits, and, in ``answer``, what
    the model has said that can not be used.
    """

    usage: Usage | None = None
    limits: RateLimits | None = None
    answer: str = ""


class Throttled(AttemptError):  # noqa: N818  it names what happened; users raise it
    """The other side asked to slow down: wait at least ``retry_after_s`` and try again, at no cost of an attempt.

    Seconds as a header gives them, in text, will do; what is no number counts as none.
    """

    def __init__(self, message: str = "throttled", *, retry_after_s: float | str | None = None) -> None:
        self.retry_after_s = _seconds(retry_after_s)
        super().__init__(message)


class Unavailable(AttemptError):  # noqa: N818
    """What the function depends on is down, refuses the key or has no credit: no fault of the item, which waits and is not failed by it."""


class Transient(AttemptError):  # noqa: N818
    """This attempt failed, the next may not; ``retry_after_s`` is the least wait before it.

    What ``is_unsent`` has surely not happened: it is tried again although it must not happen twice.
    """

    is_unsent = False
    retry_after_s: float | None = None

    def __init__(self, *args: object, is_unsent: bool = False, retry_after_s: float | None = None) -> None:
        self.is_unsent = is_unsent
        self.retry_after_s = retry_after_s
        super().__init__(*args)


class Ambiguous(AttemptError):  # noqa: N818
    """Nobody knows whether it happened, and it must not happen twice: not retried, left for a person to decide."""


class Permanent(AttemptError):  # noqa: N818
    """No further attempt can go well: fail at once."""


def _seconds(value: float | str | None) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError, OverflowError):
        return None


MOST_MESSAGE_CHARS = 2000


def message_of(error: BaseException) -> str:
    """Give an exception's message; the name of its type if it has none."""
    name = type(error).__name__
    try:
        said = "".join(str(error))
        text = said if said.strip() else name
        if notes := getattr(error, "__notes__", None):
            text = f"{text} ({'; '.join(map(str, notes))})"
    except BaseException:  # noqa: BLE001  a message is user code too
        return f"{name} (its message could not be rendered)"
    return cut(text, MOST_MESSAGE_CHARS)


def cut(text: str, most: int) -> str:
    """Give a text of at most so many characters; where some are left out, ``…`` says so."""
    return text if len(text) <= most else text[: most - 1] + "…"


def described(error: BaseException) -> str:
    """Give an exception's type and message, the type once."""
    name, message = type(error).__name__, message_of(error)
    return message if message.startswith(name) else f"{name}: {message}"
