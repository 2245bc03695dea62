"""A provider: what speaks one model protocol, and where providers are found."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol

from graphmill.core.errors import AttemptError, described
from graphmill.core.model_call import ModelRequest, ModelResponse
from graphmill.core.suggest import suggestion

GROUP = "graphmill.providers"
_SAYS = (
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


class Session(Protocol):
    """What the calls of one run share, such as a pool of connections."""

    async def close(self) -> None:
        """Let go of it."""


class Provider(Protocol):
    """Speaks one model protocol; made once, it holds no state and never tries a second time: each call is one request.

    ``address`` is where it is served; ``key_variable`` names the variable of the environment that holds the key, "" where none is
    wanted, ``address_variable`` one that may hold another address. ``supports_schema`` says whether answers are held to a JSON Schema.
    It may have ``require(address)``, which raises Unavailable where it can tell before the first item that it will not be reached.
    """

    name: str
    default_address: str
    address_variable: str
    key_variable: str
    supports_schema: bool

    def open(self) -> Any:
        """Make the session that calls are given, on the running loop: ``context.shared(("model", name), provider.open)``."""

    async def complete(
        self,
        request: ModelRequest,
        *,
        session: Any,
        address: str,
        key: str | None,
        headers: Mapping[str, str],
        timeout_s: float | None,
    ) -> ModelResponse:
        """Ask once and give the answer, also one that is no success: ask ``response.error()``.

        Throttled, Unavailable, Transient and Permanent say that there is none; they have ``usage`` and
        ``limits``, where they are known, and repeats neither key, headers nor prompt.
        """

    async def models(
        self, *, session: Any, address: str, key: str | None, headers: Mapping[str, str], timeout_s: float | None
    ) -> list[str]:
        """List the models that the key may use, by the provider's own names; raises what ``complete`` does."""

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> AttemptError:
        """Say what an answer that is an error means; ``headers`` by names in lower case."""


class ProviderRegistry:
    """Providers by the names of their entry points, each loaded when it is first asked for."""

    def __init__(self, group: str = GROUP) -> None:
        self._group = group
        self._found: dict[str, Provider] = {}

    @property
    def names(self) -> list[str]:
        """Every name there is, loaded or not."""
        return sorted(self._entries)

    def find(self, name: object) -> Provider:
        """Give the provider of this name; ValueError names the nearest, or the package that is at fault."""
        if not isinstance(name, str) or name not in self._entries:
            there = ", ".join(self.names)
            raise ValueError(f"no provider {name!r:.80}{suggestion(str(name), self._entries)}; there are {there}")
        if name not in self._found:
            self._found[name] = _load(self._entries[name])
        return self._found[name]

    @cached_property
    def _entries(self) -> Mapping[str, list[EntryPoint]]:
        entries: dict[str, list[EntryPoint]] = {}
        for entry in entry_points(group=self._group):
            entries.setdefault(entry.name, []).append(entry)
        return entries


@cache
def provider_registry() -> ProviderRegistry:
    """Give the registry of this process."""
    return ProviderRegistry()


def find_provider(name: object) -> Provider:
    """Find a provider by its name; ValueError names the nearest."""
    return provider_registry().find(name)


def _load(entries: list[EntryPoint]) -> Provider:
    if len(entries) > 1:
        both = " and ".join(_described(entry) for entry in entries)
        raise ValueError(f"the provider {entries[0].name!r} is given by {both}; remove all but one of these packages")
    where = f"the provider {entries[0].name!r} of {_described(entries[0])}"
    try:
        made = entries[0].load()()
    except (Exception, SystemExit) as error:  # a package's code is a stranger's
        raise ValueError(f"{where} can not be loaded: {described(error)}; update or remove that package") from error
    if lacking := [name for name in _SAYS if not hasattr(made, name)]:
        raise ValueError(f"{where} does not say its {', '.join(lacking)}")
    provider: Provider = made
    return provider


def _described(entry: EntryPoint) -> str:
    if entry.dist is None:
        return f"an unnamed package ({entry.value})"
    about = entry.dist.metadata
    return f"{about['Name']} {about['Version']} ({entry.value})"
