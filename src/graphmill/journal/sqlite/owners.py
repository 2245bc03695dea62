"""Which runs have a living owner: each holds the byte with its run's number locked in a file beside the database.

The kernel releases a lock when its process dies, however it dies. But such locks do not hold between threads of one
process, and closing any descriptor of the file drops them all. So a process has one descriptor and one list for all
stores of a file.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from graphmill.core.errors import JournalError

_OPENING = 0  # the byte of whoever prepares the database; runs are numbered from 1
_POLL_S = 0.01
_FLOCK = "qqihh" if sys.platform == "darwin" else "hhqqi0q"


class Owners:
    """The locks of this process on one lock file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self._held: set[int] = set()
        self._lock = Lock()
        self._opening = Lock()
        self.users = 0

    def take(self, number: int) -> bool:
        """Lock a run; False if it has an owner, in this process or another."""
        with self._lock:
            if number in self._held or not self._try(number):
                return False
            self._held.add(number)
            return True

    def release(self, number: int) -> None:
        """Let go of a run that is held."""
        with self._lock:
            if number in self._held:
                self._held.discard(number)
                fcntl.lockf(self.fileno(), fcntl.LOCK_UN, 1, number)

    def is_owned(self, number: int) -> bool:
        """Return whether a run has a living owner."""
        with self._lock:
            return number in self._held or _is_locked(self.fileno(), number)

    @contextmanager
    def alone(self, patience_s: float) -> Iterator[None]:
        """Keep all others, threads and processes, from preparing the database meanwhile."""
        deadline = time.monotonic() + patience_s
        if not self._opening.acquire(timeout=patience_s):
            raise self._busy()
        try:
            while not self._try(_OPENING):
                if time.monotonic() >= deadline:
                    raise self._busy()
                time.sleep(_POLL_S)
            try:
                yield
            finally:
                fcntl.lockf(self.fileno(), fcntl.LOCK_UN, 1, _OPENING)
        finally:
            self._opening.release()

    def fileno(self) -> int:
        """Return the one descriptor, opened when it is first asked for."""
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._descriptor

    def close(self) -> None:
        """Close everything."""
        with self._lock:
            self._held.clear()
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def forget(self) -> None:
        """Be as new, in a forked child: locks are not inherited."""
        self._lock, self._opening = Lock(), Lock()
        self.close()

    def _try(self, number: int) -> bool:
        try:
            fcntl.lockf(self.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def _busy(self) -> JournalError:
        return JournalError(
            f"another process has held {self._path} for too long while preparing the journal; check which one"
        )


def owners_of(path: Path) -> Owners:
    """Return the locks of this process on a lock file; for each call there is to be one of ``let_go``."""
    with _registry_lock:
        state = path.stat()
        owners = _registry.setdefault((state.st_dev, state.st_ino), Owners(path))
        owners.users += 1
        return owners


def let_go(owners: Owners) -> None:
    """Close the locks of a file when their last user lets go."""
    with _registry_lock:
        owners.users -= 1
        if owners.users == 0:
            owners.close()
            for identity in [identity for identity, known in _registry.items() if known is owners]:
                del _registry[identity]


def _is_locked(descriptor: int, number: int) -> bool:
    start = (
        (number, 1, 0, fcntl.F_WRLCK, os.SEEK_SET)
        if sys.platform == "darwin"
        else (fcntl.F_WRLCK, os.SEEK_SET, number, 1, 0)
    )
    found = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(_FLOCK, *start)))
    return bool(found[3 if sys.platform == "darwin" else 0] != fcntl.F_UNLCK)


def _after_fork() -> None:
    global _registry_lock  # noqa: PLW0603
    _registry_lock = Lock()
    for owners in _registry.values():
        owners.forget()


_registry: dict[tuple[int, int], Owners] = {}
_registry_lock = Lock()
os.register_at_fork(after_in_child=_after_fork)
