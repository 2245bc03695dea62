"""Settings of models: ``graphmill.yaml`` found, read and checked."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar
from urllib.parse import parse_qsl, urlsplit

from graphmill.core.errors import UsageError, WorkflowError
from graphmill.engine.scheduling.rate_limits import Limits
from graphmill.graph.language.document import Document
from graphmill.graph.language.grammar import (
    ANYTHING,
    FLAG,
    TEXT,
    Block,
    Key,
    either,
    integer,
    list_of,
    mapping,
    number,
    one_of,
    shown,
)
from graphmill.graph.language.places import At
from graphmill.graph.language.problems import Problems
from graphmill.graph.language.reader import BlockReader
from graphmill.graph.models.prices import OwnPrice
from graphmill.graph.secrets import Secret, names_secret

T = TypeVar("T")

SETTINGS: Final[Block] = MappingProxyType(
    {
        "models": Key(
            mapping("a mapping from names to models"),
            "Names for models: a name → `provider/model`, or a mapping as below.",
        ),
        "roles": Key(
            mapping("a mapping from roles to models"),
            "What nodes with a `role` ask: a role → a model's name, or a mapping.",
        ),
        "providers": Key(
            mapping("a mapping from names to providers"), "Where providers are, by name; a new name needs a `protocol`."
        ),
        "prices": Key(
            mapping("a mapping from provider/model to prices"),
            "What models cost that the price table does not know, or at another price; a mapping as below, or a list "
            "of mappings with dates.",
        ),
        "record_prompts": Key(
            FLAG, "Whether a recorded run also records what is sent to models and what they answer; by default it does."
        ),
    }
)
MODEL: Final[Block] = MappingProxyType(
    {
        "model": Key(TEXT, "`provider/model`; under `roles` also a name of `models`.", is_required=True),
        "temperature": Key(
            number(most=100), "This and all below: the params of its calls, where a node does not say otherwise."
        ),
        "top_p": Key(number(most=1), "As the node's param."),
        "max_tokens": Key(integer(1), "As the node's param."),
        "stop": Key(either(TEXT, list_of("a list of texts")), "As the node's param."),
        "seed": Key(integer(-(2**63), 2**63 - 1), "As the node's param."),
        "reasoning_effort": Key(TEXT, "As the node's param."),
        "extra": Key(mapping(), "As the node's param."),
    }
)
PROVIDER: Final[Block] = MappingProxyType(
    {
        "protocol": Key(TEXT, "The provider whose protocol it speaks; without it, the one of its own name."),
        "address": Key(ANYTHING, "Where it is, without the path of a call; a text, or `{env: NAME}`."),
        "key": Key(
            ANYTHING,
            "`{env: NAME}`, or the name alone, of the variable that holds its key; `none` where it wants none.",
        ),
        "headers": Key(mapping("a mapping from names to texts or {env: NAME}"), "Sent with every call."),
        "output_schema": Key(one_of(("native", "prompt")), "How an answer of a given shape is asked for."),
        "limits": Key(mapping(), "Rate limits of each of its models; see below."),
    }
)
LIMITS: Final[Block] = MappingProxyType(
    {
        "requests_per_minute": Key(integer(1), "Calls in a minute."),
        "tokens_per_minute": Key(integer(1), "Tokens of both directions in a minute."),
        "concurrency": Key(integer(1), "Calls at once."),
    }
)
_USD = number()
PRICE: Final[Block] = MappingProxyType(
    {
        "input": Key(_USD, "US dollars for a million input tokens.", is_required=True),
        "output": Key(_USD, "For a million output tokens.", is_required=True),
        "cached_input": Key(_USD, "For a million input tokens read from the provider's cache; by default as `input`."),
        "cache_write": Key(_USD, "For a million input tokens written to it; by default as `input`."),
        "request": Key(_USD, "For each request, beside its tokens; by default 0."),
        "since": Key(ANYTHING, "The day from which this price holds, such as 2026-07-01; by default always."),
    }
)
_SECRET = re.compile(r"key|token|secret|password|signature|^sig$", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
FILE_NAME = "graphmill.yaml"


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSetting:
    """What a name or a role means: a model, and the default params of its calls."""

    model: str
    params: Mapping[str, Any] = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSetting:
    """Where a provider is; None is the default of its protocol.

    ``protocol`` is the provider whose protocol it speaks, ``key`` the environment variable of its key, "" for none.
    ``output_schema`` says whether the provider enforces a schema, or the prompt asks for it. ``limits`` apply to each
    model.
    """

    protocol: str
    address: str | Secret | None = None
    key: str | None = None
    headers: Mapping[str, str | Secret] = field(default_factory=_nothing)
    output_schema: Literal["native", "prompt"] | None = None
    limits: Limits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, and the ``files`` they were read from."""

    models: Mapping[str, ModelSetting] = field(default_factory=_nothing)
    roles: Mapping[str, ModelSetting] = field(default_factory=_nothing)
    providers: Mapping[str, ProviderSetting] = field(default_factory=_nothing)
    prices: Mapping[str, tuple[OwnPrice, ...]] = field(default_factory=_nothing)
    record_prompts: bool | None = None
    files: tuple[str, ...] = ()

    def over(self, other: Settings) -> Settings:
        """Merge both; these settings win."""
        return Settings(
            models=MappingProxyType({**other.models, **self.models}),
            roles=MappingProxyType({**other.roles, **self.roles}),
            providers=MappingProxyType({**other.providers, **self.providers}),
            prices=MappingProxyType({**other.prices, **self.prices}),
            record_prompts=other.record_prompts if self.record_prompts is None else self.record_prompts,
            files=(*self.files, *other.files),
        )


