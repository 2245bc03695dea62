"""Spots: a folder that is held open and a name in it, found name by name so that no link leads out, whoever swaps what meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EINVAL, ELOOP, EMLINK, ENOENT, ENOTDIR
from functools import cache
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG

from graphmill.core.errors import Permanent, Transient
from graphmill.nodes.files.route import EVERYWHERE, JOURNAL_FOLDER, Ground, Route, is_journal, names_in
from graphmill.nodes.files.told import told

MOST_LINKS = 40
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NO_FILES = ("/proc", "/sys")


class Spot:
    """Where a file stands, or is to: ``folder`` is the descriptor of its folder."""

    def __init__(self, route: Route, folder: int, name: str) -> None:
        self.param = route.param
        self.shown = route.shown
        self.folder = folder
        self.name = name

    def refusal(self, why: str) -> Permanent:
        """Give the failure that says why this can not be done here."""
        return Permanent(f"{self.param} {self.shown}: {why}")

    def status(self) -> os.stat_result | None:
        """Tell what stands here, a link as such; None: nothing."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def file(self) -> os.stat_result | None:
        """Tell what file stands here, if any; Permanent if it is something else."""
        found = self.status()
        if found is not None:
            self.require_file(found)
        return found

    def require_file(self, found: os.stat_result) -> None:
        """Refuse all but regular files."""
        if S_ISDIR(found.st_mode):
            raise self.refusal("this is a folder; name a file in it")
        if S_ISLNK(found.st_mode):
            raise Transient(f"{self.param} {self.shown}: became a link while it was opened")
        if not S_ISREG(found.st_mode) or found.st_dev in _devices():
            raise self.refusal("this is no regular file but a pipe, a device or the like; file nodes leave such alone")

    def require_writable(self) -> None:
        """Refuse a file that is read-only, though a new one could be put in its place."""
        if not os.access(self.name, os.W_OK, dir_fd=self.folder, effective_ids=os.access in os.supports_effective_ids):
            raise self.refusal("the file is read-only")

    @contextmanager
    def opened(self, flags: int, mode: int = 0o666) -> Iterator[int]:
        """Open the file that stands here, or, with O_CREAT, is to; nothing else is opened."""
        self.file()
        descriptor = os.open(self.name, flags | _FILE, mode, dir_fd=self.folder)
        try:
            self.require_file(os.fstat(descriptor))
            yield descriptor
        finally:
            os.close(descriptor)

    def sync_folder(self) -> None:
        """Make sure that the folder's entries last."""
        _sync(self.folder)


@contextmanager
def spot_of(route: Route, *, creates: bool = False, is_link_meant: bool = False) -> Iterator[Spot]:
    """Go a route to its end; ``creates`` makes the folders that are missing. A link at the end is followed, unless it is meant itself.

    An error of the system, also one of what is done there, is told as a failure that names the param.
    """
    with told(route):
        walk = _Walk(route, creates=creates)
        try:
            name = walk.go(is_link_meant=is_link_meant)
            yield Spot(route, walk.folder, name)
        finally:
            walk.close()


