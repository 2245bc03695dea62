"""Every exception Graphmill raises, in one tree.

GraphmillError
├── UsageError            an invalid argument, option or policy
├── WorkflowError         mistakes in a workflow file; lists all of them
├── SourceError           the source of items failed
│   └── DuplicateIdError  two items of one batch have the same id
├── ChangedError          the workflow, function or source of a resumed run has changed
├── ExportError           results could not be written
├── JournalError          the journal could not be written or read
│   └── DamagedError      the journal is damaged
├── OwnedError            another process works on the run
├── UnknownRunError       no run has this name
├── SandboxError          untrusted programs cannot run: no sandbox works here
├── StepError             a step inside a job failed for good
├── InternalError         a bug in Graphmill
└── AttemptError          raised by a user's function to say how its attempt failed
    ├── Throttled         asked to slow down; waits, uses no attempt
    ├── Unavailable       a dependency is down; waits for it, uses no attempt
    ├── Transient         the next attempt may succeed
    ├── Ambiguous         it may have happened or not; not retried
    └── Permanent         no attempt can succeed; not retried
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphmill.core.positions import FileProblem

if TYPE_CHECKING:  # every command loads this file, and few of them models
    from graphmill.core.usage import RateLimits, Usage


class GraphmillError(Exception):
    """Base class of all exceptions. They can be pickled, with their attributes."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Unpickled without the constructor, whose arguments an exception does not store.
        return _unpickle, (type(self), self.args), self.__dict__


def _unpickle(kind: type[GraphmillError], args: tuple[Any, ...]) -> GraphmillError:
    return kind.__new__(kind, *args)


class UsageError(GraphmillError, ValueError):
    """An invalid argument, option or policy; the message says what to do."""


class WorkflowError(GraphmillError):
    """Mistakes in a workflow file; ``problems`` lists all of them.

    ``placed`` has those whose line and column are known, some of them in other files than ``path``.
    """

    def __init__(self, path: str, problems: Sequence[str | FileProblem]) -> None:
        self.path = path
        self.problems = [str(problem) for problem in problems]
        self.placed = tuple(problem for problem in problems if isinstance(problem, FileProblem))
        super().__init__(
            "\n".join(
                str(problem) if isinstance(problem, FileProblem) else f"{path}: {problem}" for problem in problems
            )
        )


class SourceError(GraphmillError):
    """The source of items failed. Items read before are finished, and their results stored.

    ``position`` is that of the item that could not be read, counted from 0. If a batch raises this, ``report`` is its
    report on the items before.
    """

    def __init__(self, message: str, *, position: int) -> None:
        self.position = position
        self.report: Any = None
        super().__init__(message)


class DuplicateIdError(SourceError):
    """Two items of one batch have the same id. A batch without a journal notices it only among unfinished items."""

    def __init__(self, job_id: str, *, first: int | None, second: int) -> None:
        before = "by an earlier item" if first is None else f"at position {first}"
        super().__init__(
            f"id {cut(job_id, 80)!r} at position {second} is already used {before} (counted from 0); "
            "give each item its own id, or name another field with --id (id_field)",
            position=second,
        )


class ExportError(GraphmillError):
    """Results could not be written, and no file is left. If a batch raises this, ``report`` is its report so far."""

    report: Any = None


class ChangedError(GraphmillError):
    """The workflow, function or source of a resumed run has changed; the message says what and which results."""

    report: Any = None


class JournalError(GraphmillError):
    """The journal could not be written or read: no space, no permission, an I/O error, a missing file.

    What it holds is safe. If a batch raises this, ``report`` is its report so far.
    """

    report: Any = None


class DamagedError(JournalError):
    """The journal does not hold what was written; the message names the row."""


class OwnedError(GraphmillError):
    """Another process works on the run; the message names it."""


class UnknownRunError(GraphmillError, LookupError):
    """The journal has no run of this name."""


class SandboxError(GraphmillError):
    """No sandbox works here, so untrusted programs cannot run; the message says why, and what to install."""


class StepError(GraphmillError):
    """A step inside a job failed for good: ``path`` says which, ``failure`` why. A job that does not catch it fails."""

    def __init__(self, path: str, failure: Any, attempts: int = 1) -> None:
        self.path = path
        self.failure = failure
        self.step = f"step {path}, tried {attempts} times" if attempts > 1 else f"step {path}"
        super().__init__(f"{self.step}: {failure}")


class InternalError(GraphmillError):
    """A bug in Graphmill; please report it with the traceback."""


class AttemptError(GraphmillError):
    """Raised by a user's function to say how its attempt failed: use one of its five subclasses.

    One that a model call raises also has the call's usage, the rate limits that the provider reported, the unusable
    answer, and its ``cause`` in one word, such as ``refusal``.
    """

    usage: Usage | None = None
    limits: RateLimits | None = None
    answer: str = ""
    cause: str = ""


class Throttled(AttemptError):  # noqa: N818  named for what happened; users raise it
    """The other side asked to slow down: wait at least ``retry_after_s``, then try again. It uses up no attempt.

    ``retry_after_s`` may be text, as in a header; anything but a number is ignored.
    """

    def __init__(self, message: str = "throttled", *, retry_after_s: float | str | None = None) -> None:
        self.retry_after_s = _seconds(retry_after_s)
        super().__init__(message)


class Unavailable(AttemptError):  # noqa: N818
    """A dependency is down, refuses the key or has no credit. The item is not to blame: it waits and does not fail."""


class Transient(AttemptError):  # noqa: N818
    """This attempt failed, the next may succeed; ``retry_after_s`` is the shortest wait before it.

    ``is_unsent`` says that the request was certainly not sent, so it is retried even if it must not happen twice.
    """

    is_unsent = False
    retry_after_s: float | None = None

    def __init__(self, *args: object, is_unsent: bool = False, retry_after_s: float | None = None) -> None:
        self.is_unsent = is_unsent
        self.retry_after_s = retry_after_s
        super().__init__(*args)


class Ambiguous(AttemptError):  # noqa: N818
    """It may have happened or not, and must not happen twice: not retried, but left for a person to decide."""


class Permanent(AttemptError):  # noqa: N818
    """No further attempt can succeed: fail at once."""


def _seconds(value: float | str | None) -> float | None:
    if value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


MOST_MESSAGE_CHARS = 2000


def message_of(error: BaseException) -> str:
    """Return an exception's message, or the name of its type if it has none. Never raises."""
    name = type(error).__name__
    try:
        text = "".join(str(error))  # a plain str
        if not text.strip():
            text = name
        if notes := getattr(error, "__notes__", None):
            text = f"{text} ({'; '.join(map(str, notes))})"
    except BaseException:  # noqa: BLE001  a message is user code too
        return f"{name} (its message could not be rendered)"
    return cut(text, MOST_MESSAGE_CHARS)


def cut(text: str, most: int) -> str:
    """Shorten a text to at most ``most`` characters, ``…`` at its end included."""
    if len(text) <= most:
        return text
    return text[: most - 1] + "…"


def describe_error(error: BaseException) -> str:
    """Return an exception's type and message, the type once."""
    name, message = type(error).__name__, message_of(error)
    if message.startswith(name):
        return message
    return f"{name}: {message}"
