"""From an exception to a recorded failure: its kind by the user's rule or by type, its message and its frames."""

from __future__ import annotations

import logging
import math
import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from graphmill.core.errors import (
    MOST_MESSAGE_CHARS,
    Ambiguous,
    AttemptError,
    GraphmillError,
    Permanent,
    StepError,
    Throttled,
    Transient,
    Unavailable,
    UsageError,
    cut,
    message_of,
)
from graphmill.core.result import ANSWER_CAUSES, Failure, Kind
from graphmill.http.failures import kind_of_client_error, retry_after_of

log = logging.getLogger("graphmill")

_MAX_FRAMES = 20
_MAX_CAUSES = 3
_MAX_TRACED_CHARS = 200

# Errors that the same call would raise again. ValueError, LookupError, RuntimeError and AssertionError are not among
# them: that is what one bad model response looks like, and the next response may be good.
_PERMANENT = (
    Permanent,
    ArithmeticError,
    AttributeError,
    ImportError,
    NameError,
    NotImplementedError,
    KeyboardInterrupt,
    RecursionError,
    SyntaxError,
    SystemExit,
    TypeError,
    UnicodeError,
    UsageError,
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)

_KINDS: Mapping[type[AttemptError], Kind] = {
    Permanent: Kind.PERMANENT,
    Throttled: Kind.THROTTLED,
    Transient: Kind.TRANSIENT,
    Unavailable: Kind.UNAVAILABLE,
}
_DECISIVE_ORDER = (
    Kind.PERMANENT,
    Kind.AMBIGUOUS,
    Kind.CRASH,
    Kind.TIMEOUT,
    Kind.UNAVAILABLE,
    Kind.THROTTLED,
    Kind.TRANSIENT,
)


def kind_of(error: BaseException) -> Kind:
    """Return an exception's kind by its type or, for other clients, by its HTTP status; else transient."""
    if isinstance(error, Reported):
        return error.failure.kind
    raised = type(error)
    if issubclass(raised, Transient):
        return Kind.TRANSIENT
    if issubclass(raised, Throttled):
        return Kind.THROTTLED
    if issubclass(raised, Unavailable):
        return Kind.UNAVAILABLE
    if issubclass(raised, Ambiguous):
        return Kind.AMBIGUOUS
    if issubclass(raised, _PERMANENT):
        return Kind.PERMANENT
    known = kind_of_client_error(error)
    return Kind.TRANSIENT if known is None else _KINDS[known]


def root_cause(error: BaseException) -> BaseException:
    """Return the error that decides how the attempt ended, of a group such as a TaskGroup raises."""
    if isinstance(error, BaseExceptionGroup):
        return min((root_cause(part) for part in error.exceptions), key=_rank)
    return error


def _rank(error: BaseException) -> int:
    if isinstance(error, StepError):
        return -1
    return _DECISIVE_ORDER.index(kind_of(error))


def failure_of(error: BaseException, kind: Kind) -> Failure:
    """Record an exception without rendering source lines: thousands may fail at once, on the loop."""
    message, name = "an exception that can't be described", "Exception"
    try:
        message, name = message_of(error), _type_name(error)
        return Failure(
            kind=kind,
            message=message,
            type=name,
            traceback=_traceback(error),
            retry_after_s=_retry_after_s(error),
            answer=_answer(error),
            cause=_cause(error),
        )
    except BaseException:  # noqa: BLE001  its attributes are user code too
        return Failure(kind=kind, message=message, type=name)


def _answer(error: BaseException) -> str:
    """Return the model's response; a user's own error may use that name for something else."""
    if isinstance(error, AttemptError) and isinstance(error.answer, str):
        return cut(error.answer, MOST_MESSAGE_CHARS)
    return ""


def _cause(error: BaseException) -> str:
    if isinstance(error, AttemptError) and error.cause in ANSWER_CAUSES:
        return error.cause
    return ""


def cancelled(message: str) -> Failure:
    """Return why a job was cancelled."""
    return Failure(kind=Kind.CANCELLED, message=message, type="Cancelled")


def paused(message: str) -> Failure:
    """Return why a job was left pending."""
    return Failure(kind=Kind.PAUSED, message=message, type="Paused")


def timed_out(message: str) -> Failure:
    """Return the failure of a timeout."""
    return Failure(kind=Kind.TIMEOUT, message=message, type="TimeoutError")


def crashed(message: str) -> Failure:
    """Return the failure of an attempt whose worker process died."""
    return Failure(kind=Kind.CRASH, message=message, type="graphmill.WorkerCrash")


def ambiguous(message: str) -> Failure:
    """Return the failure of something that must not happen twice and may have happened."""
    return Failure(kind=Kind.AMBIGUOUS, message=message, type="graphmill.Ambiguous")


