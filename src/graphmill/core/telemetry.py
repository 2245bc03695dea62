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
_API = ("opentelemetry.trace", "opentelemetry.metrics")
_TRACERS = (_API[0], "_TRACER_PROVIDER", "get_tracer_provider")
_METERS = (f"{_API[1]}._internal", "_METER_PROVIDER", "get_meter_provider")
_FLUSH_S = 5.0


def is_possible() -> bool:
    """Tell, as quickly as can be, whether anybody could watch."""
    return "opentelemetry" in sys.modules


def tracer() -> Tracer | None:
    """Give what makes spans; None where nobody takes them."""
    provider = _provider(*_TRACERS)
    return None if provider is None else _tracer(provider)


def meter() -> Meter | None:
    """Give what measures; None where nobody takes it."""
    provider = _provider(*_METERS)
    return None if provider is None else _meter(provider)


def flush() -> None:
    """Send what is not sent yet, for a process that leaves without asking anybody; never wait for long."""
    sending = [
        found for found in (getattr(_provider(*place), "force_flush", None) for place in (_TRACERS, _METERS)) if found
    ]
    if sending:
        thread = Thread(target=_send, args=(sending,), name="graphmill-telemetry", daemon=True)
        thread.start()
        thread.join(_FLUSH_S)


def _provider(module: str, name: str, getter: str) -> Any | None:
    """Give what was set up; what the API itself gives instead takes nothing."""
    api = sys.modules.get(module)
    if (
        api is None or getattr(api, name, api) is None
    ):  # to ask it would take longer than all else that a call does here
        return None
    provider = getattr(api, getter)()
    return None if type(provider).__module__.startswith(_API) else provider


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
