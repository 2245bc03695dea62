"""What SQLite and the system say when something is wrong, in our own words, with the remedy."""

from __future__ import annotations

import errno
import sqlite3
from types import TracebackType

from graphmill.core.errors import DamagedError, JournalError

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_RESTORE = "restore it from a backup, or start a new run in another journal"
_FULL = "no space left for the journal {name} ({error}); free some, then resume"
_SAYINGS = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: "cannot write the journal {name} ({error}); make it and its folder writable, then resume",
    sqlite3.SQLITE_PERM: "no permission to open the journal {name} ({error}); check the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "cannot open the journal {name} ({error}); check that it and its folder exist and are "
    "writable",
    sqlite3.SQLITE_BUSY: "another process has locked the journal {name} for too long ({error}); end it, then resume",
    sqlite3.SQLITE_LOCKED: "another process has locked the journal {name} for too long ({error}); end it, then resume",
    sqlite3.SQLITE_IOERR: "cannot read or write the journal {name} ({error}); check the disk, then resume",
}
_DAMAGE = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_ERROR,  # tables are not as we made them
)


class translate_errors:  # noqa: N801  a class, not a generator: it is entered again and again
    """Turn what SQLite or the system raises within into a JournalError about the store of this name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if error is not None and (found := translated(self._name, error)) is not None:
            raise found from error


def translated(name: str, error: BaseException) -> JournalError | None:
    """Return what an error means for the store of this name; None if it is not the store's."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)
        # Without a code it was raised by Python's own side: our fault.
        if code is None:
            return None
        return _journal_error(name, error, code)
    if isinstance(error, UnicodeDecodeError):  # Python could not read what SQLite says, which cites the damaged text
        return DamagedError(f"the journal {name} is damaged (its tables are not as they were created); {_RESTORE}")
    if not isinstance(error, OSError):
        return None
    if error.errno in _NO_SPACE:
        return JournalError(_FULL.format(name=name, error=error.strerror))
    return JournalError(f"the journal {name} cannot be used: {error}; check its path and its permissions")


def damaged(name: str, place: str) -> DamagedError:
    """Return the error for a place in a store that does not hold what was written."""
    return DamagedError(f"the journal {name} is damaged: {place} is not what was written; {_RESTORE}")


def emptied(name: str) -> DamagedError:
    """Say that a store was cut to nothing while the log beside it was not."""
    return DamagedError(f"the journal {name} is damaged: it is empty, and {name}-wal beside it is not; {_RESTORE}")


def _journal_error(name: str, error: sqlite3.Error, code: int) -> JournalError:
    primary = code & 0xFF
    said = f"{error}, {error.sqlite_errorname}"
    if primary in _DAMAGE:
        return DamagedError(f"the journal {name} is damaged ({said}); {_RESTORE}")
    if error.sqlite_errorname == "SQLITE_IOERR_SHMSIZE":  # the shared memory beside it could not grow
        primary = sqlite3.SQLITE_FULL
    if error.sqlite_errorname == "SQLITE_READONLY_DBMOVED":
        return gone(name)
    saying = _SAYINGS.get(primary, "the journal {name} failed ({error}); resume when the cause is gone")
    return JournalError(saying.format(name=name, error=said))


def gone(name: str) -> JournalError:
    """Say that the files of a store are no longer those that were opened."""
    return JournalError(f"the journal {name} was deleted or replaced during the run; restore it, or start a new run")
