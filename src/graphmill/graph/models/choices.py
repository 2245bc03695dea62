"""What is chosen for one run over all that is written: another model, or another temperature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from graphmill.core.errors import UsageError


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
