"""Models by name or role, from the settings and from what is chosen for a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from graphmill.core.errors import UsageError
from graphmill.core.suggest import suggestion
from graphmill.core.usage import Usage
from graphmill.engine.jobs.program import StepRules
from graphmill.graph.models.prices import ModelPrices
from graphmill.graph.models.settings import FILE_NAME, ModelSetting, ProviderSetting, Settings, settings_here
from graphmill.graph.models.target import REHEARSAL, REHEARSAL_PROTOCOL, ModelTarget, current_rehearsal
from graphmill.graph.registry import find_provider, provider_registry

DEFAULT = "default"


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Models and params chosen for a run: ``model`` for every node, ``roles`` by role; None changes nothing.

    ``cache`` says whether cached answers may be used; it decides no answer, so it is not part of a node's fingerprint.
    """

    model: str | None = None
    roles: Mapping[str, str] = field(default_factory=_nothing)
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    cache: bool | None = None

    @classmethod
    def of(cls, models: Iterable[str] = (), **chosen: Any) -> Choices:
        """Read ``NAME`` and ``ROLE=NAME``; UsageError for anything else, and for duplicates."""
        found: dict[str, str] = {}
        for text in models:
            if not isinstance(text, str):
                raise UsageError(f"a model must be NAME or ROLE=NAME, got {text!r:.80}")
            role, equals, name = text.partition("=")
            is_for_role = bool(equals) and "/" not in role  # the name of a model may contain =
            if not is_for_role:
                role, name = "", text
            if not name or (is_for_role and not role):
                raise UsageError(f"a model must be NAME or ROLE=NAME, got {text!r:.80}")
            if role in found:
                whose = f"the role {role!r}" if role else "all nodes"
                raise UsageError(f"two models given for {whose}; remove one")
            found[role] = name
        model = found.pop("", None)
        return cls(model=model, roles=MappingProxyType(found), **chosen)

    def over(self, before: Choices) -> Choices:
        """Return earlier choices overridden by these; a model for all nodes also replaces those for roles."""
        roles = self.roles
        if not self.model:
            roles = MappingProxyType({**before.roles, **self.roles})
        return replace(before, model=self.model or before.model, roles=roles, **self.params, **self._cache)

    @property
    def params(self) -> dict[str, Any]:
        """The chosen params."""
        given = {"temperature": self.temperature, "max_tokens": self.max_tokens, "seed": self.seed}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def _cache(self) -> dict[str, Any]:
        return {} if self.cache is None else {"cache": self.cache}

    def to_json(self) -> dict[str, Any]:
        """Return the choices as data; empty if nothing is chosen."""
        return self.fingerprint | self._cache

    @property
    def fingerprint(self) -> dict[str, Any]:
        """The choices that decide an answer."""
        named = {"model": self.model, "roles": dict(self.roles)}
        return {name: value for name, value in named.items() if value} | self.params

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Choices:
        """Read what ``to_json`` gave."""
        return cls(**{**data, "roles": MappingProxyType(dict(data.get("roles", {})))})


NO_CHOICES = Choices()


