"""Models for the reader: what names and roles mean, where providers are, and which responses are cached."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from graphmill.core.errors import UsageError
from graphmill.core.json import to_json
from graphmill.engine.scheduling.rate_limits import Limits
from graphmill.graph.models.models import Models
from graphmill.graph.models.settings import ModelSetting
from graphmill.graph.models.target import ModelTarget
from graphmill.graph.secrets import Secret
from graphmill.journal.cache import CacheHolding
from graphmill.report.text import align_columns, count_text, iso_time, one_line, size_text

_LIMIT_TEXTS = {
    "requests_per_minute": "{:,} requests a minute",
    "tokens_per_minute": "{:,} tokens a minute",
    "concurrency": "{:,} at once",
}
_MODEL_CHARS = 36
_AGE_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


def models_record(models: Models) -> dict[str, Any]:
    """Return everything known as data; of a key, only the variable that holds it and whether that is set."""
    settings = models.settings
    return {
        "files": list(settings.files),
        "models": {name: _setting(each) for name, each in settings.models.items()},
        "roles": {name: _role(models, name, each) for name, each in settings.roles.items()},
        "providers": {name: _provider(models, name) for name in models.providers},
    }


def models_lines(models: Models) -> list[str]:
    """Return the same as lines."""
    found = models_record(models)
    end = "no graphmill.yaml in this folder or above it; write models as provider/model"
    if found["files"]:
        end = f"from {', '.join(found['files'])}"
    return [
        *_table("models", {name: _setting_text(each) for name, each in found["models"].items()}),
        *_table("roles", {name: _setting_text(each) for name, each in found["roles"].items()}),
        *_table("providers", {name: _provider_text(each) for name, each in found["providers"].items()}),
        end,
    ]


def target_record(target: ModelTarget) -> dict[str, Any]:
    """Say what one name means."""
    return {"model": target.lane, "params": dict(target.defaults), **_provider_record(target)}


def target_lines(name: str, target: ModelTarget, more: Sequence[tuple[str, str]] = ()) -> list[str]:
    """Return the same as lines, and ``more`` rows below."""
    found = target_record(target)
    params = to_json(found["params"]) if found["params"] else "set by each node"
    rows = [("  model", found["model"]), ("  params", params), ("  provider", _provider_text(found)), *more]
    lines = align_columns(rows)
    if name == found["model"]:
        return lines
    return [name, *lines]


def _setting(each: ModelSetting) -> dict[str, Any]:
    return {"model": each.model, **each.params}


def _role(models: Models, name: str, each: ModelSetting) -> dict[str, Any]:
    try:
        models.find(role=name)
    except UsageError as error:
        return _setting(each) | {"problem": str(error)}
    return _setting(each)


def _provider(models: Models, name: str) -> dict[str, Any]:
    try:
        return _provider_record(models.provider(name))
    except UsageError as error:
        return {"problem": str(error)}


def _provider_record(target: ModelTarget) -> dict[str, Any]:
    variable = target.key_variable
    return {
        "protocol": target.provider.name,
        "address": _address(target),
        "key": variable or None,
        "is_key_set": bool(os.environ.get(variable)) if variable else None,
        "is_key_wanted": target.is_key_wanted,
        "output_schema": "native" if target.is_native else "prompt",
        "limits": _limits(target.setting.limits),
    }


def _limits(limits: Limits | None) -> dict[str, int]:
    found = {name: getattr(limits, name, None) for name in _LIMIT_TEXTS}
    return {name: value for name, value in found.items() if value is not None}


def _address(target: ModelTarget) -> str | None:
    """Return the address; one from a variable may hold secrets, so only its host and port are shown."""
    if isinstance(target.setting.address, Secret):
        return f"{{env: {target.setting.address.name}}}"
    if target.setting.address is not None or not target.is_moved:
        return target.address or None
    parts = urlsplit(target.address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]} ({target.provider.address_variable})"


def _setting_text(each: Mapping[str, Any]) -> str:
    if "problem" in each:
        return str(each["problem"])
    params = {name: value for name, value in each.items() if name != "model"}
    if params:
        return f"{each['model']}  {to_json(params)}"
    return str(each["model"])


def _provider_text(found: Mapping[str, Any]) -> str:
    if "problem" in found:
        return str(found["problem"])
    limits = ", ".join(_LIMIT_TEXTS[name].format(value) for name, value in found["limits"].items())
    return " · ".join(filter(None, (found["address"], _key_text(found), limits)))


def _key_text(found: Mapping[str, Any]) -> str:
    if found["key"] is None:
        return "no key"
    if found["is_key_set"]:
        return f"{found['key']} is set"
    return f"{found['key']} is not set" + ("" if found["is_key_wanted"] else " (not needed)")


def _table(title: str, rows: Mapping[str, str]) -> Iterator[str]:
    if rows:
        yield title
        yield from align_columns([(f"  {name}", text) for name, text in rows.items()])


def cache_lines(path: Path, holdings: Sequence[CacheHolding], *, now: float) -> list[str]:
    """Show what is cached, one line for each model; fits 80 columns."""
    if not holdings:
        return [none_here(path)]
    rows = [
        (
            one_line(each.model, _MODEL_CHARS),
            f"{each.answers:,}",
            size_text(each.bytes),
            age(now - each.oldest_at),
            age(now - each.used_at),
        )
        for each in holdings
    ]
    total, bytes_ = sum(each.answers for each in holdings), sum(each.bytes for each in holdings)
    return [
        *align_columns([("model", "responses", "size", "oldest", "last used"), *rows]),
        f"{responses(total)}, {size_text(bytes_)}, in {path}",
    ]


def cache_record(path: Path, holdings: Sequence[CacheHolding]) -> dict[str, Any]:
    """Return the same as data."""
    return {
        "path": str(path),
        "responses": sum(each.answers for each in holdings),
        "bytes": sum(each.bytes for each in holdings),
        "models": [
            {
                "model": each.model,
                "responses": each.answers,
                "bytes": each.bytes,
                "oldest_at": iso_time(each.oldest_at),
                "used_at": iso_time(each.used_at),
            }
            for each in holdings
        ],
    }


def none_here(path: Path) -> str:
    """Say that the cache is empty."""
    return f"no cached responses in {path}; use --journal for another place"


def responses(count: int) -> str:
    """Count responses."""
    return count_text(count, "response")


def age(value: float) -> str:
    """Write an age in one unit: '5 min', '3 h', '12 d'."""
    for unit_s, unit in _AGE_UNITS:
        if value >= unit_s:
            return f"{value // unit_s:,.0f} {unit}"
    return "just now"