class _Walk:
    """One way through folders, each opened in the one before it; ``folder`` is where it has got to, ``_names`` how, from a ground."""

    def __init__(self, route: Route, *, creates: bool) -> None:
        self._route = route
        self._creates = creates
        self._links = 0
        self._target = ""
        self._journals = _journals(route.grounds)
        self.folder = -1
        self._left = list(reversed(route.names))
        self._begin(route.start)

    def go(self, *, is_link_meant: bool) -> str:
        """Go to the last folder; give the name in it."""
        while self._left:
            name = self._left.pop()
            if is_journal(name):
                raise Permanent(
                    f"{self._about}: this leads to {JOURNAL_FOLDER}, the journal's own folder; file nodes leave it alone"
                )
            if name == "..":
                self._up()
            elif self._left:
                self._down(name)
            elif is_link_meant or (target := self._link(name)) is None:
                return name
            else:
                self._follow(target)
        raise Permanent(f"{self._about}: this is a folder; name a file in it")

    def close(self) -> None:
        if self.folder >= 0:
            os.close(self.folder)
            self.folder = -1

    @property
    def _about(self) -> str:
        return f"{self._route.param} {self._route.shown}"

    def _begin(self, ground: Ground) -> None:
        folder = _open_ground(self._route, ground, creates=self._creates)
        self.close()
        self.folder, self._ground, self._names = folder, ground, list[str]()

    def _down(self, name: str) -> None:
        try:
            inner = self._open(name)
        except OSError as error:
            target = self._link(name) if error.errno in (ENOTDIR, ELOOP, EMLINK) else None
            if target is None:
                raise
            self._follow(target)
            return
        self.close()
        self.folder = inner
        self._names.append(name)
        if self._journals and _identity(inner) in self._journals:
            raise Permanent(f"{self._about}: this leads to the journal's own folder; file nodes leave it alone")

    def _open(self, name: str) -> int:
        try:
            return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self.folder)
        except FileNotFoundError:
            if not self._creates:
                raise
        with suppress(FileExistsError):  # by another, at the same time
            os.mkdir(name, dir_fd=self.folder)
            _sync(self.folder)
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self.folder)

    def _link(self, name: str) -> str | None:
        try:
            return os.readlink(name, dir_fd=self.folder)
        except OSError as error:
            if error.errno in (EINVAL, ENOENT):
                return None
            raise

    def _follow(self, target: str) -> None:
        self._links += 1
        if self._links > MOST_LINKS:
            raise OSError(ELOOP, os.strerror(ELOOP))
        self._target = target
        self._left.extend(reversed(names_in(target)))
        if target.startswith("/"):
            self._enter("/")

    def _up(self) -> None:
        """Go to the folder above: from the ground again, since the one above an open folder may be another by now."""
        if self._names or self._ground is EVERYWHERE:
            self._left.extend(reversed(self._names[:-1]))
            self._begin(self._ground)
        else:
            self._enter(_above(self._ground.real))

    def _enter(self, path: str) -> None:
        """Go on from a folder that is outside, by the names that are left, to the first ground on that way."""
        while (ground := next((each for each in self._route.grounds if path in (each.path, each.real)), None)) is None:
            if not self._left:
                raise Permanent(
                    f"{self._about}: a link leads out, to {self._target[:200]!r}; if that is meant, name that folder in `allow_paths`"
                )
            name = self._left.pop()
            path = _above(path) if name == ".." else f"{path.rstrip('/')}/{name}"
        self._begin(ground)


def _above(path: str) -> str:
    return os.path.dirname(path)  # noqa: PTH120


def _open_ground(route: Route, ground: Ground, *, creates: bool) -> int:
    try:
        return os.open(ground.path, _FOLDER)
    except FileNotFoundError:
        if not creates:
            raise
    names = tuple(names_in(ground.path))
    with spot_of(Route(route.param, route.shown, EVERYWHERE, (*names, "."), (EVERYWHERE,)), creates=True) as spot:
        return os.open(".", _FOLDER, dir_fd=spot.folder)


def _sync(folder: int) -> None:
    with suppress(OSError):  # some file systems do not sync folders
        descriptor = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _journals(grounds: tuple[Ground, ...]) -> frozenset[tuple[int, int]]:
    """Tell which folders are journals', by what the system knows them by: names may differ in ways that only it knows."""
    found = set()
    for folder in (".", *(ground.path for ground in grounds)):
        with suppress(OSError):
            status = Path(folder, JOURNAL_FOLDER).stat()
            found.add((status.st_dev, status.st_ino))
    return frozenset(found)


def _identity(folder: int) -> tuple[int, int]:
    status = os.fstat(folder)
    return status.st_dev, status.st_ino


@cache
def _devices() -> frozenset[int]:
    """Tell which devices hold no files but what the system makes up when it is read."""
    found = set()
    for folder in _NO_FILES:
        with suppress(OSError):
            found.add(Path(folder).stat().st_dev)
    return frozenset(found - {Path("/").stat().st_dev})
