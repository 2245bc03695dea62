"""Which items are under way, in a file that outlives the process.

It is written through memory and never synced: that survives the death of the process, which is what it is for, and costs
nothing. When the machine itself dies it may be wrong, and then a few items are run one at a time for no reason.
"""

from __future__ import annotations

import errno
import mmap
import os
from contextlib import suppress
from pathlib import Path

from graphmill.core.json import KEY_BYTES

_SLOTS = 1024
_EMPTY = bytes(KEY_BYTES)


class Flight:
    """The keys of the items under way; without a path, nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._memory: mmap.mmap | None = None
        self._slots: dict[bytes, slice] = {}
        self._free: list[slice] = []
        if path is not None:
            with suppress(OSError):  # where it can not be kept, no item is suspected
                self._open(path)

    def enter(self, key: bytes) -> None:
        """Note that an item is under way."""
        if self._memory is None or key in self._slots:
            return
        if not self._free and not self._grow(self._memory):
            return
        slot = self._slots[key] = self._free.pop()
        self._memory[slot] = key

    def leave(self, key: bytes) -> None:
        """Note that it is no longer."""
        slot = self._slots.pop(key, None)
        if slot is not None and self._memory is not None:
            self._memory[slot] = _EMPTY
            self._free.append(slot)

    def close(self) -> None:
        """Leave nothing behind: the run has ended in order."""
        if self._memory is not None and self._path is not None:
            self._memory.close()
            self._memory = None
            with suppress(OSError):
                self._path.unlink()

    def _open(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            _fill(descriptor, _SLOTS * KEY_BYTES)
            self._memory = mmap.mmap(descriptor, 0)
        finally:
            os.close(descriptor)
        self._free = _places(0, _SLOTS * KEY_BYTES)

    def _grow(self, memory: mmap.mmap) -> bool:
        size = len(memory)
        try:
            descriptor = os.open(self._path or "", os.O_WRONLY | os.O_APPEND)
            try:
                _fill(descriptor, size)
            finally:
                os.close(descriptor)
            memory.resize(2 * size)
        except OSError:  # then this one is not suspected
            return False
        self._free = _places(size, 2 * size)
        return True


def _places(first: int, end: int) -> list[slice]:
    return [slice(place, place + KEY_BYTES) for place in range(first, end, KEY_BYTES)]


def _fill(descriptor: int, size: int) -> None:
    """Take up the room now: where there is none, mapped memory is a SIGBUS at the first touch."""
    if os.write(descriptor, bytes(size)) < size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def left_behind(path: Path | None) -> list[bytes]:
    """Tell which items were under way when the process that wrote this file died."""
    if path is None:
        return []
    try:
        data = path.read_bytes()
    except OSError:
        return []
    keys = (data[start : start + KEY_BYTES] for start in range(0, len(data), KEY_BYTES))
    return [key for key in keys if key != _EMPTY]
