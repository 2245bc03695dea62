"""Models by name or role, from the settings and from what is chosen for a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from graphmill.core.errors import UsageError
from graphmill.core.suggest import suggestion
from graphmill.engine.jobs.program import StepRules
from graphmill.graph.models.settings import NAME, ModelSetting, ProviderSetting, Settings, settings_here
from graphmill.graph.models.target import ModelTarget
from graphmill.graph.registry import find_provider, provider_registry

DEFAULT = "default"


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """``model`` stands for that of every node, ``roles`` for those of nodes that have one; None leaves a param as it is.

    ``cache`` says whether answers that are known may be used again; it decides no answer, and so is no part of what a node is.
    """

    model: str | None = None
    roles: Mapping[str, str] = field(default_factory=_nothing)
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    cache: bool | None = None

    @classmethod
    def of(cls, models: Iterable[str] = (), **chosen: Any) -> Choices:
        """Read ``NAME`` and ``ROLE=NAME``, beside what else is chosen; UsageError for what is neither, or stands twice."""
        found: dict[str, str] = {}
        for text in models:
            if not isinstance(text, str):
                raise UsageError(f"a model is written NAME or ROLE=NAME, not {text!r:.80}")
            before, equals, after = text.partition("=")
            is_for_role = bool(equals) and "/" not in before  # a model's own name may hold one
            role, name = (before, after) if is_for_role else ("", text)
            if not name or (is_for_role and not role):
                raise UsageError(f"a model is written NAME or ROLE=NAME, not {text!r:.80}")
            if role in found:
                raise UsageError(
                    f"a model {f'for the role {role!r}' if role else 'for all nodes'} is given twice; leave one out"
                )
            found[role] = name
        model = found.pop("", None)
        return cls(model=model, roles=MappingProxyType(found), **chosen)

    def over(self, before: Choices) -> Choices:
        """Give what was chosen before with these in its place: a model for all nodes also replaces those for roles."""
        roles = self.roles if self.model else MappingProxyType({**before.roles, **self.roles})
        return replace(before, model=self.model or before.model, roles=roles, **self.params, **self._kept)

    @property
    def params(self) -> dict[str, Any]:
        """The params that are chosen."""
        given = {"temperature": self.temperature, "max_tokens": self.max_tokens, "seed": self.seed}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def _kept(self) -> dict[str, Any]:
        return {} if self.cache is None else {"cache": self.cache}

    def to_json(self) -> dict[str, Any]:
        """Give what is chosen as data; nothing, if nothing is."""
        return self.fingerprint | self._kept

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What of it decides an answer."""
        named = {"model": self.model, "roles": dict(self.roles)}
        return {name: value for name, value in named.items() if value} | self.params

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Choices:
        """Read what ``to_json`` gave."""
        return cls(**{**data, "roles": MappingProxyType(dict(data.get("roles", {})))})


NO_CHOICES = Choices()


