"""OpenTelemetry: finds the tracer and the meter that this program has set up, without importing anything.

Whoever takes spans or metrics has imported the API to set that up. Where nobody does, there is nothing to ask.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

from graphmill.core.version import __version__

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Tracer

_NAME = "graphmill"
_FLUSH_S = 5.0


def tracer() -> Tracer | None:
    """Return what makes spans; None where nobody takes them."""
    provider = _provider("opentelemetry.trace", "get_tracer_provider")
    return None if provider is None else provider.get_tracer(_NAME, __version__)


def meter() -> Meter | None:
    """Return what measures; None where nobody takes it."""
    provider = _provider("opentelemetry.metrics", "get_meter_provider")
    return None if provider is None else provider.get_meter(_NAME, __version__)


def flush() -> None:
    """Send what is not sent yet, for a process that exits without running exit handlers; wait at most 5 s."""
    providers = (
        _provider("opentelemetry.trace", "get_tracer_provider"),
        _provider("opentelemetry.metrics", "get_meter_provider"),
    )
    flushes = [getattr(provider, "force_flush", None) for provider in providers]
    if any(flushes):
        thread = Thread(target=_flush_all, args=(list(filter(None, flushes)),), name="graphmill-telemetry", daemon=True)
        thread.start()
        thread.join(_FLUSH_S)


def _provider(module: str, getter: str) -> Any | None:
    """Return the provider that was set up; None for the API's own, which takes nothing."""
    api = sys.modules.get(module)
    if api is None:
        return None
    provider = getattr(api, getter)()
    return None if type(provider).__module__.startswith(module) else provider


def _flush_all(flushes: list[Callable[[], Any]]) -> None:
    for flush_one in flushes:
        with suppress(Exception):  # a failing exporter logs why
            flush_one()
