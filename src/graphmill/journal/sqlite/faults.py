"""What SQLite and the system say when something is wrong, in our own words, with the remedy."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from graphmill.core.errors import DamagedError, JournalError

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_RESTORE = "restore it from a backup, or begin a new run in another journal"
_FULL = "no space left for the journal {name} ({error}); free some and resume"
_SAYINGS = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_READONLY: "the journal {name} can not be written ({error}); make the file and its folder writable and resume",
    sqlite3.SQLITE_PERM: "the journal {name} may not be opened ({error}); check the permissions of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "the journal {name} can not be opened ({error}); see that it exists and may be written, its folder too",
    sqlite3.SQLITE_BUSY: "the journal {name} was held by another process for too long ({error}); see which one has it open, and resume",
    sqlite3.SQLITE_LOCKED: "the journal {name} was held by another process for too long ({error}); see which one has it open, and resume",
    sqlite3.SQLITE_IOERR: "the journal {name} could not be read or written ({error}); see to the disk and resume",
}
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)  # the last: tables are not as we made them


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Turn what SQLite or the system raises within into a JournalError about the store of this name."""
    try:
        yield
    except sqlite3.Error as error:
        if (code := getattr(error, "sqlite_errorcode", None)) is None:  # raised by Python's own side: our fault, not the store's
            raise
        raise _journal_error(name, error, code) from error
    except UnicodeDecodeError as error:  # Python could not read what SQLite says, which cites the damaged text
        raise DamagedError(f"the journal {name} is damaged (its tables are not as they were made); {_RESTORE}") from error
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise JournalError(_FULL.format(name=name, error=error.strerror)) from error
        raise JournalError(f"the journal {name} can not be used: {error}; check its path and its permissions") from error


def damaged(name: str, place: str) -> DamagedError:
    """Say that what stands at a place in a store is not what was written."""
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
    return JournalError(f"the journal {name} was deleted or replaced under the run; put it back, or begin anew")