class Models:
    """Finds the target of each name and role, once."""

    def __init__(self, settings: Settings, choices: Choices = NO_CHOICES) -> None:
        self.settings = settings
        self.choices = choices
        self.rules: dict[tuple[int, str], StepRules] = {}  # of steps, by those of their node and their lane
        self._found: dict[tuple[Any, Any], ModelTarget] = {}

    @classmethod
    def here(cls, choices: Choices = NO_CHOICES) -> Models:
        """Give those of the current folder's settings."""
        return cls(settings_here(), choices)

    def find(self, model: Any = None, role: Any = None, *, is_node: bool = True) -> ModelTarget:
        """Give what a node, or a call of a function's, with this model or role asks; UsageError names the remedy."""
        known = (
            self._found.get((model, role)) if isinstance(model, str | None) and isinstance(role, str | None) else None
        )
        if known is None:
            known = self._found[model, role] = self._target(self._setting(model, role, is_node=is_node))
        return known

    def of(self, params: Mapping[str, Any]) -> ModelTarget:
        """Give what a node with these params asks."""
        return self.find(params.get("model"), params.get("role"))

    def named(self, name: str) -> ModelTarget:
        """Give what a name means, whatever is chosen for a run."""
        return self._target(self._by_name(name))

    def shown(self, name: str) -> ModelTarget:
        """Give what a name or, where no model has it, a role means."""
        return (
            self.named(name)
            if name not in self.settings.roles or name in self.settings.models
            else self.find(role=name)
        )

    @property
    def providers(self) -> tuple[str, ...]:
        """Name the providers that are set or installed."""
        return tuple(dict.fromkeys((*self.settings.providers, *provider_registry().names)))

    def provider(self, name: str) -> ModelTarget:
        """Give a provider without a model; UsageError if there is none of that name."""
        return self._target(ModelSetting(model=f"{name}/"))

    def _setting(self, model: Any, role: Any, *, is_node: bool) -> ModelSetting:
        for name in (model, role):
            if name is not None and (not isinstance(name, str) or not name):
                raise UsageError(f"a model or a role is a name, not {name!r:.80}")
        own = self.settings.roles.get(role) if model is None and role is not None else None
        chosen = self.choices.roles.get(role) or self.choices.model
        if chosen is not None:
            found = self._by_name(chosen)
            return found if own is None else ModelSetting(model=found.model, params={**found.params, **own.params})
        if model is not None or own is not None:
            return self._by_name(model) if own is None else self._of_role(role, own)
        if role is not None:
            raise UsageError(
                f"no model for the role {role!r}{suggestion(role, self.settings.roles)}; "
                f"write roles: {{{role}: provider/model}} in {NAME}{f', or say --model {role}=provider/model' if is_node else ''}"
            )
        if DEFAULT in self.settings.models:
            return self._by_name(DEFAULT)
        here, option = (
            ("model: provider/model", ", or say --model") if is_node else ("gm.complete('provider/model', …)", "")
        )
        raise UsageError(f"no model is named; write {here}, or models: {{{DEFAULT}: provider/model}} in {NAME}{option}")

    def _of_role(self, role: str, own: ModelSetting) -> ModelSetting:
        try:
            found = self._by_name(own.model)
        except UsageError as error:
            raise UsageError(f"the role {role!r}: {error}") from None
        return ModelSetting(model=found.model, params={**found.params, **own.params})

    def _by_name(self, name: str) -> ModelSetting:
        if name in self.settings.models:
            return self.settings.models[name]
        provider, slash, model = name.partition("/")
        if not (provider and slash and model):
            raise UsageError(f"no model {name!r:.80}{self._near(name)}")
        return ModelSetting(model=name)

    def _near(self, name: str) -> str:
        """Say what else a name is that no model has, or which comes near it."""
        if name in self.settings.roles:
            return f", but a role; write the model it stands for, {self.settings.roles[name].model!r:.80}"
        if name in self.providers:
            return f", but a provider; write {name}/ and its name for the model, such as graphmill models --check lists"
        return f"{suggestion(name, self.settings.models)}; write provider/model, or name it under models in {NAME}"

    def _target(self, found: ModelSetting) -> ModelTarget:
        name, _, model = found.model.partition("/")
        setting = self.settings.providers.get(name)
        try:
            provider = find_provider(name if setting is None else setting.protocol)
        except ValueError as error:
            of = f"model {found.model!r:.80}: " if model else ""
            raise UsageError(f"{of}{self._unknown(name) or error}") from None
        return ModelTarget(
            name=name,
            model=model,
            provider=provider,
            setting=setting or ProviderSetting(protocol=name),
            defaults=MappingProxyType(dict(found.params)),
            chosen=MappingProxyType(self.choices.params),
            cache=self.choices.cache,
        )

    def _unknown(self, name: str) -> str:
        """Say of a provider that nobody has named which there are, and of one that was named what it lacks."""
        known, own = sorted(self.providers), self.settings.providers.get(name)
        if own is not None and own.protocol not in (registry := provider_registry().names):
            near = suggestion(own.protocol, registry)
            return f"providers.{name} in {NAME} speaks no protocol that is known{near}; write protocol: and one of {', '.join(registry)}"
        return (
            ""
            if name in known
            else f"unknown provider {name!r:.80}{suggestion(name, known)}; available: {', '.join(known)}"
        )
