"""A scorer over the stored results of a run: what it is given of each, and what the score of a failed item is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from graphmill.core.errors import Permanent
from graphmill.core.fingerprint import value_fingerprint
from graphmill.core.foreign import AdaptedGraph
from graphmill.core.json import MISSING, field_inside
from graphmill.core.result import ANSWER_CAUSES, Result, Status
from graphmill.scoring.score import INFRASTRUCTURE, Score
from graphmill.scoring.scorer import Scorer

KIND = "scorer"  # of the graph in a pass's manifest
SCORED = frozenset({Status.SUCCEEDED, Status.FAILED, Status.TIMED_OUT})  # who is scored: all that has come to an end
_ANSWERS = ("answer", "solution", "response", "result")
_TARGETS = ("ground_truth", "answer", "target")
_MOST_NAMED = 10


class ScoredFields(msgspec.Struct, frozen=True, kw_only=True):
    """The field of an output with the answer, and of an item with the target; None for the usual ones."""

    answer: str | None = None
    target: str | None = None


USUAL_FIELDS = ScoredFields()


class ScoringPass(AdaptedGraph):
    """Scores items that ``item_to_score`` made; ``complete`` is what a scorer that asks a model gets."""

    library = KIND

    def __init__(self, scorer: Scorer, complete: Callable[..., Any]) -> None:
        self.scorer = scorer
        self.packages = scorer.packages
        self._complete = complete

    def __call__(self, item: Mapping[str, Any]) -> Any:
        """Score an item; return the score as data."""
        decided = score_without_scorer(item)
        if decided is None:
            decided = self.scorer.score(self._given(item))
        return decided.to_json()

    def _given(self, item: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**item, "complete": self._complete}

    @property
    def name(self) -> str:
        """The scorer's name."""
        return self.scorer.name

    @property
    def home(self) -> str | None:
        """The text by which another process finds the scorer."""
        return self.scorer.spec

    @property
    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of the scorer: if its version changes, everything is scored again."""
        return {f"scorer {self.scorer.name}": value_fingerprint(self.scorer.fingerprint)}


class AsyncScoringPass(ScoringPass):
    """The same with an async scorer."""

    async def __call__(self, item: Mapping[str, Any]) -> Any:
        """Score an item; return the score as data."""
        decided = score_without_scorer(item)
        if decided is None:
            decided = await self.scorer.score_async(self._given(item))
        return decided.to_json()


def scoring_pass(scorer: Scorer, complete: Callable[..., Any]) -> ScoringPass:
    """Make the graph of a pass."""
    kind = AsyncScoringPass if scorer.is_async else ScoringPass
    return kind(scorer, complete)


def item_to_score(result: Result, takes: frozenset[str], fields: ScoredFields) -> dict[str, Any]:
    """Return what a pass is given of a result: only what its scorer takes, so that nothing else changes a score.

    A failed result has its ``failure`` instead, and so has an output that says in ``error`` why it has no answer.
    """
    item: dict[str, Any] = {}
    if result.error is not None:
        failure = result.error
        item["failure"] = {"kind": str(failure.kind), "cause": failure.cause, "message": failure.message}
        return item
    found = _find(result.output, fields.answer, _ANSWERS)
    if found.value is None and (failed := _failure_in(result.output)) is not None:
        return {"failure": failed}
    if "answer" in takes:
        item["answer"] = found.value
        if found.missing:
            item["missing"] = f"the output has {found.missing}; name it with --answer FIELD (answer=…)"
    if "target" in takes:
        wanted = _find(result.input, fields.target, _TARGETS)
        item["target"] = wanted.value
        if fields.target and wanted.missing:
            item["missing"] = f"the item has {wanted.missing}; name it with --target FIELD (target=…)"
    if "problem" in takes:
        item["problem"] = result.input
    return item


def is_score_of(item: Mapping[str, Any], result: Result, fields: ScoredFields) -> bool:
    """Whether this item of a pass was made of this result; another one may have taken its place since."""
    given = {name: value for name, value in item.items() if name != "trace"}
    return given == item_to_score(result, frozenset(given), fields)


def score_without_scorer(item: Mapping[str, Any]) -> Score | None:
    """Return the score of an item that failed; None if it has to be scored.

    A model that refused, or whose answer was cut or did not fit, gave a wrong answer. Any other failure is one of the
    infrastructure, and says nothing about the answer.
    """
    if "missing" in item:
        raise Permanent(str(item["missing"]))
    failure = item.get("failure")
    if failure is None:
        return None
    cause = failure.get("cause")
    if cause in ANSWER_CAUSES:
        return Score(value=0.0, explanation=failure["message"], metadata={"outcome": cause})
    explanation = f"{failure['kind']}: {failure['message']}"
    return Score(value=None, explanation=explanation, metadata={"outcome": INFRASTRUCTURE})


class _Found(msgspec.Struct, frozen=True):
    value: Any
    missing: str = ""


def _find(data: Any, field: str | None, usual: tuple[str, ...]) -> _Found:
    """Find a value by its field, or the first of the usual ones; an output that is no mapping is the answer itself.

    A response in the shape of a schema is a mapping itself, in which the answer is looked for in the same way.
    """
    if field is not None:
        return _inside(data, field)
    if not isinstance(data, Mapping):
        return _Found(data if usual is _ANSWERS else None)
    name = next((name for name in usual if name in data), None)
    if name is None and usual is _ANSWERS and len(data) == 1:
        name = next(iter(data))
    if name is not None:
        value = data[name]
        inner = _find(value, None, usual) if isinstance(value, Mapping) and usual is _ANSWERS else _Found(value)
        return _Found(value) if inner.missing else inner
    return _Found(None, f"no field {', '.join(usual[:-1])} or {usual[-1]}{_names(data)}")


def _inside(data: Any, field: str) -> _Found:
    found = field_inside(data, field)
    return _Found(None, f"no field {field!r:.80}{_names(data)}") if found is MISSING else _Found(found)


def _names(data: Any) -> str:
    names = [str(name) for name in data][:_MOST_NAMED] if isinstance(data, Mapping) else []
    return f" (fields: {', '.join(names)})" if names else ""


def _failure_in(output: Any) -> dict[str, Any] | None:
    """Return why an output has no answer, if it says so: ``{"error": {"kind": …, "message": …}}``."""
    error = output.get("error") if isinstance(output, Mapping) else None
    if not isinstance(error, Mapping) or not isinstance(error.get("kind"), str):
        return None
    return {"kind": error["kind"], "cause": error.get("cause", ""), "message": str(error.get("message", ""))}
