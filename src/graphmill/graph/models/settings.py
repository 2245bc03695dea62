"""What a person has set about models: names and roles for them, and where their providers are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from graphmill.engine.rate_limits import Limits
from graphmill.graph.secrets import Secret


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSetting:
    """What a name or a role stands for: a model, and the params of its calls where a node says nothing else."""

    model: str
    params: Mapping[str, Any] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSetting:
    """Where a provider is: None is what its protocol says.

    ``protocol`` is the provider whose protocol it speaks, ``key`` the variable of the environment that holds its key, "" for none.
    ``output_schema`` says how an answer of a given shape is asked for: by the protocol, or by words in the prompt.
    ``limits`` are those of each of its models.
    """

    protocol: str
    address: str | Secret | None = None
    key: str | None = None
    headers: Mapping[str, str | Secret] = field(default_factory=_nothing)
    output_schema: Literal["native", "prompt"] | None = None
    limits: Limits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of it; ``files`` are those that it was read from."""

    models: Mapping[str, ModelSetting] = field(default_factory=_nothing)
    roles: Mapping[str, ModelSetting] = field(default_factory=_nothing)
    providers: Mapping[str, ProviderSetting] = field(default_factory=_nothing)
    files: tuple[str, ...] = ()

    def over(self, other: Settings) -> Settings:
        """Give both; where both name the same thing, this counts."""
        return Settings(
            models=MappingProxyType({**other.models, **self.models}),
            roles=MappingProxyType({**other.roles, **self.roles}),
            providers=MappingProxyType({**other.providers, **self.providers}),
            files=(*self.files, *other.files),
        )
