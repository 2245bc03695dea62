"""Graphs of other libraries: what makes one callable is found by the library's name, among the entry points of the installed packages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Protocol

GROUP = "graphmill.graphs"


class ForeignGraph(Protocol):
    """A graph that another library has compiled, such as LangGraph."""

    @property
    def nodes(self) -> Any:
        """Its nodes."""

    @property
    def astream(self) -> Any:
        """What runs it."""


class AdaptedGraph(ABC):
    """Such a graph made callable: one step for each item.

    ``library`` is what the other library calls itself; ``packages`` are those whose versions a manifest notes.
    """

    library: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]

    @abstractmethod
    async def __call__(self, item: Any) -> Any:
        """Run it over an item; give what JSON can hold."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called."""

    @property
    @abstractmethod
    def home(self) -> str | None:
        """The ``module:name`` by which another process can have it; None if no module holds it."""

    @property
    @abstractmethod
    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of each part."""


def adapted(graph: Any) -> Any:
    """Give the AdaptedGraph of a graph of another library; anything else as it is. UsageError if that library's is none to run."""
    if callable(graph):
        return graph
    libraries = dict.fromkeys(kind.__module__.partition(".")[0] for kind in type(graph).__mro__)
    found = next((entry for library in libraries if (entry := _adapters().get(library)) is not None), None)
    if found is None:
        return graph
    adapt: Callable[[Any], AdaptedGraph] = found.load()
    return adapt(graph)


@cache
def _adapters() -> Mapping[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}