class NotStarted(Exception):  # noqa: N818  an end, not an error
    """An attempt was ended before its function was called."""


def as_ambiguous(failure: Failure, error: BaseException | None) -> Failure:
    """Return what a failure means for an unsafe attempt: an unknown outcome, unless it surely wasn't sent."""
    if failure.kind not in (Kind.TRANSIENT, Kind.TIMEOUT, Kind.CRASH) or is_unsent(error):
        return failure
    return replace(failure, kind=Kind.AMBIGUOUS, message=f"unknown outcome, not retried: {failure.message}")


def is_unsent(error: BaseException | None) -> bool:
    """Whether an error proves that the attempted effect did not happen."""
    if isinstance(error, Reported | Transient):
        return error.is_unsent
    return isinstance(error, ConnectionRefusedError | NotStarted)


class Reported(Exception):  # noqa: N818  it carries a failure
    """A failure that was recorded elsewhere, such as in a worker process, with its exception if that could be sent."""

    def __init__(self, failure: Failure, pickled: bytes | None = None, *, is_unsent: bool = False) -> None:
        self.failure = failure
        self.is_unsent = is_unsent
        self._pickled = pickled
        super().__init__(str(failure))

    def exception(self) -> BaseException | None:
        """Return the exception as it was raised, without its frames; None if it can't be restored."""
        try:
            error = self._pickled and pickle.loads(self._pickled)  # noqa: S301  from our own worker
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001  reading a user's exception runs its code
            return None
        if isinstance(error, BaseException):
            return error
        return None


def _type_name(error: BaseException) -> str:
    kind = type(error)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    module = "graphmill" if kind.__module__ == GraphmillError.__module__ else kind.__module__  # as users import it
    return f"{module}.{kind.__qualname__}"


def _retry_after_s(error: BaseException) -> float | None:
    """Read ``retry_after_s`` of any exception that has it, or the headers of another client's."""
    value = getattr(error, "retry_after_s", None)
    if isinstance(value, int | float) and math.isfinite(value) and value >= 0:
        return float(value)
    return retry_after_of(error)


def _traceback(error: BaseException) -> str:
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(parts) < _MAX_CAUSES:
        parts.append(f"{_frames(cause.__traceback__)}{_last_line(cause)}")
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "\n\ncaused\n\n".join(reversed(parts))


def _last_line(error: BaseException) -> str:
    name, short, message = _type_name(error), type(error).__name__, message_of(error)[:_MAX_TRACED_CHARS]
    if message.startswith(short):
        return f"{name}{message.removeprefix(short)}"
    return f"{name}: {message}"


def _frames(traceback: TracebackType | None) -> str:
    """Return the last frames, without our own."""
    lines = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not code.co_filename.startswith(_OWN_FOLDER):
            lines.append((code.co_filename, traceback.tb_lineno, code.co_name))
        traceback = traceback.tb_next
    return "".join(f'  File "{file}", line {line}, in {name}\n' for file, line, name in lines[-_MAX_FRAMES:])


_OWN_FOLDER = str(Path(__file__).parents[1]) + os.sep


_ALLOWED_KINDS = {
    kind: kind for kind in (Kind.THROTTLED, Kind.UNAVAILABLE, Kind.TRANSIENT, Kind.PERMANENT, Kind.TIMEOUT)
}


class Classifier:
    """Classifies errors by the user's rule, if any; one that raises or returns nonsense is logged once and ignored."""

    def __init__(self, classify: Callable[[BaseException], Any] | None) -> None:
        self._classify = classify
        self._has_failed = False

    def failure(self, error: BaseException) -> Failure:
        """Return the failure of an error; one that was recorded elsewhere keeps its record."""
        if isinstance(error, StepError):
            failure: Failure = error.failure
            return replace(failure, message=f"{error.step}: {failure.message}")
        if isinstance(error, Reported):
            raised = self._classify and error.exception()
            if raised is not None and (kind := self._kind(raised)) is not None:
                return replace(error.failure, kind=kind)
            return error.failure
        return failure_of(error, self._kind(error) or kind_of(error))

    def _kind(self, error: BaseException) -> Kind | None:
        if self._classify is None:
            return None
        try:
            kind = self._classify(error)
            return None if kind is None else _ALLOWED_KINDS[kind]
        except (Exception, SystemExit) as fault:
            if not self._has_failed:
                self._has_failed = True
                kinds = ", ".join(_ALLOWED_KINDS)
                log.exception(
                    "classify failed on %s; it must return %s or None; using the usual rule",
                    type(error).__name__,
                    kinds,
                    exc_info=fault,
                )
            return None
