"""Drafts: a file is written under a temporary name where it is to stand, synced, then put in its place: old or new, never half."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EEXIST, EMLINK, ENOSYS, ENOTSUP, EOPNOTSUPP, EPERM
from secrets import token_hex
from stat import S_IMODE

from graphmill.nodes.files.spot import Spot

_AT_ONCE = 256 * 1024
_NO_LINKS = frozenset({EPERM, EMLINK, ENOSYS, ENOTSUP, EOPNOTSUPP})


class Draft:
    """A new file beside a spot; ``file`` is its descriptor."""

    def __init__(self, spot: Spot, *, mode: int | None) -> None:
        self._spot = spot
        self._name = f".graphmill-{token_hex(8)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self.file = os.open(self._name, flags, 0o666 if mode is None else 0o600, dir_fd=spot.folder)
        if mode is not None:
            os.fchmod(self.file, mode)

    def place(self, *, overwrites: bool) -> None:
        """Put it in its place; FileExistsError if something stands there that it must not replace."""
        os.fsync(self.file)
        if overwrites:
            os.replace(self._name, self._spot.name, src_dir_fd=self._spot.folder, dst_dir_fd=self._spot.folder)
        else:
            put_new(self._spot.folder, self._name, self._spot)
        self._spot.sync_folder()

    def close(self) -> None:
        """Leave nothing behind but what is in its place."""
        os.close(self.file)
        with suppress(OSError):
            os.unlink(self._name, dir_fd=self._spot.folder)


@contextmanager
def draft_for(spot: Spot, *, mode: int | None = None) -> Iterator[Draft]:
    """Begin a draft; what is not placed is gone afterwards. Without a mode it has that of the file it replaces, or the usual one."""
    found = spot.file()
    if found is not None:
        spot.require_writable()
        mode = S_IMODE(found.st_mode) & 0o777 if mode is None else mode
    draft = Draft(spot, mode=mode)
    try:
        yield draft
    finally:
        draft.close()


def put_new(folder: int, name: str, spot: Spot) -> None:
    """Give a file, in one act, a name that nothing has; FileExistsError if something has it."""
    try:
        os.link(name, spot.name, src_dir_fd=folder, dst_dir_fd=spot.folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
    else:
        os.unlink(name, dir_fd=folder)
        return
    if spot.status() is not None:  # the file system has no second names
        raise FileExistsError(EEXIST, os.strerror(EEXIST))
    os.rename(name, spot.name, src_dir_fd=folder, dst_dir_fd=spot.folder)


def write_chunks(file: int, chunks: Iterable[bytes]) -> int:
    """Write all of it, in few calls; tell how many bytes."""
    size, waiting = 0, bytearray()
    for chunk in chunks:
        waiting += chunk
        if len(waiting) >= _AT_ONCE:
            size += _write(file, waiting)
            waiting = bytearray()
    return size + _write(file, waiting)


def _write(file: int, data: bytearray) -> int:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
    return len(data)
