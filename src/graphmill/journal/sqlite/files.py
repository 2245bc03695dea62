"""The files of a store: made for their owner's eyes only, and watched so that they stay the same files."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from graphmill.journal.sqlite.faults import emptied, gone

_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")  # how a write-ahead log begins
_LOG_BYTES = 32 + 1000 * (24 + 4096)  # of a thousand pages


def make_folder(folder: Path) -> None:
    """Make a folder that nobody else may look into, and that Git leaves out; one that is there stays as it is."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    if make_private(folder):
        make_file(folder / ".gitignore")
        (folder / ".gitignore").write_text("*\n")


def make_private(folder: Path) -> bool:
    """Make a folder that nobody else may look into; tell whether it was not there."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        return False
    folder.chmod(0o700)  # whatever the umask
    return True


def make_file(path: Path) -> None:
    """Make an empty file that nobody else may read; one that is there is not even opened.

    Closing a descriptor of a database drops all locks that SQLite holds on it in this process.
    """
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(descriptor, 0o600)  # whatever the umask
        finally:
            os.close(descriptor)


def require_base(path: Path) -> None:
    """Raise DamagedError for a database that is empty beside a log that is not: SQLite would take it for a new one, and delete the log."""
    log = Path(f"{path}-wal")
    with suppress(FileNotFoundError):
        if path.stat().st_size == 0 and log.stat().st_size > 0:
            raise emptied(str(path))


def make_room(path: Path) -> None:
    """Fill up a database's log to the length at which SQLite begins it anew; only for who alone may write.

    Until then each commit makes the file longer, and to sync that takes half as long again. What follows the last commit is never read.
    """
    with suppress(OSError):  # where there is no room, it grows as far as it can
        descriptor = os.open(f"{path}-wal", os.O_WRONLY | os.O_CLOEXEC)
        try:
            length = os.fstat(descriptor).st_size
            if (
                0 < length < _LOG_BYTES
                and os.pwrite(descriptor, bytes(_LOG_BYTES - length), length) < _LOG_BYTES - length
            ):
                os.ftruncate(descriptor, length)
        finally:
            os.close(descriptor)


class Watch:
    """Notices that a database or the files beside it were deleted, replaced or cut under an open connection."""

    def __init__(self, path: Path) -> None:
        self._name = str(path)
        self._log = f"{path}-wal"
        self._paths = (str(path), self._log, f"{path}-shm", f"{path}-owners")
        self._identities = [self._identity(name) for name in self._paths]

    def glance(self) -> None:
        """Raise JournalError if there is no log any more: this is done at every commit.

        It asks for no times: some systems keep finer ones of a file that was asked for them, and then each commit costs half as much again.
        """
        if not os.access(self._log, os.F_OK):
            raise gone(self._name)

    def look(self) -> None:
        """Raise JournalError if any file is not the one that was opened, or the log begins with a hole: it was cut, and not by SQLite."""
        if [self._identity(name) for name in self._paths] != self._identities:
            raise gone(self._name)
        with open(self._log, "rb") as file:  # noqa: PTH123
            beginning = file.read(4)
        if beginning and beginning not in _MAGIC:
            raise gone(self._name)

    def _identity(self, name: str) -> tuple[int, int]:
        try:
            state = os.stat(name)  # noqa: PTH116
        except FileNotFoundError:
            raise gone(self._name) from None
        return state.st_dev, state.st_ino
