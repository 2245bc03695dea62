"""Node types, providers and workflows from installed packages, found by their entry points and loaded on first use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from graphmill.core.errors import UsageError, describe_error
from graphmill.core.suggest import suggestion
from graphmill.graph.models.provider import Provider
from graphmill.graph.node_type import NodeType

T = TypeVar("T")
NODE_GROUP = "graphmill.nodes"
PROVIDER_GROUP = "graphmill.providers"
WORKFLOW_GROUP = "graphmill.workflows"


class _Registry(ABC, Generic[T]):
    """What installed packages provide in one group of entry points, by name."""

    group: ClassVar[str]
    what: ClassVar[str]
    required: ClassVar[Sequence[str]]

    def __init__(self) -> None:
        self._found: dict[str, T] = {}

    @property
    def names(self) -> list[str]:
        """Every name there is, loaded or not."""
        return sorted(self._entries)

    def find(self, name: object) -> T:
        """Return what has this name; ValueError suggests the nearest name, or names the package that is at fault."""
        if not isinstance(name, str) or name not in self._entries:
            near = suggestion(str(name), self._entries)
            raise ValueError(f"unknown {self.what} {name!r:.80}{near}; available: {', '.join(self.names)}")
        if name not in self._found:
            self._found[name] = self._load(self._entries[name])
        return self._found[name]

    @abstractmethod
    def _make(self, loaded: Any, package: str) -> T:
        """Make what an entry point leads to; ValueError if it is something else."""

    @cached_property
    def _entries(self) -> Mapping[str, list[EntryPoint]]:
        entries: dict[str, list[EntryPoint]] = {}
        for entry in entry_points(group=self.group):
            entries.setdefault(entry.name, []).append(entry)
        return entries

    def _load(self, entries: list[EntryPoint]) -> T:
        entry = entries[0]
        if len(entries) > 1:
            both = " and ".join(map(_origin, entries))
            raise ValueError(f"{self.what} {entry.name!r} is in {both}; remove all but one of these packages")
        where = f"{self.what} {entry.name!r} of {_origin(entry)}"
        try:
            made = self._make(entry.load(), _package(entry))
        except (Exception, SystemExit) as error:  # third-party code
            raise ValueError(f"cannot load {where}: {describe_error(error)}; update or remove that package") from error
        if missing := [name for name in self.required if not hasattr(made, name)]:
            raise ValueError(f"{where} lacks {', '.join(missing)}; update or remove that package")
        return made


class NodeRegistry(_Registry[NodeType[Any]]):
    """Node types. An entry whose name is not its type's is an alias, as ``code`` is of ``python``."""

    group = NODE_GROUP
    what = "node type"
    required = ("name", "summary", "Params", "outputs")

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[type, NodeType[Any]] = {}

    def types(self) -> dict[str, NodeType[Any]]:
        """Return every type that can be loaded, sorted by name, without aliases."""
        found = [node_type for node_type, _ in map(self._try, self.names) if node_type is not None]
        return {node_type.name: node_type for node_type in sorted(found, key=lambda each: each.name)}

    def aliases(self, node_type: NodeType[Any]) -> tuple[str, ...]:
        """Return the other names of a type."""
        return tuple(name for name in self.names if name != node_type.name and self._try(name)[0] is node_type)

    def problems(self) -> list[str]:
        """Return what is wrong with each entry that cannot be loaded; the others work."""
        return [problem for _, problem in map(self._try, self.names) if problem]

    def _try(self, name: str) -> tuple[NodeType[Any] | None, str]:
        try:
            return self.find(name), ""
        except ValueError as error:
            return None, str(error)

    def _make(self, loaded: Any, package: str) -> NodeType[Any]:
        if not (isinstance(loaded, type) and issubclass(loaded, NodeType)):
            raise TypeError(f"must be a subclass of graphmill's NodeType, got {loaded!r:.80}")
        if loaded not in self._made:
            self._made[loaded] = loaded()
            self._made[loaded].package = package
        return self._made[loaded]


class ProviderRegistry(_Registry[Provider]):
    """Providers of models."""

    group = PROVIDER_GROUP
    what = "provider"
    required = (
        "name",
        "default_address",
        "address_variable",
        "key_variable",
        "supports_schema",
        "open",
        "complete",
        "models",
        "classify",
    )

    def _make(self, loaded: Any, package: str) -> Provider:
        del package
        made: Provider = loaded()
        return made


class WorkflowRegistry(_Registry[Path]):
    """The folders of installed workflows: entry point ``mine = "package.folder"`` is ``package/folder/mine.yaml``."""

    group = WORKFLOW_GROUP
    what = "workflow"
    required = ()

    def _make(self, loaded: Any, package: str) -> Path:
        del package
        if getattr(loaded, "__file__", None) is None:
            raise TypeError(f"must be a package with an __init__.py, got {loaded!r:.80}")
        return Path(loaded.__file__).parent


@cache
def workflow_registry() -> WorkflowRegistry:
    """Return the installed workflows of this process."""
    return WorkflowRegistry()


def installed_workflow(name: str) -> Path | None:
    """Return the file of an installed workflow; None if there is none. UsageError if its package is broken."""
    installed = workflow_registry()
    if name not in installed.names:
        return None
    try:
        return installed.find(name) / f"{name}.yaml"
    except ValueError as error:
        raise UsageError(str(error)) from error


@cache
def node_registry() -> NodeRegistry:
    """Return the node types of this process."""
    return NodeRegistry()


@cache
def provider_registry() -> ProviderRegistry:
    """Return the providers of this process."""
    return ProviderRegistry()


def find_node_type(name: object) -> NodeType[Any]:
    """Find a node type by its name or an alias; ValueError suggests the nearest."""
    return node_registry().find(name)


def find_provider(name: object) -> Provider:
    """Find a provider by its name; ValueError suggests the nearest."""
    return provider_registry().find(name)


def _origin(entry: EntryPoint) -> str:
    return f"{_package(entry) or 'an unnamed package'} ({entry.value})"


def _package(entry: EntryPoint) -> str:
    if entry.dist is None:
        return ""
    about = entry.dist.metadata  # read from a file and parsed at each access
    return f"{about['Name']} {about['Version']}"
