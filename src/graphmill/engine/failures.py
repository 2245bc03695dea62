"""From an exception to a recorded failure: its kind by the user's rule or by type, its message and its frames."""

from __future__ import annotations

import logging
import math
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from graphmill.core.errors import (
    MOST_MESSAGE_CHARS,
    Ambiguous,
    AttemptError,
    Permanent,
    StepError,
    Throttled,
    Transient,
    Unavailable,
    UsageError,
    cut,
    message_of,
)
from graphmill.core.result import Failure, Kind

log = logging.getLogger("graphmill")

_MOST_FRAMES = 20
_MOST_CAUSES = 3
_MOST_TRACED_CHARS = 200

# What the same call on the same input will do again. ValueError, LookupError, RuntimeError and AssertionError are
# not here: over model answers they are what one bad answer looks like, and the next answer may be good.
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

_BY_WEIGHT = (
    Kind.PERMANENT,
    Kind.AMBIGUOUS,
    Kind.CRASH,
    Kind.TIMEOUT,
    Kind.UNAVAILABLE,
    Kind.THROTTLED,
    Kind.TRANSIENT,
)


def kind_of(error: BaseException) -> Kind:
    """Tell an exception's kind by its type; what is not known to be permanent may go well next time."""
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
    return Kind.PERMANENT if issubclass(raised, _PERMANENT) else Kind.TRANSIENT


def root_cause(error: BaseException) -> BaseException:
    """Give, of a group of errors such as a TaskGroup raises, the one that decides what becomes of the attempt."""
    return (
        min((root_cause(part) for part in error.exceptions), key=_rank)
        if isinstance(error, BaseExceptionGroup)
        else error
    )


def _rank(error: BaseException) -> int:
    return -1 if isinstance(error, StepError) else _BY_WEIGHT.index(kind_of(error))


def failure_of(error: BaseException, kind: Kind) -> Failure:
    """Record an exception without rendering source lines: thousands may fail at once, on the loop."""
    message, name = "an exception that can not be described", "Exception"
    try:
        message, name = message_of(error), _type_name(error)
        return Failure(
            kind=kind,
            message=message,
            type=name,
            traceback=_traceback(error),
            retry_after_s=_retry_after_s(error),
            answer=_answer(error),
        )
    except BaseException:  # noqa: BLE001  its attributes are user code too
        return Failure(kind=kind, message=message, type=name)


def _answer(error: BaseException) -> str:
    """Give what a model has said; an error of a user's own may have something else by that name."""
    found: Any = error.answer if isinstance(error, AttemptError) else ""
    return cut(found, MOST_MESSAGE_CHARS) if isinstance(found, str) else ""


def cancelled(message: str) -> Failure:
    """Record why a job was cancelled; it is no failure, but it is told in the same form."""
    return Failure(kind=Kind.CANCELLED, message=message, type="Cancelled")


def paused(message: str) -> Failure:
    """Record why a job was left undone; it is no failure either."""
    return Failure(kind=Kind.PAUSED, message=message, type="Paused")


def timed_out(message: str) -> Failure:
    """Record that a time was up."""
    return Failure(kind=Kind.TIMEOUT, message=message, type="TimeoutError")


def crashed(message: str) -> Failure:
    """Record that a worker process died under an attempt."""
    return Failure(kind=Kind.CRASH, message=message, type="graphmill.WorkerCrash")


def ambiguous(message: str) -> Failure:
    """Record that nobody knows whether something happened that must not happen twice."""
    return Failure(kind=Kind.AMBIGUOUS, message=message, type="graphmill.Ambiguous")


class NotStarted(Exception):  # noqa: N818  an end, not an error
    """An attempt was ended before its function was called."""


def as_ambiguous(failure: Failure, error: BaseException | None) -> Failure:
    """Give what a failure means for an attempt that must not happen twice: nobody knows whether it has, unless it surely was not sent."""
    if failure.kind not in (Kind.TRANSIENT, Kind.TIMEOUT, Kind.CRASH) or is_unsent(error):
        return failure
    return replace(failure, kind=Kind.AMBIGUOUS, message=f"it may have happened: {failure.message}")


def is_unsent(error: BaseException | None) -> bool:
    """Tell whether an error says that what was attempted has surely not happened."""
    if isinstance(error, Reported | Transient):
        return error.is_unsent
    return isinstance(error, ConnectionRefusedError | NotStarted)


class Reported(Exception):  # noqa: N818  it carries what has already been named
    """A failure recorded elsewhere, in a worker process for one, and its exception if that could be sent."""

    def __init__(self, failure: Failure, pickled: bytes | None = None, *, is_unsent: bool = False) -> None:
        self.failure = failure
        self.is_unsent = is_unsent
        self._pickled = pickled
        super().__init__(str(failure))

    def exception(self) -> BaseException | None:
        """Give the exception as it was raised, without its frames; None for one that can not be had here."""
        try:
            error = None if self._pickled is None else pickle.loads(self._pickled)  # noqa: S301  by the private socket of our own worker
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001  reading a user's exception runs its code
            return None
        return error if isinstance(error, BaseException) else None


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _retry_after_s(error: BaseException) -> float | None:
    """Read ``retry_after_s`` off any exception that carries it, so that other libraries' errors can."""
    value = getattr(error, "retry_after_s", None)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) and value >= 0 else None


def _traceback(error: BaseException) -> str:
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(parts) < _MOST_CAUSES:
        parts.append(f"{_frames(cause.__traceback__)}{_last_line(cause)}")
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "\n\ncaused\n\n".join(reversed(parts))


def _last_line(error: BaseException) -> str:
    name, short, message = _type_name(error), type(error).__name__, message_of(error)[:_MOST_TRACED_CHARS]
    return f"{name}{message.removeprefix(short)}" if message.startswith(short) else f"{name}: {message}"


def _frames(traceback: TracebackType | None) -> str:
    """Give the last frames, without our own, which are always the first."""
    lines = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not code.co_filename.startswith(_OWN_FOLDER):
            lines.append((code.co_filename, traceback.tb_lineno, code.co_name))
        traceback = traceback.tb_next
    return "".join(f'  File "{file}", line {line}, in {name}\n' for file, line, name in lines[-_MOST_FRAMES:])


_OWN_FOLDER = str(Path(__file__).parents[1]) + os.sep


_ALLOWED_KINDS = {
    kind: kind for kind in (Kind.THROTTLED, Kind.UNAVAILABLE, Kind.TRANSIENT, Kind.PERMANENT, Kind.TIMEOUT)
}


class Classifier:
    """Asks ``classify(error)`` for a kind, if there is such a rule; one that raises or says nonsense is logged once and passed over."""

    def __init__(self, classify: Callable[[BaseException], Any] | None) -> None:
        self._classify = classify
        self._has_failed = False

    def failure(self, error: BaseException) -> Failure:
        """Record an error; one that was recorded in a worker process keeps its record."""
        if isinstance(error, StepError):
            failure: Failure = error.failure
            return replace(failure, message=f"step {error.path}: {failure.message}")
        if isinstance(error, Reported):
            raised = None if self._classify is None else error.exception()
            kind = None if raised is None else self._kind(raised)
            return error.failure if kind is None else replace(error.failure, kind=kind)
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
                    "classify failed on %s; it says %s or None; the usual rule is used",
                    type(error).__name__,
                    kinds,
                    exc_info=fault,
                )
            return None
