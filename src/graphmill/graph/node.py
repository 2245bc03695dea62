"""Node types: what they promise, and where they are found."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, runtime_checkable

from graphmill.core.names import suggestion

Step = Callable[[Mapping[str, Any]], Awaitable[Any]]


class NodeType(Protocol):
    """One kind of node."""

    def prepare(self, params: Mapping[str, Any]) -> Step:
        """Check the params as written, once; give what runs one step with its params resolved.

        ValueError says what is wrong with them and what would be right.
        """


@runtime_checkable
class Fingerprinted(Protocol):
    """A node type that can tell which code runs, besides itself, when a node of it does."""

    def fingerprint(self, params: Mapping[str, Any]) -> str:
        """Give a text that changes when that code does, for params that ``prepare`` has accepted."""


@cache
def node_types() -> dict[str, NodeType]:
    """Load every node type that is installed, by name."""
    return {name: entry.load()() for name, entry in _entries().items()}


def find_node_type(name: object) -> NodeType:
    """Find a node type by its name; ValueError names the nearest."""
    types = node_types()
    if not isinstance(name, str) or name not in types:
        raise ValueError(f"no node type {name!r}{suggestion(str(name), types)}; there are {', '.join(sorted(types))}")
    return types[name]


def code_fingerprint(name: str, params: Mapping[str, Any]) -> str:
    """Tell which code a node of this type runs: as the type says, else the version of the package that it comes from."""
    node_type = find_node_type(name)
    if isinstance(node_type, Fingerprinted):
        return node_type.fingerprint(params)
    package = _entries()[name].dist
    return "" if package is None else f"{package.name} {package.version}"


@cache
def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group="graphmill.nodes")}


def key_problems(found: Mapping[str, Any], *, known: tuple[str, ...], required: tuple[str, ...] = ()) -> list[str]:
    """List unknown keys, each with the nearest known one, and missing keys; null is missing."""
    unknown = [f"unknown key {key!r}{suggestion(str(key), known)}; known are {', '.join(known)}" for key in found if key not in known]
    return unknown + [f"{key!r} is missing" for key in required if found.get(key) is None]


def require_keys(found: Mapping[str, Any], *, known: tuple[str, ...], required: tuple[str, ...] = ()) -> None:
    """Refuse unknown and missing keys; ValueError names them all."""
    if problems := key_problems(found, known=known, required=required):
        raise ValueError("; ".join(problems))
