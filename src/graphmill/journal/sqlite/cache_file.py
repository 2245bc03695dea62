"""The answers of models that are kept beside a journal, in a database of their own: nothing is lost with it that can not be asked again."""

from __future__ import annotations

import errno
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from marshal import dumps
from math import inf
from pathlib import Path
from typing import NamedTuple

from graphmill.core.errors import DamagedError, JournalError
from graphmill.journal.sqlite.database import connect, write_alone, writing
from graphmill.journal.sqlite.files import make_file, make_folder, require_base
from graphmill.journal.sqlite.rows import PACKING, bytes_of, compressed, decompressed, text_of
from graphmill.journal.sqlite.statements import SQL

SUFFIX = "-cache"
_MARK = 0x47_4D_43_61  # 'GMCa', SQLite's application_id
_VERSION = 1
_STEP_ROWS = 500
_STEP_PAGES = 500
_USED_AGAIN_S = 3600.0  # a use is noted to the hour: a hit should not cost a write
_BUSY_S = 5.0
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class _BusyError(Exception):
    """Others have held the file for too long."""


class Answer(NamedTuple):
    """An answer to be kept: ``body`` is JSON, ``model`` what its readers call the model."""

    key: bytes
    model: str
    body: bytes


class Holding(NamedTuple):
    """What is kept of one model; ``bytes`` are those of the answers, as stored."""

    model: str
    answers: int
    bytes: int
    oldest_at: float
    used_at: float


class CacheFile:
    """An open cache, for one thread. JournalError says what is wrong with it; DamagedError that it is not what was written.

    Without ``create`` one that is not there is a FileNotFoundError.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float], create: bool = True) -> None:
        self.path = path
        self._clock = clock
        with _translated(path):
            if create:
                make_folder(path.parent)
                require_base(path)
                make_file(path)
            elif not path.exists():
                raise FileNotFoundError(path)
            self._connection = connect(path, busy_s=_BUSY_S)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def find(self, key: bytes) -> bytes | None:
        """Give the body that goes by this key; one that is not what was written is none."""
        row = None
        with _translated(self.path), suppress(_BusyError), _not_busy():
            row = self._connection.execute(SQL["cache_find"], (key,)).fetchone()
        if row is None:
            return None
        model, made_at, used_at, digest, stored = row
        if digest != _digest(key, model, made_at, stored):
            self._write_quietly("cache_drop", (key,))
            return None
        if self._clock() - used_at > _USED_AGAIN_S:
            self._write_quietly("cache_use", (self._clock(), key))
        return decompressed(stored)

    def keep(self, answers: Iterable[Answer]) -> None:
        """Keep answers, all or, beside somebody who writes without a pause, none."""
        now = self._clock() + 0.0
        rows = [_row(answer, now) for answer in answers]
        with _translated(self.path), suppress(_BusyError), _not_busy(), writing(self._connection, busy_s=_BUSY_S):
            self._connection.executemany(SQL["cache_keep"], rows)

    def holdings(self) -> list[Holding]:
        """Tell what is kept, by model."""
        with _translated(self.path):
            return [Holding(text_of(model), *rest) for model, *rest in self._connection.execute(SQL["cache_models"])]

    def unused(self, for_s: float | None = None) -> tuple[int, int]:
        """Count the answers that nobody has used for so long, or all, and their bytes."""
        with _translated(self.path):
            count, size = self._connection.execute(SQL["cache_unused"], (self._before(for_s),)).fetchone()
            return count, size

    def prune(self, for_s: float | None = None) -> int:
        """Forget the answers that nobody has used for so long, or all; tell how many. In small steps: others write meanwhile."""
        gone, before = 0, self._before(for_s)
        with _translated(self.path):
            while True:
                with writing(self._connection, busy_s=_BUSY_S):
                    count = self._connection.execute(SQL["cache_prune"], (before, _STEP_ROWS)).rowcount
                gone += count
                if count < _STEP_ROWS:
                    break
            self._shrink()
        return gone

    def close(self) -> None:
        """Let go of it."""
        self._connection.close()

    def _before(self, for_s: float | None) -> float:
        return inf if for_s is None else self._clock() - for_s

    def _write_quietly(self, statement: str, values: tuple[object, ...]) -> None:
        """Write what may as well be left out."""
        try:
            write_alone(self._connection, SQL[statement], values, busy_s=0)
        except sqlite3.Error:
            return

    def _shrink(self) -> None:
        left: int = self._connection.execute("PRAGMA freelist_count").fetchone()[0]
        while left > 0:
            with writing(self._connection, busy_s=_BUSY_S):
                for _ in range(_STEP_PAGES):
                    self._connection.execute("PRAGMA incremental_vacuum(1)")
            left -= _STEP_PAGES
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _prepare(self) -> None:
        """Make the table in a database that is new; refuse one that is not ours, or of a later version."""
        connection = self._connection
        if self._is_known():
            connection.execute("PRAGMA synchronous = NORMAL")
            return
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        write_alone(connection, "PRAGMA journal_mode = WAL", (), busy_s=_BUSY_S)
        connection.execute(
            "PRAGMA synchronous = NORMAL"
        )  # the last answers may be lost with the power; the file is not
        with writing(connection, busy_s=_BUSY_S):
            if not self._is_known():  # another process may have been faster
                connection.execute(SQL["cache_schema"])
                connection.execute(f"PRAGMA application_id = {_MARK}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")

    def _is_known(self) -> bool:
        mark, version, tables = (
            self._connection.execute(question).fetchone()[0]
            for question in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        )
        if not tables and not mark:
            return False
        if mark != _MARK:
            raise JournalError(f"{self.path} is no cache of Graphmill; move it away")
        if version > _VERSION:
            raise JournalError(
                f"the cache {self.path} is of a later version of Graphmill; use that, or delete the file"
            )
        return True


def _row(answer: Answer, now: float) -> tuple[object, ...]:
    stored, model = compressed(answer.body), bytes_of(answer.model)
    return answer.key, model, now, now, _digest(answer.key, model, now, stored), stored


def _digest(key: bytes, model: bytes, made_at: float, stored: bytes) -> bytes:
    return blake2b(dumps((key, model, made_at, stored), PACKING), digest_size=16).digest()


@contextmanager
def _not_busy() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise _BusyError from error
        raise


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Say what SQLite or the system finds wrong with a cache."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:  # raised by Python's own side: our fault, not the file's
            raise
        raise _cache_error(path, error, code & 0xFF) from error
    except (zlib.error, UnicodeDecodeError) as error:
        raise DamagedError(f"the cache {path} is damaged; delete the file") from error
    except FileNotFoundError:
        raise
    except OSError as error:
        full = "no space is left for" if error.errno in _FULL else "can not use"
        raise JournalError(f"{full} the cache {path}: {error.strerror or error}") from error


def _cache_error(path: Path, error: sqlite3.Error, primary: int) -> JournalError:
    said = f"{error}, {error.sqlite_errorname}"
    if primary in _DAMAGE:
        return DamagedError(f"the cache {path} is damaged ({said}); delete the file")
    return JournalError(f"the cache {path} can not be used ({said})")
