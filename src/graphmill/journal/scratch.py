"""Scratch files beside the journal, worth nothing on another machine: the items in flight, and what jobs spill.

Items in flight are written through mapped memory and never synced. That survives the death of the process, which is
what it is for, and costs nothing. After a crash of the machine it may be wrong; then a few items run one at a time for
no reason.
"""

from __future__ import annotations

import errno
import mmap
import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from weakref import finalize

from graphmill.core.errors import JournalError
from graphmill.core.json import KEY_BYTES

_SLOTS = 1024
_EMPTY = bytes(KEY_BYTES)


class InFlightFile:
    """The keys of the items in flight; without a path, nothing is written."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._memory: mmap.mmap | None = None
        self._slots: dict[bytes, slice] = {}
        self._free: list[slice] = []
        if path is not None:
            with suppress(OSError):  # without the file, no item is suspected
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
    """Return which items were under way when the process that wrote this file died."""
    if path is None:
        return []
    try:
        data = path.read_bytes()
    except OSError:
        return []
    keys = (data[start : start + KEY_BYTES] for start in range(0, len(data), KEY_BYTES))
    return [key for key in keys if key != _EMPTY]


_AMOUNT_BYTES = 8
_MOST_NANO = 2 ** (8 * _AMOUNT_BYTES) - 1


class HeldFile:
    """What a run counts as spent if its process dies now: one number, in a file that is there only while it runs."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._memory: mmap.mmap | None = None

    def write(self, nano: int) -> None:
        """Write the number; JournalError on a full disk: money could then be spent twice."""
        if self._path is None:
            return
        if self._memory is None:
            self._memory = self._open(self._path)
        self._memory[:_AMOUNT_BYTES] = min(nano, _MOST_NANO).to_bytes(_AMOUNT_BYTES, "little")

    def close(self) -> None:
        """Leave nothing behind: all that was spent is recorded."""
        if self._memory is not None:
            self._memory.close()
            self._memory = None
            forget_held(self._path)

    @staticmethod
    def _open(path: Path) -> mmap.mmap:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if os.fstat(descriptor).st_size < _AMOUNT_BYTES:
                    _fill(descriptor, _AMOUNT_BYTES)
                return mmap.mmap(descriptor, _AMOUNT_BYTES)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise JournalError(
                f"cannot note beside the journal what calls may cost: {error.strerror}; free space, or leave the "
                "budget out"
            ) from error


def held_path(folder: Path, number: int) -> Path:
    """Return where the run of this number holds it."""
    return folder / f"budget-{number}"


def held_before(path: Path | None) -> int:
    """Return what the process that wrote this file counted as spent when it died; 0 if it ended in order."""
    if path is None:
        return 0
    try:
        return int.from_bytes(path.read_bytes()[:_AMOUNT_BYTES], "little")
    except OSError:
        return 0


def forget_held(path: Path | None) -> None:
    """Remove the file."""
    if path is not None:
        with suppress(OSError):
            path.unlink()


_HEAD = 8  # bytes of a body's length, before it
_AT_ONCE = 4096


class PageFile:
    """The engine's Pages in a file that vanishes with the process: a resumed job spills again from its record."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = -1
        self._end = 0

    def put(self, body: bytes) -> int | None:
        """Put a body aside; return where it is, or None if the disk does not take it."""
        page = len(body).to_bytes(_HEAD, "little") + body
        try:
            if self._file < 0:
                self._open()
            written = os.pwrite(self._file, page, self._end)
        except OSError:
            return None
        if written < len(page):
            return None
        place, self._end = self._end, self._end + written
        return place

    def get(self, place: int) -> bytes:
        """Return back what was put there."""
        try:
            page = os.pread(self._file, _AT_ONCE, place)
            end = _HEAD + int.from_bytes(page[:_HEAD], "little")
            if len(page) < end:
                page += os.pread(self._file, end - len(page), place + len(page))
        except OSError as error:
            raise JournalError(f"what was put aside beside the journal cannot be read: {error.strerror}") from error
        if len(page) < end:
            raise JournalError("what was put aside beside the journal is cut off; resume the run")
        return page[_HEAD:end]

    def _open(self) -> None:
        with TemporaryFile(dir=self._folder, buffering=0) as file:
            self._file = os.dup(file.fileno())
        finalize(self, os.close, self._file)  # when its last reader is gone
