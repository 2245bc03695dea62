"""Graphs of other libraries, such as LangGraph. An adapter is found among the entry points, by the library's name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol

GROUP = "graphmill.graphs"


class ForeignGraph(Protocol):
    """A graph compiled by another library."""

    @property
    def nodes(self) -> Any:
        """The nodes."""

    @property
    def astream(self) -> Any:
        """The method that runs it."""


class AdaptedGraph(ABC):
    """Makes such a graph, or a scorer, callable, with one step for each item.

    ``library`` is the other library's name, or ``scorer``; the versions of ``packages`` are recorded with a run.
    """

    library: str
    packages: tuple[str, ...]

    @abstractmethod
    def __call__(self, item: Any) -> Any:
        """Run it over an item; return JSON data, or a coroutine of it."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name."""

    @property
    @abstractmethod
    def home(self) -> str | None:
        """The ``module:name`` by which another process can import it; None if there is none."""

    @property
    @abstractmethod
    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of each part."""


def adapt_graph(graph: Any) -> Any:
    """Return the AdaptedGraph of another library's graph, any other value as it is; UsageError if it cannot be run."""
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
