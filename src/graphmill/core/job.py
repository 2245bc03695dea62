"""A job: what the executor is given to do, the id it goes by, and the paths of its steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from numbers import Integral
from typing import Any, Literal
from uuid import UUID

import msgspec

from graphmill.core.errors import UsageError
from graphmill.core.foreign import adapt_graph
from graphmill.core.usage import Usage

Effect = Literal["repeatable", "unsafe"]


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to a job in earlier processes: failed attempts, how many count or crashed a worker, and the usage.

    A suspect was running more than once when the whole process died; suspects run one at a time. ``position`` is the
    item's position in its source, if the job's own is another. ``generation`` counts from 1, and grows whenever the
    item is run anew.
    """

    attempts: int = 0
    counted: int = 0
    crashes: int = 0
    is_suspect: bool = False
    position: int | None = None
    generation: int = 1
    usage: Usage | None = None


NO_PAST = Past()


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """An item and the graph that handles it.

    ``graph`` is any callable of one argument, or a compiled LangGraph graph. An async function runs on the event loop,
    any other in a thread. A higher priority starts earlier; one step of priority outweighs a minute of waiting.

    Jobs with the same ``key`` depend on the same thing, such as one model: they share its health and, with adaptive
    concurrency, its limit. With the effect "unsafe" a job must not happen twice: it is retried only if it certainly has
    not happened. A resumed job has a ``past``. ``sample`` counts from 1 where each item is run several times.
    """

    id: str
    graph: Callable[[Any], Any]
    input: Any = None
    priority: int = 0
    key: str = ""
    effect: Effect = "repeatable"
    past: Past = NO_PAST
    sample: int = 0

    def __post_init__(self) -> None:
        if type(self.id) is not str:
            raise UsageError(f"a job's id must be text, got {type(self.id).__name__}: {self.id!r:.80}")
        if not callable(self.graph):
            msgspec.structs.force_setattr(self, "graph", adapt_graph(self.graph))
        if not callable(self.graph):
            raise UsageError(
                f"the graph of job {self.id!r:.80} is not callable: {self.graph!r:.80}; "
                "load a workflow file with gm.load"
            )
        if type(self.priority) is not int:
            raise UsageError(f"the priority of job {self.id!r:.80} must be an integer, got {self.priority!r:.80}")
        if self.sample != 0 and (type(self.sample) is not int or self.sample < 0):
            raise UsageError(
                f"the sample of job {self.id!r:.80} must be an integer >= 1, or 0 for none, got {self.sample!r:.80}"
            )
        if self.effect not in ("repeatable", "unsafe"):
            raise UsageError(f"the effect of job {self.id!r:.80} must be repeatable or unsafe, got {self.effect!r:.80}")
        if type(self.key) is not str:
            raise UsageError(
                f"the key of job {self.id!r:.80} must be text, got {type(self.key).__name__}: {self.key!r:.80}"
            )


JOB_ID = "job"  # where an item has no other id
_MOST_ROW_DIGITS = 18  # what a column of SQLite holds
_STEP_NUMBERS = re.compile(r"[@#]\d+|\[\d+\]")  # of rounds, calls and items
_ROUND = re.compile(r"@(\d+)")
_MAPPINGS = (dict, Mapping)  # the check against an abstract class is slow, and nearly all are dicts


def sample_id(item_id: str, sample: int) -> str:
    """Return the id of a sample of an item; the first has the item's own id, which is so the same without samples."""
    return item_id if sample <= 1 else f"{item_id}#{sample}"


def item_of_sample(job_id: str, sample: int) -> str:
    """Return the id of the item that a job is a sample of."""
    return job_id if sample <= 1 else job_id.removesuffix(f"#{sample}")


@lru_cache(maxsize=1024)
def without_numbers(path: str) -> str:
    """Return a step's path as the workflow has it: 'debate@2/solve' is 'debate/solve'."""
    return _STEP_NUMBERS.sub("", path)


def round_of(path: str) -> int | None:
    """Return the number of the innermost round in a step's path; None outside of loops."""
    found = _ROUND.findall(path) if "@" in path else None
    return int(found[-1]) if found else None


def row_number(position: int) -> int:
    """Return the number by which people know the item at this position of the source: rows count from 1."""
    return position + 1


def position_of_row(text: str) -> int | None:
    """Return the position that a row number means; None if the text is none."""
    if text.isascii() and text.isdigit() and len(text) <= _MOST_ROW_DIGITS and int(text) > 0:
        return int(text) - 1
    return None


def own_id(item: Any, position: int, *, id_field: str | None = None) -> str | None:
    """Return an item's own id: the named field, or else ``id``; None if it has none."""
    if isinstance(item, _MAPPINGS):
        value = item.get(id_field or "id")
        if type(value) is str:
            return value
        if isinstance(value, str | Integral | UUID) and not isinstance(value, bool):
            return str(value)
        if id_field is not None:
            raise UsageError(_missing_id(item, position, id_field))
    elif id_field is not None:
        raise UsageError(
            f"the item at position {position} has no field {id_field!r}: it is {type(item).__name__}, not a mapping"
        )
    return None


def _missing_id(item: Mapping[Any, Any], position: int, id_field: str) -> str:
    if id_field in item:
        problem = f"its field {id_field!r} must be text or an integer, got {item[id_field]!r:.40}"
    else:
        problem = f"it has no field {id_field!r}, only {', '.join(repr(key) for key in list(item)[:10])}"
    return f"the item at position {position} has no id: {problem}; add one, or name another field"
