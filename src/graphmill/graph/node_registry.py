"""Where node types are found: the entry points of the installed packages, each loaded when it is first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from graphmill.core.errors import described
from graphmill.core.suggest import suggestion
from graphmill.graph.node_type import NodeType

GROUP = "graphmill.nodes"


class Registry:
    """Node types by the names of their entry points. An entry whose name is not its type's is an alias, as ``code`` is of ``python``."""

    def __init__(self, group: str = GROUP) -> None:
        self._group = group
        self._found: dict[str, NodeType[Any]] = {}
        self._made: dict[type, NodeType[Any]] = {}

    def find(self, name: object) -> NodeType[Any]:
        """Give the type of this name or alias; ValueError names the nearest, or the package that is at fault."""
        if not isinstance(name, str) or name not in self._entries:
            there = ", ".join(sorted(self._entries))
            raise ValueError(f"no node type {name!r}{suggestion(str(name), self._entries)}; there are {there}")
        if name not in self._found:
            self._found[name] = self._load(_only(self._entries[name]))
        return self._found[name]

    def types(self) -> dict[str, NodeType[Any]]:
        """Give every type that can be loaded, by its name, in the names' order; aliases are left out."""
        found = (found for found, _ in map(self._try, sorted(self._entries)) if found is not None)
        return {node_type.name: node_type for node_type in sorted(found, key=lambda each: each.name)}

    def aliases(self, node_type: NodeType[Any]) -> tuple[str, ...]:
        """Give the other names that lead to a type."""
        return tuple(
            name for name in sorted(self._entries) if name != node_type.name and self._try(name)[0] is node_type
        )

    def problems(self) -> list[str]:
        """Say of every entry that can not be loaded what is wrong with it; the others are not harmed by it."""
        return [problem for _, problem in map(self._try, sorted(self._entries)) if problem]

    @cached_property
    def _entries(self) -> Mapping[str, list[EntryPoint]]:
        entries: dict[str, list[EntryPoint]] = {}
        for entry in entry_points(group=self._group):
            entries.setdefault(entry.name, []).append(entry)
        return entries

    def _try(self, name: str) -> tuple[NodeType[Any] | None, str]:
        try:
            return self.find(name), ""
        except ValueError as error:
            return None, str(error)

    def _load(self, entry: EntryPoint) -> NodeType[Any]:
        package = _package(entry)
        where = f"the node type {entry.name!r} of {package or 'an unnamed package'} ({entry.value})"
        try:
            loaded = entry.load()
        except (Exception, SystemExit) as error:  # a package's code is a stranger's
            raise ValueError(f"{where} can not be loaded: {described(error)}; update or remove that package") from error
        _require_node_type(loaded, where)
        if loaded not in self._made:
            self._made[loaded] = loaded()
            self._made[loaded].package = package
        return self._made[loaded]


@cache
def registry() -> Registry:
    """Give the registry of this process."""
    return Registry()


def find_node_type(name: object) -> NodeType[Any]:
    """Find a node type by its name or an alias; ValueError names the nearest."""
    return registry().find(name)


def _only(entries: list[EntryPoint]) -> EntryPoint:
    if len(entries) > 1:
        both = " and ".join(f"{_package(entry) or 'an unnamed package'} ({entry.value})" for entry in entries)
        raise ValueError(f"the node type {entries[0].name!r} is given by {both}; remove all but one of these packages")
    return entries[0]


def _package(entry: EntryPoint) -> str:
    if entry.dist is None:
        return ""
    about = entry.dist.metadata  # read from a file, and parsed, each time that anything of it is asked for
    return f"{about['Name']} {about['Version']}"


def _require_node_type(loaded: object, where: str) -> None:
    if not (isinstance(loaded, type) and issubclass(loaded, NodeType)):
        raise ValueError(f"{where} is not a class that extends graphmill's NodeType but {loaded!r:.80}")
    lacking = [name for name in ("name", "summary", "Params", "outputs") if not hasattr(loaded, name)]
    if lacking:
        raise ValueError(f"{where} does not say its {', '.join(lacking)}")
