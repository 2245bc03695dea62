"""Models by name and role: what settings and the choices of a run make of what a node says."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from graphmill.core.errors import UsageError
from graphmill.core.suggest import suggestion
from graphmill.engine.program import StepRules
from graphmill.graph.models.choices import NO_CHOICES, Choices
from graphmill.graph.models.settings import ModelSetting, ProviderSetting, Settings
from graphmill.graph.models.settings_file import NAME, settings_here
from graphmill.graph.models.target import Target
from graphmill.graph.provider import find_provider, provider_registry

DEFAULT = "default"


class Models:
    """Finds the target of each name and role, once."""

    def __init__(self, settings: Settings, choices: Choices = NO_CHOICES) -> None:
        self.settings = settings
        self.choices = choices
        self.rules: dict[tuple[int, str], StepRules] = {}  # of steps, by those of their node and their lane
        self._found: dict[tuple[Any, Any], Target] = {}

    @classmethod
    def here(cls, choices: Choices = NO_CHOICES) -> Models:
        """Give those of the current folder's settings."""
        return cls(settings_here(), choices)

    def find(self, model: Any = None, role: Any = None, *, is_node: bool = True) -> Target:
        """Give what a node, or a call of a function's, with this model or role asks; UsageError names the remedy."""
        known = (
            self._found.get((model, role)) if isinstance(model, str | None) and isinstance(role, str | None) else None
        )
        if known is None:
            known = self._found[model, role] = self._target(self._setting(model, role, is_node=is_node))
        return known

    def of(self, params: Mapping[str, Any]) -> Target:
        """Give what a node with these params asks."""
        return self.find(params.get("model"), params.get("role"))

    def named(self, name: str) -> Target:
        """Give what a name means, whatever is chosen for a run."""
        return self._target(self._by_name(name))

    def shown(self, name: str) -> Target:
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

    def provider(self, name: str) -> Target:
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

    def _target(self, found: ModelSetting) -> Target:
        name, _, model = found.model.partition("/")
        setting = self.settings.providers.get(name)
        try:
            provider = find_provider(name if setting is None else setting.protocol)
        except ValueError as error:
            of = f"model {found.model!r:.80}: " if model else ""
            raise UsageError(f"{of}{self._unknown(name) or error}") from None
        return Target(
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
            "" if name in known else f"no provider {name!r:.80}{suggestion(name, known)}; there are {', '.join(known)}"
        )
