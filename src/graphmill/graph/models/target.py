"""One model of one provider, and everything needed to call it; or, in a rehearsal, what answers in its place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from graphmill.core.errors import Unavailable
from graphmill.core.json import canonical
from graphmill.engine.scheduling.rate_limits import Limits
from graphmill.graph.models.prices import ModelPrices, OwnPrice
from graphmill.graph.models.provider import Provider
from graphmill.graph.models.settings import ProviderSetting
from graphmill.graph.secrets import Secret

REHEARSAL = "rehearsal"
REHEARSAL_PROTOCOL = "scripted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Address, key and headers of calls, read from the environment."""

    address: str
    key: str | None
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTarget:
    """A model: ``name`` is the configured name of its provider, ``model`` the provider's own name for it.

    Its calls share the ``lane``: ``provider/model``, or the provider without a model; ``mark`` is its fingerprint as
    JSON. ``defaults`` are params for nodes that do not set them, ``chosen`` those of the run, which override a node's,
    as does ``cache``. ``records_calls`` is False where the settings say so; ``own_prices`` are those in the settings.
    ``secrets`` are the environment variables to redact.
    """

    name: str
    model: str
    provider: Provider
    setting: ProviderSetting
    defaults: Mapping[str, Any]
    chosen: Mapping[str, Any]
    cache: bool | None = None
    records_calls: bool = True
    own_prices: tuple[OwnPrice, ...] = ()
    prices: ModelPrices = field(init=False, compare=False, repr=False)
    lane: str = field(init=False, compare=False)
    mark: bytes = field(init=False, repr=False, compare=False)
    secrets: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        lane = f"{self.name}/{self.model}" if self.model else self.name
        object.__setattr__(self, "lane", lane)
        is_free = getattr(self.provider, "is_free", False)
        prices = ModelPrices(self.setting.protocol, self.model, self.own_prices, is_free=is_free)
        object.__setattr__(self, "prices", prices)
        object.__setattr__(self, "mark", canonical(self.fingerprint))
        object.__setattr__(self, "secrets", tuple(dict.fromkeys(filter(None, self._secrets()))))

    @property
    def limits(self) -> Limits | None:
        """Its configured limits, for its account, or those of its provider; None if there are none."""
        if self.setting.limits is not None:
            return replace(self.setting.limits, account=self.account)
        slots: int | None = getattr(self.provider, "slots", None)
        if slots is not None:
            return Limits(concurrency=slots, account=self.account)
        return None

    @property
    def account(self) -> str:
        """Whose limits its calls count against: the model, with a hash of address and key."""
        key, address = os.environ.get(self.key_variable, ""), self.provider.default_address
        with suppress(KeyError):
            address = self.address
        text = f"{address}|{key}".encode(errors="replace")
        return f"{self.lane}@{blake2b(text, digest_size=6, person=b'account').hexdigest()}"

    @property
    def fingerprint(self) -> list[Any]:
        """What decides an answer; the address does not."""
        return [self.lane, dict(self.defaults), dict(self.chosen)]

    @property
    def is_native(self) -> bool:
        """Whether the provider itself enforces a schema."""
        if self.setting.output_schema is None:
            return self.provider.supports_schema
        return self.setting.output_schema == "native"

    @property
    def key_variable(self) -> str:
        """The environment variable of the key; "" for none. Never that of another provider with this protocol."""
        if self.setting.key is not None:
            return self.setting.key
        if self.name != self.setting.protocol:
            return ""
        return self.provider.key_variable

    @property
    def is_key_wanted(self) -> bool:
        """Whether it needs a key; a server of one's own may not."""
        is_elsewhere = self.setting.address is not None or self.is_moved
        return bool(self.key_variable) and (self.setting.key is not None or not is_elsewhere)

    def lacking(self) -> list[str]:
        """Return the environment variables that are required and not set."""
        unset = [name for name in self.secrets if not os.environ.get(name)]
        return [name for name in unset if name != self.key_variable or self.is_key_wanted]

    def access(self) -> Access:
        """Read the environment; Unavailable names missing variables."""
        if lacking := self.lacking():
            raise Unavailable(f"cannot call {self.lane}: {missing_variables(lacking)}")
        headers: dict[str, str] = {}
        for name, value in self.setting.headers.items():
            headers[name] = os.environ[value.name] if isinstance(value, Secret) else value
        self.require_address()
        return Access(address=self.address, key=os.environ.get(self.key_variable) or None, headers=headers)

    def require_address(self) -> None:
        """Raise Unavailable for an address that is not a URL."""
        if self.provider.default_address.startswith("http") and not self.address.startswith(("http://", "https://")):
            raise Unavailable(f"cannot call {self.lane}: its address must be http://… or https://…")

    @property
    def address(self) -> str:
        """Its address; KeyError if that is in an environment variable that is not set."""
        address = self.setting.address
        named = os.environ[address.name] if isinstance(address, Secret) else address
        return named or self._moved or self.provider.default_address

    @property
    def is_moved(self) -> bool:
        """Whether the environment overrides the protocol's address."""
        return bool(self._moved)

    @property
    def _moved(self) -> str:
        """The address that the environment sets for the protocol; "" for none."""
        variable = self.provider.address_variable
        if not variable or self.name != self.setting.protocol:
            return ""
        return os.environ.get(variable, "")

    def _secrets(self) -> Iterator[str]:
        yield self.key_variable
        if isinstance(self.setting.address, Secret):
            yield self.setting.address.name
        if "@" in self._moved or "?" in self._moved:
            yield self.provider.address_variable
        for value in self.setting.headers.values():
            if isinstance(value, Secret):
                yield value.name


def missing_variables(names: Sequence[str]) -> str:
    """Say which environment variables are not set."""
    if len(names) == 1:
        return f"environment variable {names[0]} is not set"
    return f"environment variables {', '.join(names)} are not set"


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What answers the model calls of a run: a script, or a function that this process was given itself.

    ``script`` is a file of rules or ``module:function``; "" for made-up answers.
    """

    script: str = ""
    function: Callable[[Any], Any] | None = None

    def target(self, target: ModelTarget, provider: Provider) -> ModelTarget:
        """Return what is called in place of a model: nothing that has an address, a key or limits."""
        address = "" if self.function is not None else self.script
        return replace(
            target,
            name=REHEARSAL,
            model=target.model if target.name == REHEARSAL else target.lane,
            provider=provider,
            setting=ProviderSetting(protocol=REHEARSAL_PROTOCOL, address=address or None),
            own_prices=(),
        )


# Of the run that calls are made in: whatever it does, in nested runs too, calls no model.
current_rehearsal: ContextVar[Rehearsal | None] = ContextVar("graphmill_rehearsal", default=None)
run_notes: ContextVar[list[str] | None] = ContextVar("graphmill_run_notes", default=None)
