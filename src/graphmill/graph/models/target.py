"""A target: one model of one provider, and all that is needed to ask it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from graphmill.core.errors import Unavailable
from graphmill.core.json import canonical
from graphmill.engine.scheduling.rate_limits import Limits
from graphmill.graph.models.provider import Provider
from graphmill.graph.models.settings import ProviderSetting
from graphmill.graph.secrets import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What calls are let in with, as the environment has it."""

    address: str
    key: str | None
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTarget:
    """``name`` is the provider's as it is set, ``model`` the provider's own name for the model.

    ``lane`` is what its calls depend on together, ``provider/model`` or, without a model, the provider; ``mark`` its fingerprint as
    JSON. ``defaults`` are params where a node says nothing, ``chosen`` those that count whatever it says; so does ``cache``, if it is
    chosen whether answers may be used again.
    """

    name: str
    model: str
    provider: Provider
    setting: ProviderSetting
    defaults: Mapping[str, Any]
    chosen: Mapping[str, Any]
    cache: bool | None = None
    lane: str = field(init=False, compare=False)
    mark: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lane", f"{self.name}/{self.model}" if self.model else self.name)
        object.__setattr__(self, "mark", canonical(self.fingerprint))

    @property
    def limits(self) -> Limits | None:
        """What is set of its limits, for its account; None if nothing is."""
        return None if self.setting.limits is None else replace(self.setting.limits, account=self.account)

    @property
    def account(self) -> str:
        """Whose limits its calls count for: the model, and, by a hash of both, where it is asked and with which key."""
        key, address = os.environ.get(self.key_variable, ""), self.provider.default_address
        with suppress(KeyError):
            address = self.address
        return f"{self.lane}@{blake2b(f'{address}|{key}'.encode(errors='replace'), digest_size=6, person=b'account').hexdigest()}"

    @property
    def fingerprint(self) -> list[Any]:
        """What of it decides an answer; where it is asked does not."""
        return [self.lane, dict(self.defaults), dict(self.chosen)]

    @property
    def is_native(self) -> bool:
        """Whether the provider itself holds an answer to a schema."""
        asked = self.setting.output_schema
        return self.provider.supports_schema if asked is None else asked == "native"

    @property
    def key_variable(self) -> str:
        """The variable that holds the key; "" for none. A provider of another name than its protocol's is never sent that one's key."""
        if self.setting.key is not None:
            return self.setting.key
        return self.provider.key_variable if self.name == self.setting.protocol else ""

    @property
    def is_key_wanted(self) -> bool:
        """Whether it can not be asked without a key: servers of one's own may want none."""
        is_elsewhere = self.setting.address is not None or self.is_moved
        return bool(self.key_variable) and (self.setting.key is not None or not is_elsewhere)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The variables whose values no message may repeat."""
        return tuple(dict.fromkeys(filter(None, self._secrets())))

    def lacking(self) -> list[str]:
        """Name the variables that must be set and are not."""
        unset = [name for name in self.secrets if not os.environ.get(name)]
        return [name for name in unset if name != self.key_variable or self.is_key_wanted]

    def access(self) -> Access:
        """Read the environment; Unavailable names what it lacks."""
        if lacking := self.lacking():
            raise Unavailable(f"{self.lane} can not be asked: the environment has no {', '.join(lacking)}")
        headers = {
            name: os.environ[value.name] if isinstance(value, Secret) else value
            for name, value in self.setting.headers.items()
        }
        self.require_address()
        return Access(address=self.address, key=os.environ.get(self.key_variable) or None, headers=headers)

    def require_address(self) -> None:
        """Refuse an address that is none: Unavailable says so."""
        if self.provider.default_address.startswith("http") and not self.address.startswith(("http://", "https://")):
            raise Unavailable(f"{self.lane} can not be asked: its address is http://… or https://…, and nothing else")

    @property
    def address(self) -> str:
        """Where it is asked; KeyError if that stands in a variable that is not set."""
        address = self.setting.address
        named = os.environ[address.name] if isinstance(address, Secret) else address
        return named or self._moved or self.provider.default_address

    @property
    def is_moved(self) -> bool:
        """Whether the environment gives the protocol another address."""
        return bool(self._moved)

    @property
    def _moved(self) -> str:
        """Another address that the environment gives for the protocol."""
        variable = self.provider.address_variable
        return os.environ.get(variable, "") if variable and self.name == self.setting.protocol else ""

    def _secrets(self) -> Iterator[str]:
        yield self.key_variable
        if isinstance(self.setting.address, Secret):
            yield self.setting.address.name
        if "@" in self._moved or "?" in self._moved:
            yield self.provider.address_variable
        for value in self.setting.headers.values():
            if isinstance(value, Secret):
                yield value.name
