"""A job: what the executor is given to do, and the id it goes by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any, Literal
from uuid import UUID

import msgspec

from graphmill.core.errors import UsageError
from graphmill.core.foreign import adapted
from graphmill.core.usage import Usage

Effect = Literal["repeatable", "unsafe"]


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to a job in earlier processes: attempts that failed, how many count, how many killed a worker, and what they used.

    A suspect was under way more than once when the whole process died; suspects are run one at a time. ``position`` is where the
    item stands in its source, if that is not where the job stands among those that are left; ``generation`` is the one
    in which it was begun: 1, and one more whenever it is done anew.
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
    """An item bound to the graph that handles it.

    The graph is any callable of one argument: async ones run on the loop, plain ones in threads; a compiled LangGraph graph is made one.
    A higher priority starts earlier; one step of priority outweighs a minute of waiting. Jobs with the same ``key`` depend on the
    same thing, such as one model of one provider: they share its health and, where concurrency adapts, its limit. With the
    effect "unsafe" it must not happen twice: tried again only if it has surely not happened. A resumed job has a ``past``.
    Where an item is done several times, ``sample`` is which of them this is, from 1.
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
            raise UsageError(f"a job's id is text, not {type(self.id).__name__}: {self.id!r:.80}")
        if not callable(self.graph):
            msgspec.structs.force_setattr(self, "graph", adapted(self.graph))
        if not callable(self.graph):
            raise UsageError(
                f"the graph of job {self.id!r:.80} is not callable: {self.graph!r:.80}; load a workflow file with gm.load"
            )
        if type(self.priority) is not int:
            raise UsageError(f"the priority of job {self.id!r:.80} is a whole number, not {self.priority!r:.80}")
        if self.sample != 0 and (type(self.sample) is not int or self.sample < 0):
            raise UsageError(
                f"the sample of job {self.id!r:.80} is a number from 1, or 0 for none, not {self.sample!r:.80}"
            )
        if self.effect not in ("repeatable", "unsafe"):
            raise UsageError(f"the effect of job {self.id!r:.80} is repeatable or unsafe, not {self.effect!r:.80}")
        if type(self.key) is not str:
            raise UsageError(f"the key of job {self.id!r:.80} is text, not {type(self.key).__name__}: {self.key!r:.80}")


JOB_ID = "job"  # of a run that has no other
_MAPPINGS = (dict, Mapping)  # the check against an abstract class is slow, and nearly all are dicts


def sample_id(item_id: str, sample: int) -> str:
    """Name a sample of an item: the first goes by the item's own id, which so stays what it is without samples."""
    return item_id if sample <= 1 else f"{item_id}#{sample}"


def own_id(item: Any, position: int, *, id_field: str | None = None) -> str | None:
    """Give the id that an item carries: the named field, else its own ``id``; None if it has none."""
    if isinstance(item, _MAPPINGS):
        value = item.get(id_field or "id")
        if type(value) is str:
            return value
        if isinstance(value, str | Integral | UUID) and not isinstance(value, bool):
            return str(value)
        if id_field is not None:
            known = ", ".join(repr(key) for key in list(item)[:10])
            found = (
                f"is {value!r:.40}, neither text nor a whole number"
                if id_field in item
                else f"is not there; it has {known}"
            )
            raise UsageError(
                f"the item at position {position} has no id: its field {id_field!r} {found}; give it one, or name another field"
            )
    elif id_field is not None:
        raise UsageError(
            f"the item at position {position} has no field {id_field!r}: it is {type(item).__name__}, not a mapping"
        )
    return None
