"""Where the path of a file node leads, and whether it may lead there.

A path written in the workflow is its author's word and may lead anywhere. A path with a template stays below the folder
written before the first template, and links on its way stay in the workflow's folder or in `allow_paths`. Paths are
resolved once, before the file is used: this guards against mistakes and stray values, not against somebody who swaps
folders for links at that moment.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from graphmill.core.errors import Permanent, Transient
from graphmill.graph.node_params import Filled, pieces_of

JOURNAL_FOLDER = ".graphmill"
_MAX_SHOWN_CHARS = 200
_MAX_BYTES = os.pathconf("/", "PC_PATH_MAX")

_PERMANENT = {
    errno.ENOENT: "no such file, or no such folder before it",
    errno.ENOTDIR: "a name before the last is a file, not a folder",
    errno.EISDIR: "this is a folder; name a file in it",
    errno.EACCES: "permission denied; check the permissions of the file and its folder",
    errno.EPERM: "permission denied; check the permissions of the file and its folder",
    errno.EROFS: "the file system is read-only",
    errno.EEXIST: "the file exists already; use `overwrite: true` to replace it",
    errno.ENAMETOOLONG: "the name is too long for the file system",
    errno.ELOOP: "symbolic links lead in a circle",
    errno.EFBIG: "the file would be larger than the system allows",
    errno.EINVAL: "the file system does not accept this name",
    errno.EILSEQ: "the file system does not accept this name",
    errno.ENXIO: "this is not a regular file",
}
_TRANSIENT = {
    errno.ENOSPC: "no space left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EMFILE: "too many open files; lower the concurrency or raise `ulimit -n`",
    errno.ENFILE: "too many open files on this machine",
}


class FilePath(NamedTuple):
    """A resolved path: ``real`` is absolute and without links; ``param`` and ``shown`` are for messages."""

    param: str
    shown: str
    real: Path

    def refusal(self, why: str) -> Permanent:
        """Return the failure that says why this path cannot be used."""
        return Permanent(f"{self.param} {self.shown}: {why}")


def resolve_path(
    param: str, path: str, *, root: Path | None, allowed: Sequence[str] = (), follows_link: bool = True
) -> FilePath:
    """Resolve a path as it was given, in pieces where it has templates; Permanent if it may not be used.

    A link at its end is followed unless ``follows_link`` is false.
    """
    shown = repr(path)
    if len(path) > _MAX_SHOWN_CHARS:
        shown = repr(path[:_MAX_SHOWN_CHARS] + "…")
    base = os.path.abspath(root or ".")  # noqa: PTH100  without following links
    try:
        _check_values(pieces_of(path))
        check_path(path)
        if len(f"{base}/{path}".encode()) >= _MAX_BYTES:
            raise ValueError("the path is too long for the system")
        target, limits = _target_of(path, base, [base, *(_absolute(folder, base) for folder in allowed)])
        real = os.path.realpath(target)
        if not follows_link:
            folder, name = os.path.split(target)
            real = f"{os.path.realpath(folder).rstrip('/')}/{name}"
        if limits is not None and not _is_in_any(real, limits):
            raise ValueError(
                f"a link leads out, to {real[:_MAX_SHOWN_CHARS]!r}; to allow that, add its folder to `allow_paths`"
            )
        _check_no_journal(real)
    except ValueError as error:
        raise Permanent(f"{param} {shown}: {error}") from error
    return FilePath(param, shown, Path(real))


def check_path(path: str) -> None:
    """Refuse what cannot be the path of a file; ValueError says why."""
    check_folder(path)
    if path.endswith(("/", "/.", "/..")) or path in (".", "..", "~"):
        raise ValueError("this is a folder; name a file in it")


def check_folder(path: str) -> None:
    """Refuse what cannot be a path at all; ValueError says why."""
    if not path:
        raise ValueError("a path must not be empty")
    if "\0" in path:
        raise ValueError("a path must not contain a NUL character")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise ValueError("a path must not contain half of a surrogate pair") from error
    _check_no_journal(path)


@contextmanager
def file_errors(path: FilePath) -> Iterator[None]:
    """Translate errors of the system: Permanent where the same call would fail again, else Transient."""
    try:
        yield
    except OSError as error:
        if error.errno in _PERMANENT:
            raise path.refusal(_PERMANENT[error.errno]) from error
        why = _TRANSIENT.get(error.errno or 0) or error.strerror or os.strerror(error.errno or errno.EIO)
        raise Transient(f"{path.param} {path.shown}: {why}") from error


def _target_of(path: str, base: str, folders: list[str]) -> tuple[str, list[str] | None]:
    """Return where a path leads before links are followed, and the folders it must stay in; None for anywhere."""
    pieces = pieces_of(path)
    if not any(isinstance(piece, Filled) for piece in pieces):
        target = _absolute(path, base)
        if _is_in_any(target, folders):
            return target, folders
        return target, None
    written = ""
    if isinstance(pieces[0], str):
        written = "".join(pieces[0].rpartition("/")[:2])
    if ".." in path[len(written) :].split("/"):
        raise ValueError("`..` is allowed only before the first template")
    if not written and path.startswith("/"):
        if not _is_in_any(path, folders):
            raise ValueError("an absolute path from a template must be in the workflow's folder or in `allow_paths`")
        return os.path.normpath(path), folders
    start = _absolute(written, base)
    if not _is_in_any(start, [base]):
        folders = [start, *folders]
    return os.path.normpath(f"{start}/{path[len(written) :]}"), folders


def _check_values(pieces: Sequence[str | Filled]) -> None:
    """Refuse values that are no part of a path."""
    for place, piece in enumerate(pieces):
        if not isinstance(piece, Filled):
            continue
        if not isinstance(piece.value, str | int) or isinstance(piece.value, bool):
            raise ValueError(f"a path takes text and whole numbers, got {_kind(piece.value)}")
        if piece.value == "":
            raise ValueError("the value of a template in it is empty")
        if place and piece.text.startswith("/"):
            raise ValueError(f"the value {piece.text[:80]!r} is an absolute path, but text precedes it")


def _check_no_journal(path: str) -> None:
    if any(name.casefold() == JOURNAL_FOLDER for name in path.split("/")):
        raise ValueError(f"{JOURNAL_FOLDER} is the journal's own folder, which file nodes must not touch")


def _absolute(path: str, base: str) -> str:
    if path == "~" or path.startswith("~/"):
        path = os.path.expanduser(path)  # noqa: PTH111
    return os.path.normpath(os.path.join(base, path)).replace("//", "/")  # noqa: PTH118


def _is_in_any(path: str, folders: Sequence[str]) -> bool:
    """Whether a path is below one of these folders, as they are written or without links."""
    return any(
        f"{path}/".startswith(f"{folder.rstrip('/')}/")
        for written in folders
        for folder in (written, os.path.realpath(written))
    )


def _kind(value: object) -> str:
    if value is None:
        return "null"
    return {bool: "true or false", dict: "a mapping", list: "a list", float: "a number with a fraction"}.get(
        type(value), type(value).__name__
    )
