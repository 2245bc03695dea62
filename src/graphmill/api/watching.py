"""Who is told, and what is kept, while a batch runs; and what is said of keywords that nothing takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from inspect import signature
from typing import Any, TypedDict

from graphmill.core.errors import UsageError
from graphmill.core.job import Job
from graphmill.core.result import Result
from graphmill.core.suggest import suggestion
from graphmill.datasets.sink import Sink
from graphmill.engine.alerts import Alert
from graphmill.engine.events import Event
from graphmill.engine.policy import Policy, Retry
from graphmill.engine.progress import Progress
from graphmill.engine.run import Run


class Watching(TypedDict, total=False):
    """Who is told, and what is kept, while a batch runs; see ``abatch``."""

    sinks: Sequence[Sink]
    on_start: Callable[[Run], Any] | None
    on_result: Callable[[Job, Result], Any] | None
    on_progress: Callable[[Progress], Any] | None
    on_alert: Callable[[Alert], Any] | None
    observers: Sequence[Callable[[Event], Any]]


def require_known(function: Callable[..., Any], given: Mapping[str, Any], *, more: str = "") -> None:
    """Refuse keywords that a function of the facade does not take; ``more`` says what one may be, where {} is its name."""
    unknown = [name for name in given if name not in Watching.__annotations__]
    if unknown:
        known = [*(name for name in signature(function).parameters if name != "watching"), *Watching.__annotations__]
        told = "; ".join(_told(name, known) + more.replace("{}", repr(name)) for name in unknown)
        raise UsageError(f"gm.{function.__name__.removeprefix('a')} takes no such keyword: {told}")


def _told(name: str, known: Iterable[str]) -> str:
    if name in (field.name for field in fields(Policy)):
        return f"{name!r} belongs in policy=gm.Policy({name}=…)"
    if name in (field.name for field in fields(Retry)):
        return f"{name!r} belongs in policy=gm.Policy(retry=gm.Retry({name}=…))"
    return f"{name!r}{suggestion(name, known)}"
