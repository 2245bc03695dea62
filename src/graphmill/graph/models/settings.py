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
    AnyKind,
    Block,
    ChoiceKind,
    CountKind,
    EitherKind,
    Key,
    ListKind,
    MappingKind,
    NumberKind,
    TextKind,
    shown,
)
from graphmill.graph.language.places import At
from graphmill.graph.language.problems import Problems
from graphmill.graph.language.reader import BlockReader
from graphmill.graph.secrets import Secret, names_secret

T = TypeVar("T")

SETTINGS: Final[Block] = MappingProxyType(
    {
        "models": Key(
            MappingKind("a mapping from names to models"),
            "Names for models: a name → `provider/model`, or a mapping as below.",
        ),
        "roles": Key(
            MappingKind("a mapping from roles to models"),
            "What nodes with a `role` ask: a role → a model's name, or a mapping.",
        ),
        "providers": Key(
            MappingKind("a mapping from names to providers"),
            "Where providers are, by name; a new name needs a `protocol`.",
        ),
    }
)
MODEL: Final[Block] = MappingProxyType(
    {
        "model": Key(TextKind(), "`provider/model`; under `roles` also a name of `models`.", is_required=True),
        "temperature": Key(
            NumberKind(most=100), "This and all below: the params of its calls, where a node does not say otherwise."
        ),
        "top_p": Key(NumberKind(most=1), "As the node's param."),
        "max_tokens": Key(CountKind(1), "As the node's param."),
        "stop": Key(EitherKind(TextKind(), ListKind("a list of texts")), "As the node's param."),
        "seed": Key(CountKind(-(2**63), 2**63 - 1), "As the node's param."),
        "reasoning_effort": Key(TextKind(), "As the node's param."),
        "extra": Key(MappingKind(), "As the node's param."),
    }
)
PROVIDER: Final[Block] = MappingProxyType(
    {
        "protocol": Key(TextKind(), "The provider whose protocol it speaks; without it, the one of its own name."),
        "address": Key(AnyKind(), "Where it is, without the path of a call; a text, or `{env: NAME}`."),
        "key": Key(
            AnyKind(),
            "`{env: NAME}`, or the name alone, of the variable that holds its key; `none` where it wants none.",
        ),
        "headers": Key(MappingKind("a mapping from names to texts or {env: NAME}"), "Sent with every call."),
        "output_schema": Key(ChoiceKind(("native", "prompt")), "How an answer of a given shape is asked for."),
        "limits": Key(MappingKind(), "What each of its models bears; see below."),
    }
)
LIMITS: Final[Block] = MappingProxyType(
    {
        "requests_per_minute": Key(CountKind(1), "Calls in a minute."),
        "tokens_per_minute": Key(CountKind(1), "Tokens of both directions in a minute."),
        "concurrency": Key(CountKind(1), "Calls at once."),
    }
)
_SECRET = re.compile(r"key|token|secret|password|signature|^sig$", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NAME = "graphmill.yaml"


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


def read_settings(document: Document) -> Settings:
    """Read a settings file; UsageError lists all that is wrong with it."""
    problems = Problems(document)
    found = _Reader(problems).settings(document.data)
    try:
        problems.raise_if_any()
    except WorkflowError as error:
        raise UsageError(str(error)) from None
    return found


class _Reader:
    def __init__(self, problems: Problems) -> None:
        self._problems = problems

    def settings(self, data: Any) -> Settings:
        if data is not None and not isinstance(data, Mapping):
            self._problems.add((), f"settings are a mapping with {', '.join(SETTINGS)}, not {shown(data)}")
            return Settings()
        block = self._block(data or {}, (), SETTINGS)
        return Settings(
            models=self._named(block["models"], "models", self._model),
            roles=self._named(block["roles"], "roles", self._model),
            providers=self._named(block["providers"], "providers", self._provider),
            files=(self._problems.document.path,),
        )

    def _named(self, found: Mapping[Any, Any] | None, key: str, read: Any) -> Mapping[str, Any]:
        made: dict[str, Any] = {}
        for name, value in (found or {}).items():
            if not isinstance(name, str) or not name:
                self._problems.add((key, name), f"{key}: a name is text, not {shown(name)}", is_key=True)
            elif (entry := read(name, value, (key, name))) is not None:
                made[name] = entry
        return MappingProxyType(made)

    def _model(self, name: str, value: Any, at: At) -> ModelSetting | None:
        if isinstance(value, str):
            value = {"model": value}
        if not isinstance(value, Mapping):
            self._problems.add(
                at, f"{at[0]}.{name} is provider/model, or a mapping with {', '.join(MODEL)}, not {shown(value)}"
            )
            return None
        block = self._block(value, at, MODEL)
        if not block.has("model"):
            return None
        if at[0] == "models" and not _is_whole(block["model"]):
            block.wrong(
                f"model is written provider/model, not {shown(block['model'])}; roles may use a name",
                block.at_key("model"),
            )
        return ModelSetting(model=block["model"], params=self._params(block))

    @staticmethod
    def _params(block: BlockReader) -> Mapping[str, Any]:
        given = {key: block[key] for key in MODEL if key != "model" and block.has(key)}
        stop = given.get("stop")
        if isinstance(stop, list) and not all(isinstance(entry, str) for entry in stop):
            block.wrong("stop is text or a list of texts", block.at_key("stop"))
        return MappingProxyType(given)

    def _provider(self, name: str, value: Any, at: At) -> ProviderSetting | None:
        if not isinstance(value, Mapping):
            self._problems.add(at, f"providers.{name} is a mapping with {', '.join(PROVIDER)}, not {shown(value)}")
            return None
        if "/" in name:
            self._problems.add(at, f"providers.{name}: a provider's name holds no /", is_key=True)
        block = self._block(value, at, PROVIDER)
        return ProviderSetting(
            protocol=block["protocol"] or name,
            address=self._address(block),
            key=self._key(block),
            headers=self._headers(block),
            output_schema=block["output_schema"],
            limits=self._limits(block),
        )

    def _limits(self, block: BlockReader) -> Limits | None:
        if not block["limits"]:
            return None
        found = self._block(block["limits"], block.at_key("limits"), LIMITS)
        return Limits(**{key: found[key] for key in LIMITS})

    def _address(self, block: BlockReader) -> str | Secret | None:
        value = block["address"]
        if value is None or (isinstance(value, Mapping) and names_secret(value)):
            return None if value is None else Secret(value["env"])
        if problem := _address_problem(value):
            block.wrong(f"address {problem}", block.at_key("address"))
            return None
        beside = (
            None if self._problems.document.root is None or "://" in value else self._problems.document.root / value
        )
        return str(beside) if beside is not None and beside.is_file() else str(value)

    def _key(self, block: BlockReader) -> str | None:
        value = block["key"]
        if isinstance(value, Mapping) and names_secret(value):
            value = value["env"]
        if value is None or value == "none":
            return None if value is None else ""
        if not isinstance(value, str) or not _VARIABLE.fullmatch(value):
            # What stands there may be the key itself: it is not repeated.
            block.wrong(
                "key is the name of a variable of the environment, {env: NAME}, and never a key itself",
                block.at_key("key"),
            )
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
                block.wrong(
                    f"headers: {shown(name)} is one line of text, or {{env: NAME}}", (*block.at_key("headers"), name)
                )
        return MappingProxyType(made)

    def _block(self, found: Mapping[Any, Any], at: At, block: Block) -> BlockReader:
        return BlockReader(found, at, block=block, problems=self._problems)


def _is_whole(model: str) -> bool:
    provider, slash, name = model.partition("/")
    return bool(provider and slash and name)


def _address_problem(value: Any) -> str:
    """Say what is wrong with an address; one that is no URL is for its provider to judge, as a script's file."""
    if not isinstance(value, str) or not value:
        return "is http://… or https://…, or {env: NAME}"
    try:
        parts = urlsplit(value)
        is_right = "://" not in value or (
            parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        )
    except ValueError:
        is_right = False
    if not is_right:
        return "is http://… or https://…, or {env: NAME}"
    if (
        parts.username
        or parts.password
        or any(_SECRET.search(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True))
    ):
        return "holds no user, password or key: what is secret comes from the environment, as a key, a header or {env: NAME}"
    return ""


def settings_here() -> Settings:
    """Give what is set for the current folder; UsageError lists what is wrong in its files."""
    found = Settings()
    for path in (project_file(), user_file()):
        if path is not None:
            found = found.over(_read(path))
    return found


def project_file() -> Path | None:
    """Give the nearest settings file from the current folder upward."""
    here = Path.cwd()
    return next((path for folder in (here, *here.parents) if (path := folder / NAME).is_file()), None)


def user_file() -> Path | None:
    """Give the settings file of the person, if there is one."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111  Path's raises where there is no home
    path = Path(base) / "graphmill" / "config.yaml"
    return path if path.is_file() else None


def _read(path: Path) -> Settings:
    try:
        stat = path.stat()
    except OSError as error:
        raise UsageError(f"can not read {path}: {error.strerror}") from error
    return _known(path, stat.st_mtime_ns, stat.st_size, stat.st_ino)


@lru_cache(maxsize=16)
def _known(path: Path, *_: int) -> Settings:
    try:
        return read_settings(Document.read(path, what="settings"))
    except WorkflowError as error:
        raise UsageError(str(error)) from None