def read_settings(document: Document) -> Settings:
    """Read a settings file; UsageError lists all its problems."""
    problems = Problems(document)
    found = _SettingsReader(problems).settings(document.data)
    try:
        problems.raise_if_any()
    except WorkflowError as error:
        raise UsageError(str(error)) from None
    return found


class _SettingsReader:
    """Reads the blocks of a settings file; a wrong one is left out."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems

    def settings(self, data: Any) -> Settings:
        if data is not None and not isinstance(data, Mapping):
            self._problems.add((), f"settings must be a mapping with {', '.join(SETTINGS)}, got {shown(data)}")
            return Settings()
        block = self._block(data or {}, (), SETTINGS)
        return Settings(
            models=self._named(block["models"], "models", self._model),
            roles=self._named(block["roles"], "roles", self._model),
            providers=self._named(block["providers"], "providers", self._provider),
            prices=self._named(block["prices"], "prices", self._prices),
            record_prompts=block["record_prompts"],
            files=(self._problems.document.path,),
        )

    def _named(self, found: Mapping[Any, Any] | None, key: str, read: Any) -> Mapping[str, Any]:
        made: dict[str, Any] = {}
        for name, value in (found or {}).items():
            if not isinstance(name, str) or not name:
                self._problems.add((key, name), f"{key}: a name must be text, got {shown(name)}", is_key=True)
            elif (entry := read(name, value, (key, name))) is not None:
                made[name] = entry
        return MappingProxyType(made)

    def _model(self, name: str, value: Any, at: At) -> ModelSetting | None:
        if isinstance(value, str):
            value = {"model": value}
        if not isinstance(value, Mapping):
            wanted = f"provider/model, or a mapping with {', '.join(MODEL)}"
            self._problems.add(at, f"{at[0]}.{name} must be {wanted}, got {shown(value)}")
            return None
        block = self._block(value, at, MODEL)
        if not block.has("model"):
            return None
        if at[0] == "models" and not _is_whole(block["model"]):
            message = f"model must be provider/model, got {shown(block['model'])}; only roles may use a name"
            block.wrong(message, block.at_key("model"))
        return ModelSetting(model=block["model"], params=self._params(block))

    @staticmethod
    def _params(block: BlockReader) -> Mapping[str, Any]:
        given = {key: block[key] for key in MODEL if key != "model" and block.has(key)}
        stop = given.get("stop")
        if isinstance(stop, list) and not all(isinstance(entry, str) for entry in stop):
            block.wrong("stop must be text or a list of texts", block.at_key("stop"))
        return MappingProxyType(given)

    def _provider(self, name: str, value: Any, at: At) -> ProviderSetting | None:
        if not isinstance(value, Mapping):
            self._problems.add(at, f"providers.{name} must be a mapping with {', '.join(PROVIDER)}, got {shown(value)}")
            return None
        if "/" in name:
            self._problems.add(at, f"providers.{name}: the name must not contain /", is_key=True)
        block = self._block(value, at, PROVIDER)
        return ProviderSetting(
            protocol=block["protocol"] or name,
            address=self._address(block),
            key=self._key(block),
            headers=self._headers(block),
            output_schema=block["output_schema"],
            limits=self._limits(block),
        )

    def _prices(self, name: str, value: Any, at: At) -> tuple[OwnPrice, ...] | None:
        if not _is_whole(name):
            self._problems.add(at, f"prices: a name must be provider/model, got {shown(name)}", is_key=True)
        found: list[OwnPrice | None] = []
        if isinstance(value, list) and value:
            found = [self._price(name, each, (*at, number)) for number, each in enumerate(value)]
        else:
            found = [self._price(name, value, at)]
        return tuple(price for price in found if price is not None) or None

    def _price(self, name: str, value: Any, at: At) -> OwnPrice | None:
        if not isinstance(value, Mapping):
            wanted = f"a mapping with {', '.join(PRICE)}, or a list of such"
            self._problems.add(at, f"prices.{name} must be {wanted}, got {shown(value)}")
            return None
        block = self._block(value, at, PRICE)
        if not (block.has("input") and block.has("output")):
            return None
        try:
            return OwnPrice.of({key: block[key] for key in PRICE if block.has(key)})
        except ValueError:
            block.wrong(f"since must be a date such as 2026-07-01, got {shown(block['since'])}", block.at_key("since"))
            return None

    def _limits(self, block: BlockReader) -> Limits | None:
        if not block["limits"]:
            return None
        found = self._block(block["limits"], block.at_key("limits"), LIMITS)
        return Limits(**{key: found[key] for key in LIMITS})

    def _address(self, block: BlockReader) -> str | Secret | None:
        value = block["address"]
        if value is None:
            return None
        if isinstance(value, Mapping) and names_secret(value):
            return Secret(value["env"])
        if problem := _address_problem(value):
            block.wrong(f"address {problem}", block.at_key("address"))
            return None
        root = self._problems.document.root
        if root is not None and "://" not in value and (root / value).is_file():
            return str(root / value)
        return str(value)

    def _key(self, block: BlockReader) -> str | None:
        value = block["key"]
        if isinstance(value, Mapping) and names_secret(value):
            value = value["env"]
        if value is None:
            return None
        if value == "none":
            return ""
        if not isinstance(value, str) or not _VARIABLE.fullmatch(value):
            # The value may be the key itself, so it is not repeated.
            message = "key must be the name of an environment variable, as in {env: NAME}, never the key itself"
            block.wrong(message, block.at_key("key"))
            return None
        return value

    def _headers(self, block: BlockReader) -> Mapping[str, str | Secret]:
        made: dict[str, str | Secret] = {}
        for name, value in (block["headers"] or {}).items():
            if isinstance(value, Mapping) and names_secret(value):
                made[str(name)] = Secret(value["env"])
            elif isinstance(name, str) and isinstance(value, str) and "\n" not in value and "\r" not in value:
                made[name] = value
            else:
                message = f"headers: {shown(name)} must be one line of text, or {{env: NAME}}"
                block.wrong(message, (*block.at_key("headers"), name))
        return MappingProxyType(made)

    def _block(self, found: Mapping[Any, Any], at: At, block: Block) -> BlockReader:
        return BlockReader(found, at, block=block, problems=self._problems)


def _is_whole(model: str) -> bool:
    provider, slash, name = model.partition("/")
    return bool(provider and slash and name)


def _address_problem(value: Any) -> str:
    """Say what is wrong with an address; one that is not a URL, such as a file, is checked by its provider."""
    if not isinstance(value, str) or not value:
        return "must be http://… or https://…, or {env: NAME}"
    try:
        parts = urlsplit(value)
        is_right = "://" not in value or (
            parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        )
    except ValueError:
        is_right = False
    if not is_right:
        return "must be http://… or https://…, or {env: NAME}"
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    if parts.username or parts.password or any(map(_SECRET.search, names)):
        return "must not contain a user, password or key; use key, headers or {env: NAME}"
    return ""


def settings_here() -> Settings:
    """Return the settings for the current folder; UsageError lists the problems of their files."""
    found = Settings()
    for path in (project_file(), user_file()):
        if path is not None:
            found = found.over(_read(path))
    return found


def project_file() -> Path | None:
    """Return the nearest settings file from the current folder upward."""
    here = Path.cwd()
    return next((path for folder in (here, *here.parents) if (path := folder / FILE_NAME).is_file()), None)


def user_file() -> Path | None:
    """Return the user's settings file, if there is one."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111  pathlib raises
    path = Path(base) / "graphmill" / "config.yaml"
    return path if path.is_file() else None


def _read(path: Path) -> Settings:
    try:
        stat = path.stat()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    return _known(path, stat.st_mtime_ns, stat.st_size, stat.st_ino)


@lru_cache(maxsize=16)
def _known(path: Path, *_: int) -> Settings:
    try:
        return read_settings(Document.read(path, what="settings"))
    except WorkflowError as error:
        raise UsageError(str(error)) from None
