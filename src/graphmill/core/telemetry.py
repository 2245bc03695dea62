"""Where telemetry goes, if this program has set something up for it: the one file that finds OpenTelemetry.

Nothing is imported: whoever takes spans or metrics has imported the API to say so. Where nobody does, there is nothing to ask.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from threading import Thread
from typing import TYPE_CHECKING, Any

from graphmill.core.version import __version__

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.trace import Tracer

_NAME = "graphmill"
_TRACE, _METRICS = "opentelemetry.trace", "opentelemetry.metrics"
_FLUSH_S = 5.0


def tracer() -> Tracer | None:
    """Give what makes spans; None where nobody takes them."""
    provider = _provider(_TRACE, "get_tracer_provider")
    return None if provider is None else _tracer(provider)


def meter() -> Meter | None:
    """Give what measures; None where nobody takes it."""
    provider = _provider(_METRICS, "get_meter_provider")
    return None if provider is None else _meter(provider)


def flush() -> None:
    """Send what is not sent yet, for a process that leaves without asking anybody; never wait for long."""
    sending = [flush for flush in (_flush_of(_TRACE, "get_tracer_provider"), _flush_of(_METRICS, "get_meter_provider")) if flush]
    if sending:
        thread = Thread(target=_send, args=(sending,), name="graphmill-telemetry", daemon=True)
        thread.start()
        thread.join(_FLUSH_S)


def _provider(module: str, getter: str) -> Any | None:
    """Give what was set up; what the API itself gives instead takes nothing."""
    api = sys.modules.get(module)
    if api is None:
        return None
    provider = getattr(api, getter)()
    return None if type(provider).__module__.startswith((_TRACE, _METRICS)) else provider


def _flush_of(module: str, getter: str) -> Callable[[], Any] | None:
    return getattr(_provider(module, getter), "force_flush", None)


def _send(sending: list[Callable[[], Any]]) -> None:
    for flush_one in sending:
        with suppress(Exception):  # theirs to tell
            flush_one()


@lru_cache(maxsize=4)
def _tracer(provider: Any) -> Tracer:
    made: Tracer = provider.get_tracer(_NAME, __version__)
    return made


@lru_cache(maxsize=4)
def _meter(provider: Any) -> Meter:
    made: Meter = provider.get_meter(_NAME, __version__)
    return made