class Models:
    """Finds the target of each name and role, once each."""

    def __init__(self, settings: Settings, choices: Choices = NO_CHOICES) -> None:
        self.settings = settings
        self.choices = choices
        self.rehearsal = current_rehearsal.get()
        self.called: dict[
            tuple[int, Any, Any], tuple[ModelTarget, StepRules]
        ] = {}  # by rules, model and role of a node
        self._found: dict[tuple[Any, Any], ModelTarget] = {}

    @classmethod
    def here(cls, choices: Choices = NO_CHOICES) -> Models:
        """Return those of the current folder's settings."""
        return cls(settings_here(), choices)

    def find(self, model: Any = None, role: Any = None, *, is_node: bool = True) -> ModelTarget:
        """Return what a node with this model or role calls (a function: ``is_node=False``); UsageError if unknown."""
        if not isinstance(model, str | None) or not isinstance(role, str | None):
            self._setting(model, role, is_node=is_node)  # raises
        known = self._found.get((model, role))
        if known is None:
            known = self._found[model, role] = self._called(self._setting(model, role, is_node=is_node))
        return known

    def _called(self, found: ModelSetting) -> ModelTarget:
        """Return what calls of a model go to: in a rehearsal, to its script."""
        target = self._target(found)
        if self.rehearsal is None:
            return target
        return self.rehearsal.target(target, find_provider(REHEARSAL_PROTOCOL))

    def of(self, params: Mapping[str, Any]) -> ModelTarget:
        """Return what a node with these params calls."""
        return self.find(params.get("model"), params.get("role"))

    def named(self, name: str) -> ModelTarget:
        """Return what a name means, ignoring what is chosen for a run."""
        return self._target(self._by_name(name))

    def price(self, name: str, usage: Usage) -> tuple[str, Usage]:
        """Return the lane that a name means and usage with its cost, also for a provider that is not configured."""
        try:
            target = self.named(name)
            lane, prices, address = target.lane, target.prices, target.address
        except (UsageError, KeyError):
            provider, _, model = name.partition("/")
            lane, prices, address = name, ModelPrices(provider, model, self.settings.prices.get(name, ())), ""
        return lane, prices.price(usage, address, extra={})

    def shown(self, name: str) -> ModelTarget:
        """Return what the name of a model or else of a role means."""
        if name in self.settings.roles and name not in self.settings.models:
            return self.find(role=name)
        return self.named(name)

    @property
    def providers(self) -> tuple[str, ...]:
        """The names of all configured and installed providers."""
        return tuple(dict.fromkeys((*self.settings.providers, *provider_registry().names)))

    def provider(self, name: str) -> ModelTarget:
        """Return a provider without a model; UsageError if there is no such provider."""
        return self._target(ModelSetting(model=f"{name}/"))

    def _setting(self, model: Any, role: Any, *, is_node: bool) -> ModelSetting:
        for name in (model, role):
            if name is not None and (not isinstance(name, str) or not name):
                raise UsageError(f"a model or role must be a name, got {name!r:.80}")
        own = None
        if model is None and role is not None:
            own = self.settings.roles.get(role)
        chosen = self.choices.roles.get(role) or self.choices.model
        if chosen is not None:
            found = self._by_name(chosen)
            if own is None:
                return found
            return ModelSetting(model=found.model, params={**found.params, **own.params})
        if own is not None:
            return self._of_role(role, own)
        if model is not None:
            return self._by_name(model)
        return self._default(role, is_node=is_node)

    def _default(self, role: str | None, *, is_node: bool) -> ModelSetting:
        """Return what calls without a model mean, or those of a role that has none; a rehearsal needs no model."""
        if role is None and DEFAULT in self.settings.models:
            return self._by_name(DEFAULT)
        if self.rehearsal is not None:
            return ModelSetting(model=f"{REHEARSAL}/{role or DEFAULT}")
        if role is not None:
            raise UsageError(self._no_role(role, is_node=is_node))
        raise UsageError(_no_model(is_node=is_node))

    def _no_role(self, role: str, *, is_node: bool) -> str:
        near = suggestion(role, self.settings.roles)
        message = f"no model for the role {role!r}{near}; write roles: {{{role}: provider/model}} in {FILE_NAME}"
        return f"{message}, or use --model {role}=provider/model" if is_node else message

    def _of_role(self, role: str, own: ModelSetting) -> ModelSetting:
        try:
            found = self._by_name(own.model)
        except UsageError as error:
            raise UsageError(f"role {role!r}: {error}") from None
        return ModelSetting(model=found.model, params={**found.params, **own.params})

    def _by_name(self, name: str) -> ModelSetting:
        if name in self.settings.models:
            return self.settings.models[name]
        provider, slash, model = name.partition("/")
        if not (provider and slash and model):
            raise UsageError(f"no model {name!r:.80}{self._near(name)}")
        return ModelSetting(model=name)

    def _near(self, name: str) -> str:
        """Say what else an unknown model's name could be."""
        if name in self.settings.roles:
            return f": it is a role; use its model, {self.settings.roles[name].model!r:.80}"
        if name in self.providers:
            return f": it is a provider; write {name}/MODEL (graphmill models --check lists them)"
        return (
            f"{suggestion(name, self.settings.models)}; write provider/model, or define it under models in {FILE_NAME}"
        )

    def _target(self, found: ModelSetting) -> ModelTarget:
        name, _, model = found.model.partition("/")
        setting = self.settings.providers.get(name)
        if name == REHEARSAL and self.rehearsal is not None:  # no model is configured
            setting = ProviderSetting(protocol=REHEARSAL_PROTOCOL)
        try:
            provider = find_provider(name if setting is None else setting.protocol)
        except ValueError as error:
            message = self._unknown(name) or str(error)
            if model:
                message = f"model {found.model!r:.80}: {message}"
            raise UsageError(message) from None
        return ModelTarget(
            name=name,
            model=model,
            provider=provider,
            setting=setting or ProviderSetting(protocol=name),
            defaults=MappingProxyType(dict(found.params)),
            chosen=MappingProxyType(self.choices.params),
            cache=self.choices.cache,
            records_calls=self.settings.record_prompts is not False,
            own_prices=self.settings.prices.get(found.model, ()),
        )

    def _unknown(self, name: str) -> str:
        """Say what is wrong with a provider: it has an unknown protocol, or there is no such provider."""
        known, protocols = sorted(self.providers), provider_registry().names
        own = self.settings.providers.get(name)
        if own is not None and own.protocol not in protocols:
            near = suggestion(own.protocol, protocols)
            return (
                f"providers.{name} in {FILE_NAME} has no known protocol{near}; protocol must be one of "
                f"{', '.join(protocols)}"
            )
        if name in known:
            return ""
        there = f"available: {', '.join(known)}; or define it under providers in {FILE_NAME}"
        return f"unknown provider {name!r:.80}{suggestion(name, known)}; {there}"


def _no_model(*, is_node: bool) -> str:
    setting = f"models: {{{DEFAULT}: provider/model}} in {FILE_NAME}"
    if is_node:
        return f"no model given; write model: provider/model, or {setting}, or use --model"
    return f"no model given; write gm.complete('provider/model', …), or {setting}"
