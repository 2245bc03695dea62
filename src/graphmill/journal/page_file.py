"""Pages on disk, beside the journal: what a job puts aside, in a file that vanishes with the process."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryFile
from weakref import finalize

from graphmill.core.errors import JournalError

_HEAD = 8  # bytes of a body's length, before it
_AT_ONCE = 4096


class PageFile:
    """See the engine's Pages. Nothing of it must last: a resumed job puts the same aside again, out of what is recorded."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = -1
        self._end = 0

    def put(self, body: bytes) -> int | None:
        """Put a body aside; tell where it is, or None if the disk does not take it."""
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
        """Give back what was put there."""
        try:
            page = os.pread(self._file, _AT_ONCE, place)
            end = _HEAD + int.from_bytes(page[:_HEAD], "little")
            if len(page) < end:
                page += os.pread(self._file, end - len(page), place + len(page))
        except OSError as error:
            raise JournalError(f"what was put aside beside the journal can not be read: {error.strerror}") from error
        if len(page) < end:
            raise JournalError("what was put aside beside the journal is cut off; resume the run")
        return page[_HEAD:end]

    def _open(self) -> None:
        with TemporaryFile(dir=self._folder, buffering=0) as file:
            self._file = os.dup(file.fileno())
        finalize(self, os.close, self._file)  # when its last reader is gone
