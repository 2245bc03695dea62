"""The trace of an item as frozen values: the steps that led to its result, and what models were sent and answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from graphmill.core.result import Failure, Status
from graphmill.core.usage import Usage


class TraceStep(msgspec.Struct, frozen=True, kw_only=True):
    """A model call, or a step that called no model. Times are in seconds since the item began.

    ``id`` never changes, and is unique in a journal. ``path`` is the place of the step, such as ``debate@2/solve``;
    ``node`` the id of its node (of a function: its name), ``round`` the number of the innermost round, None outside of
    loops. ``generation`` is the time the item was run at which this happened.

    ``request`` has the ``messages`` and, where there were any, ``params``, ``tools`` and ``schema``; ``response`` the
    ``text``, ``reasoning``, ``finish_reason``, ``tool_calls``, ``id``, ``model``, ``system_fingerprint``,
    ``service_tier`` and ``usage`` of the answer. Both are None for a step that called no model, and in a run that does
    not record prompts. ``problem`` says why an answer was asked for again. ``output`` is the step's own, with the last
    of its calls. ``usage`` leaves out that of steps inside this one, and ``cost_nano`` is the known part of its cost.
    """

    id: str
    path: str
    node: str
    generation: int
    attempt: int
    began_s: float
    duration_s: float
    role: str | None = None
    round: int | None = None
    model: str | None = None
    request: Mapping[str, Any] | None = None
    response: Mapping[str, Any] | None = None
    output: Any = None
    problem: str | None = None
    error: Mapping[str, Any] | None = None
    cached: bool = False
    usage: Usage | None = None
    cost_nano: int | None = None


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """An item of a run: its result, and the steps that led there, in the order in which they began.

    ``row`` counts from 1, as in ``graphmill results``; ``sample`` from 1, and is 0 where each item is run once. A step
    that was not run again for this result has an earlier ``generation`` than the trace.
    """

    run_id: str
    item_id: str
    row: int
    sample: int
    generation: int
    status: Status
    input: Any
    output: Any
    error: Failure | None
    steps: Sequence[TraceStep]
