"""From an attempt's error to its failure: by the user's rule first, then by the usual one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from graphmill.core.errors import StepError
from graphmill.core.result import Failure, Kind
from graphmill.engine.failures import Reported, failure_of, kind_of
from graphmill.engine.subscriber import log

_MAY_SAY = {kind: kind for kind in (Kind.THROTTLED, Kind.UNAVAILABLE, Kind.TRANSIENT, Kind.PERMANENT, Kind.TIMEOUT)}


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
            return None if kind is None else _MAY_SAY[kind]
        except (Exception, SystemExit) as fault:  # noqa: BLE001  a rule that fails must not fail the item
            if not self._has_failed:
                self._has_failed = True
                kinds = ", ".join(_MAY_SAY)
                log.exception(
                    "classify failed on %s; it says %s or None; the usual rule is used",
                    type(error).__name__,
                    kinds,
                    exc_info=fault,
                )
            return None
