"""The git commit that a folder is at, read from git's own files."""

from __future__ import annotations

import re
from pathlib import Path

_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def commit_of(folder: Path) -> str | None:
    """Give the commit checked out in a folder or above it, None if there is none; changes since then are not seen."""
    try:
        marks = (parent / ".git" for parent in (folder, *folder.parents))
        mark = next((mark for mark in marks if mark.exists()), None)
        found = None if mark is None else _head(_repository(mark))
    except (OSError, ValueError):  # not ours to read, not git's
        return None
    return found if found is not None and _HASH.fullmatch(found) else None


def _repository(mark: Path) -> Path:
    """Follow the file that stands for the folder in a worktree or a submodule."""
    return mark if mark.is_dir() else mark.parent / mark.read_text(encoding="utf-8").removeprefix("gitdir:").strip()


def _head(repository: Path) -> str | None:
    head = (repository / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith("ref:"):
        return head
    name = head.removeprefix("ref:").strip()
    pointer = repository / "commondir"  # a worktree shares its branches with the others
    shared = repository / pointer.read_text(encoding="utf-8").strip() if pointer.exists() else repository
    return _loose(shared / name) or _packed(shared / "packed-refs", name)


def _loose(path: Path) -> str | None:
    return path.read_text(encoding="utf-8").strip() if path.is_file() else None


def _packed(path: Path, name: str) -> str | None:
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), None)
