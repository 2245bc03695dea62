"""What is chosen of models for a run that is gone on with or done again in part, and what a command tells of it."""

from __future__ import annotations

from collections.abc import Sequence

from graphmill.api.model_changes import ModelParams, other_models, require_nodes
from graphmill.api.resume import graph_of
from graphmill.journal.intake import OnChange
from graphmill.journal.records import RunRecord
from graphmill.report.text import counted

_FATES = {"keep": "kept", "invalidate": "made otherwise"}


class Chosen(ModelParams, total=False):
    """Models, and what they are asked with; nothing, if nothing is chosen."""

    models: Sequence[str]


def chosen_of(models: Sequence[str] | None, temperature: float | None, max_tokens: int | None) -> Chosen:
    """Give what the options of a command choose."""
    if not models and temperature is None and max_tokens is None:
        return {}
    return {"models": models or (), "temperature": temperature, "max_tokens": max_tokens}


def told_models(run: RunRecord, chosen: Chosen, on_change: OnChange | None, *, results: int = 0) -> tuple[str, ...]:
    """Tell which models a run asks or, if some are chosen, which nodes ask another from now on and what becomes of so many results."""
    models = tuple(run.manifest.get("graph", {}).get("models", ()))
    if not chosen:
        return models
    require_nodes(run)
    other = other_models(
        run,
        graph_of(run),
        chosen["models"],
        on_change,
        temperature=chosen["temperature"],
        max_tokens=chosen["max_tokens"],
    )
    fate = _FATES.get(other.on_change)
    return (*(other.words.values() or models), *([f"{counted(results, 'result')} {fate}"] if results and fate else []))
