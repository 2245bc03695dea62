"""A rehearsal: a run in which every model call is answered by a script, and nobody is called."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from graphmill.graph.models.provider import Provider
from graphmill.graph.models.settings import ProviderSetting
from graphmill.graph.models.target import ModelTarget

NAME = "rehearsal"
PROTOCOL = "scripted"


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What answers: ``script`` is a file of rules or ``module:function``, or empty for made-up answers.

    ``function`` is a function that this process was given itself.
    """

    script: str = ""
    function: Callable[[Any], Any] | None = None

    def target(self, target: ModelTarget, provider: Provider) -> ModelTarget:
        """Return what is called in place of a model: nothing that has an address, a key or limits."""
        address = "" if self.function is not None else self.script
        return replace(
            target,
            name=NAME,
            model=target.model if target.name == NAME else target.lane,
            provider=provider,
            setting=ProviderSetting(protocol=PROTOCOL, address=address or None),
            own_prices=(),
        )


# Of the run that calls are made in: whatever it does, in nested runs too, calls no model.
current_rehearsal: ContextVar[Rehearsal | None] = ContextVar("graphmill_rehearsal", default=None)
run_notes: ContextVar[list[str] | None] = ContextVar("graphmill_run_notes", default=None)
