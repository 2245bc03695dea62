"""The terms on which a run is started: its policy, and what it is given beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from graphmill.engine.admission import Bind
from graphmill.engine.audience import Hooks
from graphmill.engine.machine import Readable
from graphmill.engine.policy import Policy
from graphmill.engine.recorder import Recorder


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """``bind`` makes the job of an item, ``accept`` is called on every output, ``total`` is None where it is not known.

    ``recorder`` takes hold of the run in a journal; it blocks, and is called in a thread. ``wall`` is the clock on the wall; the run itself
    goes by that of its loop.
    """

    policy: Policy
    hooks: Hooks
    random: Random
    machine: Readable
    wall: Callable[[], float]
    bind: Bind | None
    accept: Callable[[Any], Any] | None
    total: int | None
    recorder: Callable[[], Recorder] | None
