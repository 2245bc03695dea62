"""Models for the reader: what names and roles stand for, and where providers are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from graphmill.core.errors import UsageError
from graphmill.core.json import to_json
from graphmill.engine.rate_limits import Limits
from graphmill.graph.models.models import Models
from graphmill.graph.models.settings import ModelSetting
from graphmill.graph.models.target import Target
from graphmill.graph.secrets import Secret
from graphmill.journal.sqlite.cache_file import Holding
from graphmill.report.run_view import instant
from graphmill.report.text import columns, counted, shown, size

_LIMITS_SAID = {
    "requests_per_minute": "{:,} requests a minute",
    "tokens_per_minute": "{:,} tokens a minute",
    "concurrency": "{:,} at once",
}
_LIMITS = tuple(_LIMITS_SAID)


def models_record(models: Models) -> dict[str, Any]:
    """Give all that is known as data; of a key, only the variable that holds it and whether that is set."""
    settings = models.settings
    return {
        "files": list(settings.files),
        "models": {name: _setting(each) for name, each in settings.models.items()},
        "roles": {name: _role(models, name, each) for name, each in settings.roles.items()},
        "providers": {name: _provider(models, name) for name in models.providers},
    }


def models_lines(models: Models) -> list[str]:
    """Give the same as lines."""
    found = models_record(models)
    return [
        *_part("models", [(name, _said(each)) for name, each in found["models"].items()]),
        *_part("roles", [(name, _said(each)) for name, each in found["roles"].items()]),
        *_part("providers", [(name, _provider_text(each)) for name, each in found["providers"].items()]),
        f"from {', '.join(found['files'])}"
        if found["files"]
        else "no graphmill.yaml from here upward: a model is written provider/model",
    ]


def target_record(target: Target) -> dict[str, Any]:
    """Tell what one name means."""
    return {"model": target.lane, "params": dict(target.defaults), **_about(target)}


def target_lines(name: str, target: Target) -> list[str]:
    """Give the same as lines."""
    found = target_record(target)
    params = to_json(found["params"]) if found["params"] else "as the node says"
    rows = [("model", found["model"]), ("params", params), ("provider", _provider_text(found))]
    return [*([name] if name != found["model"] else []), *columns([(f"  {left}", right) for left, right in rows])]


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
        return _about(models.provider(name))
    except UsageError as error:
        return {"problem": str(error)}


def _about(target: Target) -> dict[str, Any]:
    variable = target.key_variable
    return {
        "protocol": target.provider.name,
        "address": _place(target),
        "key": variable or None,
        "is_key_set": bool(os.environ.get(variable)) if variable else None,
        "is_key_wanted": target.is_key_wanted,
        "output_schema": "native" if target.is_native else "prompt",
        "limits": {} if target.setting.limits is None else _set(target.setting.limits),
    }


def _set(limits: Limits) -> dict[str, int]:
    found = {name: getattr(limits, name) for name in _LIMITS}
    return {name: value for name, value in found.items() if value is not None}


def _limits_text(limits: Mapping[str, int]) -> str:
    return ", ".join(_LIMITS_SAID[name].format(value) for name, value in limits.items())


def _place(target: Target) -> str | None:
    """Give where it is; what a variable holds may be secret, and of that only host and port are told."""
    if isinstance(target.setting.address, Secret):
        return f"{{env: {target.setting.address.name}}}"
    if target.setting.address is not None or not target.is_moved:
        return target.address or None
    parts = urlsplit(target.address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]} ({target.provider.address_variable})"


def _said(each: Mapping[str, Any]) -> str:
    if "problem" in each:
        return str(each["problem"])
    more = {name: value for name, value in each.items() if name != "model"}
    return f"{each['model']}  {to_json(more)}" if more else str(each["model"])


def _provider_text(found: Mapping[str, Any]) -> str:
    if "problem" in found:
        return str(found["problem"])
    if found["key"] is None:
        key = "no key"
    else:
        key = (
            f"{found['key']} is set"
            if found["is_key_set"]
            else f"{found['key']} is not set{'' if found['is_key_wanted'] else ', nor needed'}"
        )
    return " · ".join(filter(None, (found["address"], key, _limits_text(found["limits"]))))


def _part(title: str, rows: list[tuple[str, str]]) -> Iterator[str]:
    if rows:
        yield title
        yield from columns([(f"  {left}", right) for left, right in rows])


_MODEL_CHARS = 36
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


def cache_lines(path: Path, holdings: Sequence[Holding], *, now: float) -> list[str]:
    """Show what is kept, one line for each model, that fits 80 columns."""
    if not holdings:
        return [none_here(path)]
    head = ("model", "answers", "size", "oldest", "last used")
    ages = [(age(now - each.oldest_at), age(now - each.used_at)) for each in holdings]
    rows = [
        (shown(each.model, _MODEL_CHARS), f"{each.answers:,}", size(each.bytes), *ages[at])
        for at, each in enumerate(holdings)
    ]
    total = sum(each.answers for each in holdings)
    return [*columns([head, *rows]), f"{answers(total)}, {size(sum(each.bytes for each in holdings))}, in {path}"]


def cache_record(path: Path, holdings: Sequence[Holding]) -> dict[str, Any]:
    """Give the same as data."""
    return {
        "path": str(path),
        "answers": sum(each.answers for each in holdings),
        "bytes": sum(each.bytes for each in holdings),
        "models": [
            {
                "model": each.model,
                "answers": each.answers,
                "bytes": each.bytes,
                "oldest_at": instant(each.oldest_at),
                "used_at": instant(each.used_at),
            }
            for each in holdings
        ],
    }


def none_here(path: Path) -> str:
    """Say that nothing is kept."""
    return f"no answers are kept here yet, in {path}; --journal names another place"


def answers(count: int) -> str:
    """Count answers."""
    return counted(count, "answer")


def age(value: float) -> str:
    """Write an age in one unit, as people say it: '5 min', '3 h', '12 d'."""
    for unit_s, unit in _UNITS:
        if value >= unit_s:
            return f"{value // unit_s:,.0f} {unit}"
    return "just now"
