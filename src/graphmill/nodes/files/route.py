"""Routes: where a path leads to, and within which folders it has to stay.

What an author writes is the author's word; what a template comes to is data and leads out of nothing. So a path without a template may lead
anywhere, and one with a template stays below the folder that is written before the first of them. Links may lead from there to the
workflow's folder and to those that the author allows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from graphmill.core.errors import Permanent
from graphmill.graph.node_params import Filled, pieces_of

JOURNAL_FOLDER = ".graphmill"
_SHOWN_CHARS = 200
_MOST_BYTES = os.pathconf("/", "PC_PATH_MAX")


class Ground:
    """A folder below which files may be taken; ``path`` is absolute."""

    def __init__(self, path: str) -> None:
        self.path = path

    @cached_property
    def real(self) -> str:
        """The same without links."""
        return os.path.realpath(self.path)

    def names_to(self, path: str) -> list[str] | None:
        """Give the names that lead from here to an absolute path; None if it is not below this folder."""
        for base in (self.path, self.real):
            inside = base if base.endswith("/") else f"{base}/"
            if f"{path}/".startswith(inside):
                return names_in(path[len(inside) :])
        return None


EVERYWHERE = Ground("/")


class Route(NamedTuple):
    """The way of a param's path: the ground where it begins, the names from there on, and the grounds to which links may lead."""

    param: str
    shown: str
    start: Ground
    names: tuple[str, ...]
    grounds: tuple[Ground, ...]


def route_of(param: str, path: str, *, root: Path | None, allowed: Sequence[str] = ()) -> Route:
    """Find the way of a path as it was given, in pieces where it holds templates; Permanent if it may not be taken."""
    base = os.path.abspath(root or ".")  # noqa: PTH100  without following links
    shown = repr(path if len(path) <= _SHOWN_CHARS else path[:_SHOWN_CHARS] + "…")
    try:
        pieces = pieces_of(path)
        _require_text(pieces)
        require_name(path)
        if len(f"{base}/{path}".encode()) >= _MOST_BYTES:
            raise ValueError("the path is longer than the system takes; shorten it")
        grounds = (Ground(base), *(Ground(_absolute(folder, base)) for folder in allowed))
        if not any(isinstance(piece, Filled) for piece in pieces):
            return _written(param, shown, _absolute(path, base), grounds)
        folder = pieces[0].rpartition("/") if isinstance(pieces[0], str) else ("", "", "")
        _require_data(pieces, path[len(folder[0] + folder[1]) :])
        return _filled(param, shown, "".join(folder[:2]), path, grounds)
    except ValueError as error:
        raise Permanent(f"{param} {shown}: {error}") from error


def names_in(path: str) -> list[str]:
    """Give the names along a path."""
    return [name for name in path.split("/") if name not in ("", ".")]


def require_name(path: str) -> None:
    """Refuse what can not be the path of a file; ValueError says why."""
    require_folder(path)
    if path.endswith(("/", "/.", "/..")) or path in (".", "..", "~"):
        raise ValueError("this is a folder; name a file in it")


def require_folder(path: str) -> None:
    """Refuse what can not be a path at all; ValueError says why."""
    if not path:
        raise ValueError("an empty text is no path")
    if "\0" in path:
        raise ValueError("a path can not hold a NUL character")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise ValueError("a path can not hold half of a surrogate pair") from error
    if any(is_journal(name) for name in path.split("/")):
        raise ValueError(f"{JOURNAL_FOLDER} is the journal's own folder; file nodes leave it alone")


def is_journal(name: str) -> bool:
    """Tell whether this is the name of the journal's folder, also where case does not count."""
    return name.casefold() == JOURNAL_FOLDER


def _absolute(path: str, base: str) -> str:
    home = os.path.expanduser(path) if path == "~" or path.startswith("~/") else path  # noqa: PTH111
    return os.path.normpath(os.path.join(base, home)).replace("//", "/")  # noqa: PTH118


def _written(param: str, shown: str, path: str, grounds: tuple[Ground, ...]) -> Route:
    for ground in grounds:
        if (names := ground.names_to(path)) is not None:
            return Route(param, shown, ground, tuple(names), grounds)
    return Route(param, shown, EVERYWHERE, tuple(names_in(path)), (EVERYWHERE,))


def _filled(param: str, shown: str, folder: str, path: str, grounds: tuple[Ground, ...]) -> Route:
    if not folder and path.startswith("/"):
        found = next(((ground, names) for ground in grounds if (names := ground.names_to(path)) is not None), None)
        if found is None:
            raise ValueError(
                "an absolute path that a template came to has to lie in the workflow's folder or one of `allow_paths`"
            )
        return Route(param, shown, found[0], tuple(found[1]), grounds)
    start = _absolute(folder, grounds[0].path)
    rest = names_in(path[len(folder) :])
    if (names := grounds[0].names_to(start)) is not None:
        return Route(param, shown, grounds[0], (*names, *rest), grounds)
    own = Ground(start)
    return Route(param, shown, own, tuple(rest), (own, *grounds))


def _require_text(pieces: Sequence[str | Filled]) -> None:
    for piece in pieces:
        if isinstance(piece, Filled) and (not isinstance(piece.value, str | int) or isinstance(piece.value, bool)):
            raise ValueError(f"a path is put together of text and whole numbers, not of {_kind(piece.value)}")
        if isinstance(piece, Filled) and piece.value == "":
            raise ValueError("a template in it comes to nothing, and such paths would all be one")


def _require_data(pieces: Sequence[str | Filled], rest: str) -> None:
    """Refuse values that would lead elsewhere than below what is written before them."""
    for piece in pieces[1:]:
        if isinstance(piece, Filled) and piece.text.startswith("/"):
            raise ValueError(f"the value {piece.text[:80]!r} is an absolute path, and something is written before it")
    if ".." in rest.split("/"):
        raise ValueError(
            "`..` leads out of where a template's value has to stay; only the text before the first template may hold it"
        )


def _kind(value: object) -> str:
    if value is None:
        return "null"
    return {bool: "true or false", dict: "a mapping", list: "a list", float: "a number with a fraction"}.get(
        type(value), "such a value"
    )
