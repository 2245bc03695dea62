"""The manifest of a run: what it does, with which code, in which versions."""

from __future__ import annotations

import math
import os
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePath
from typing import Any

from graphmill.core.errors import UsageError, describe_error
from graphmill.core.fingerprint import callable_name
from graphmill.core.version import __version__
from graphmill.engine.attempts.processes.importable import import_name, require_importable
from graphmill.engine.policy import Alerts, Guards, Policy, Retry

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def manifest_of(
    *,
    graph: Mapping[str, Any],
    fingerprints: Mapping[str, str],
    source: Mapping[str, Any] | None,
    policy: Policy,
    options: Mapping[str, Any],
    packages: Iterable[str] = (),
) -> dict[str, Any]:
    """Describe, as plain JSON data, all that a run was started with.

    ``graph`` has its ``kind``, workflow, function or langgraph, and the ``path`` or ``function`` (module:name) by which
    it can be opened again, if it can; ``source`` likewise its ``path`` and ``format``. A ``seed`` among the options is
    noted by itself too. Versions are noted of Graphmill, its dependencies, and the ``packages`` that the graph needs.
    Functions are noted by name, other objects by type only: neither addresses nor secrets get in, nor the environment.
    """
    return {
        "graph": _data(graph),
        "fingerprints": dict(fingerprints),
        "source": _data(source),
        "policy": policy_note(policy),
        "options": _data(options),
        "seed": _data(options.get("seed")),
        "versions": _versions(graph.get("function"), packages),
        "commit": commit_of(Path.cwd()),
    }


def policy_note(policy: Policy) -> Any:
    """Take a policy down as a manifest has it."""
    return _data(policy)


def policy_from(note: Mapping[str, Any]) -> Policy:
    """Return the policy in a manifest; UsageError if its ``classify`` cannot be imported. Unknown rules are ignored."""
    parts = _known(Policy, note)
    for name, kind in (("retry", Retry), ("guards", Guards), ("alerts", Alerts)):
        if isinstance(parts.get(name), Mapping):
            parts[name] = kind(**_known(kind, parts[name]))
    if isinstance(parts.get("classify"), str):
        parts["classify"] = _classify(parts["classify"])
    return Policy(**parts)


def _known(kind: type, note: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: note[field.name] for field in fields(kind) if field.name in note}


def _classify(name: str) -> Any:
    module, colon, rule = name.partition(":")
    try:
        if colon:
            return import_name(module, rule)
    except Exception as error:  # noqa: BLE001  importing runs user code
        reason = describe_error(error)
    else:
        reason = "it has no name to import it by"
    raise UsageError(f"the policy's classify, {name}, cannot be imported ({reason}); pass the policy again, as policy=")


def openable(function: Callable[..., Any]) -> str | None:
    """Return the ``module:name`` by which another process can have this function, None if there is none.

    A function of ``__main__`` has none, however the program was started: to import a program is to run it once more.
    """
    try:
        module, name = require_importable(function)
    except UsageError:
        return None
    return f"{module}:{name}"


def _data(value: Any) -> Any:
    if isinstance(value, Enum):
        return _data(value.value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return str(value)
    if isinstance(value, PurePath):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _data(getattr(value, field.name)) for field in fields(value)}
    return _held(value)


def _held(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _data(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_data(entry) for entry in value]
    if isinstance(value, Set):
        return sorted((_data(entry) for entry in value), key=str)
    if callable(value):
        return openable(value) or callable_name(value)
    return type(value).__qualname__


def _versions(function: Any, packages: Iterable[str]) -> dict[str, str]:
    """Return versions of what the outcome may depend on: Python, the platform, dependencies, the function's package."""
    found = {
        "graphmill": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{os.uname().sysname} {os.uname().release} {os.uname().machine}",
    }
    # Looked up by the module's name: listing which package holds which module takes too long.
    holder = [function.partition(":")[0].partition(".")[0]] if isinstance(function, str) else []
    for name in [*_dependencies(), *packages, *holder]:
        if versions := _metadata_field(name, "Version"):
            found.setdefault(name, versions[0])
    return found


def _dependencies() -> list[str]:
    # Empty where Graphmill runs from its source.
    return [re.split(r"[^\w.-]", text, maxsplit=1)[0] for text in _metadata_field("graphmill", "Requires-Dist")]


@cache  # what is loaded stays as it is
def _metadata_field(package: str, field: str) -> list[str]:
    """Read a field of an installed package's metadata from its head: parsing all of it takes ten times as long."""
    try:
        found = distribution(package)
    except (PackageNotFoundError, ValueError):
        return []
    # PKG-INFO is that of an egg, such as Debian's packages.
    text = found.read_text("METADATA") or found.read_text("PKG-INFO") or ""
    return re.findall(rf"^{field}: (.+)$", text.partition("\n\n")[0], re.MULTILINE)


def commit_of(folder: Path) -> str | None:
    """Return the commit checked out in a folder or above it, None if there is none; changes since then are not seen."""
    try:
        marks = (parent / ".git" for parent in (folder, *folder.parents))
        mark = next((mark for mark in marks if mark.exists()), None)
        found = mark and _head(_repository(mark))
    except (OSError, ValueError):  # not ours to read, not git's
        return None
    if not found or not _COMMIT.fullmatch(found):
        return None
    return found


def _repository(mark: Path) -> Path:
    """Follow the file that replaces the folder in a worktree or a submodule."""
    if mark.is_dir():
        return mark
    return mark.parent / mark.read_text(encoding="utf-8").removeprefix("gitdir:").strip()


def _head(repository: Path) -> str | None:
    head = (repository / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith("ref:"):
        return head
    name = head.removeprefix("ref:").strip()
    pointer = repository / "commondir"  # a worktree shares its branches with the others
    if pointer.exists():
        repository /= pointer.read_text(encoding="utf-8").strip()
    return _loose(repository / name) or _packed(repository / "packed-refs", name)


def _loose(path: Path) -> str | None:
    if path.is_file():
        return path.read_text(encoding="utf-8").strip()
    return None


def _packed(path: Path, name: str) -> str | None:
    if not path.is_file():
        return None
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), None)
