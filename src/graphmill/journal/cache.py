"""The cache of model answers: a database beside the journal that may be deleted, and the thread that serves it."""

from __future__ import annotations

import asyncio
import errno
import logging
import sqlite3
import time
import zlib
from asyncio import Future
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from marshal import dumps
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import NamedTuple

from graphmill.core.errors import DamagedError, JournalError, describe_error
from graphmill.engine.attempts.threads import Mailbox
from graphmill.journal.sqlite.database import connect, make_file, make_folder, require_base, write_alone, writing
from graphmill.journal.sqlite.rows import PACKING, bytes_of, compressed, decompressed, text_of
from graphmill.journal.sqlite.statements import SQL

log = logging.getLogger("graphmill")

_CLOSE_S = 5.0
_MOST_AT_ONCE = 500
_MOST_WAITING = 2000
_warned: set[Path] = set()

Wanted = tuple[bytes, "Future[bytes | None]"]


class AnswerCache:
    """Serves one cache to one run. Whatever is wrong with the file is logged once, and calls continue without it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._letters: SimpleQueue[Wanted | CachedAnswer | None] = SimpleQueue()
        self._mailbox = Mailbox(asyncio.get_running_loop(), _give)
        self._file: CacheFile | None = None
        self._is_writable = True
        self._thread = Thread(target=self._work, name="graphmill-cache", daemon=True)
        self._thread.start()

    async def find(self, key: bytes) -> bytes | None:
        """Return the answer with this key."""
        found: Future[bytes | None] = asyncio.get_running_loop().create_future()
        self._letters.put((key, found))
        return await found

    def keep(self, key: bytes, model: str, body: bytes) -> None:
        """Keep an answer, some time soon; where a disk cannot keep up, none."""
        if self._letters.qsize() < _MOST_WAITING:
            self._letters.put(CachedAnswer(key, model, body))

    async def close(self) -> None:
        """Put away what is left; a disk that does not answer is left alone."""
        self._letters.put(None)
        await asyncio.to_thread(self._thread.join, _CLOSE_S)

    def _work(self) -> None:
        try:
            self._file = CacheFile(self._path, clock=time.time)
        except Exception as error:  # noqa: BLE001  whoever waits for an answer must get one
            self._warn(error)
        while self._serve([self._letters.get(), *self._more()]):
            pass
        if self._file is not None:
            self._file.close()

    def _more(self) -> Iterable[Wanted | CachedAnswer | None]:
        with suppress(Empty):
            for _ in range(_MOST_AT_ONCE):
                yield self._letters.get_nowait()

    def _serve(self, letters: list[Wanted | CachedAnswer | None]) -> bool:
        """Store first, so that later questions find it; return whether more will come."""
        self._put_away([letter for letter in letters if isinstance(letter, CachedAnswer)])
        for letter in letters:
            if letter is not None and not isinstance(letter, CachedAnswer):
                self._mailbox.post((letter[1], self._found(letter[0])))
        return None not in letters

    def _put_away(self, answers: list[CachedAnswer]) -> None:
        if answers and self._file is not None and self._is_writable:
            try:
                self._file.keep(answers)
            except Exception as error:  # noqa: BLE001
                self._is_writable = False
                self._fail(error)

    def _found(self, key: bytes) -> bytes | None:
        if self._file is None:
            return None
        try:
            return self._file.find(key)
        except Exception as error:  # noqa: BLE001
            self._fail(error, is_useless=True)
            return None

    def _fail(self, error: Exception, *, is_useless: bool = False) -> None:
        """Do without a file that is damaged or cannot be read; one that can only not be written is still read."""
        self._warn(error)
        if self._file is not None and (is_useless or isinstance(error, DamagedError)):
            self._file.close()
            self._file = None

    def _warn(self, error: Exception) -> None:
        if self._path not in _warned:
            _warned.add(self._path)
            log.warning(
                "answers are not cached: %s; calls continue without the cache",
                error if isinstance(error, JournalError) else describe_error(error),
            )


def _give(letter: tuple[Future[bytes | None], bytes | None]) -> None:
    future, body = letter
    if not future.done():
        future.set_result(body)


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


class CachedAnswer(NamedTuple):
    """An answer to store: ``body`` is JSON, ``model`` the name to show."""

    key: bytes
    model: str
    body: bytes


class CacheHolding(NamedTuple):
    """What the cache holds of one model; ``bytes`` is the size of the answers, as stored."""

    model: str
    answers: int
    bytes: int
    oldest_at: float
    used_at: float


class CacheFile:
    """An open cache, for one thread; JournalError and DamagedError say what is wrong with it.

    Without ``create`` a missing file is a FileNotFoundError.
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
        """Return the body that goes by this key; one that is not what was written is none."""
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

    def keep(self, answers: Iterable[CachedAnswer]) -> None:
        """Keep answers, all or, beside somebody who writes without a pause, none."""
        now = self._clock() + 0.0
        rows = [_row(answer, now) for answer in answers]
        with _translated(self.path), suppress(_BusyError), _not_busy(), writing(self._connection, busy_s=_BUSY_S):
            self._connection.executemany(SQL["cache_keep"], rows)

    def holdings(self) -> list[CacheHolding]:
        """Return what the cache holds, by model."""
        with _translated(self.path):
            return [
                CacheHolding(text_of(model), *rest) for model, *rest in self._connection.execute(SQL["cache_models"])
            ]

    def unused(self, for_s: float | None = None) -> tuple[int, int]:
        """Count the answers that nobody has used for so long, or all, and their bytes."""
        with _translated(self.path):
            count, size = self._connection.execute(SQL["cache_unused"], (self._before(for_s),)).fetchone()
            return count, size

    def prune(self, for_s: float | None = None) -> int:
        """Delete the answers unused for so long, or all, in small steps, since others write; return how many."""
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
        """Close it."""
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
        # The last answers may be lost with the power; the file is not.
        connection.execute("PRAGMA synchronous = NORMAL")
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
            raise JournalError(f"{self.path} is not a cache of Graphmill; move it away")
        if version > _VERSION:
            raise JournalError(
                f"the cache {self.path} is of a later version of Graphmill; use that, or delete the file"
            )
        return True


def _row(answer: CachedAnswer, now: float) -> tuple[object, ...]:
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
        full = "no space is left for" if error.errno in _FULL else "cannot use"
        raise JournalError(f"{full} the cache {path}: {error.strerror or error}") from error


def _cache_error(path: Path, error: sqlite3.Error, primary: int) -> JournalError:
    said = f"{error}, {error.sqlite_errorname}"
    if primary in _DAMAGE:
        return DamagedError(f"the cache {path} is damaged ({said}); delete the file")
    return JournalError(f"the cache {path} cannot be used ({said})")
