"""Merging outputs, with the rule for conflicts said aloud."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

from graphmill.core.errors import UsageError
from graphmill.core.result import Result

Rule = Literal["error", "first", "last"]
Conflict = Rule | Callable[[Any, Any], Any]


def merge_outputs(results: Iterable[Result], *, key: str | None, conflict: Conflict) -> dict[Any, Any]:
    """Merge mappings entry by entry; equal values are no conflict."""
    if conflict not in get_args(Rule) and not callable(conflict):
        raise UsageError(f"conflict is error, first, last or a function of two values, not {conflict!r:.80}")
    merged: dict[Any, Any] = {}
    origin: dict[Any, str] = {}
    for result in results:
        for name, value in _entries(result, key):
            if name in merged and not _is_equal(merged[name], value):
                value = _decide(conflict, name, merged[name], value, (origin[name], result.job_id))  # noqa: PLW2901
            merged[name] = value
            origin.setdefault(name, result.job_id)
    return merged


def _entries(result: Result, key: str | None) -> Iterator[tuple[Any, Any]]:
    output = result.output
    if not isinstance(output, Mapping):
        raise UsageError(
            f"merge wants outputs that are mappings; that of {result.job_id!r:.80} is {type(output).__name__}"
        )
    if key is None:
        yield from output.items()
        return
    if key not in output:
        raise UsageError(
            f"the output of {result.job_id!r:.80} has no {key!r} to merge by; it has {', '.join(map(repr, output))}"
        )
    try:
        hash(output[key])
    except TypeError:
        raise UsageError(
            f"the {key!r} of {result.job_id!r:.80} is a {type(output[key]).__name__}, which can not be merged by"
        ) from None
    yield output[key], output


def _is_equal(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and bool(one == other))


def _decide(conflict: Conflict, name: Any, one: Any, other: Any, jobs: tuple[str, str]) -> Any:
    if callable(conflict):
        return conflict(one, other)
    if conflict == "error":
        raise UsageError(
            f"{jobs[0]!r:.80} and {jobs[1]!r:.80} give different values for {name!r:.80}; "
            "say which counts: conflict='first', 'last', or a function"
        )
    return one if conflict == "first" else other
