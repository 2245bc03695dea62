"""Allowances in a small SQLite file beside the store: what is not worth a sync, and must not wait for those that are."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from graphmill.core.errors import JournalError
from graphmill.engine.allowance import Grant, Learned, Wish
from graphmill.engine.pace import CATCH_UP_S, MINUTE_S
from graphmill.journal.sqlite.connection import abandon, connect_writer, writing
from graphmill.journal.sqlite.files import make_file
from graphmill.journal.sqlite.statements import SQL

_BUSY_S = 1.0


class _Row(NamedTuple):
    """Where one account stands, in the time of this machine since it was started."""

    at: float = 0.0
    requests_at: float = 0.0
    tokens_at: float = 0.0
    closed_until: float = 0.0

    def back_by(self, seconds: float) -> _Row:
        """Give the same in the time of a clock that was set back: nothing is known to have passed since."""
        return _Row(*(each - seconds for each in self))

    def given_back(self, requests_s: float, tokens_s: float, now: float) -> _Row:
        """Give what is left when a slice was not used up; time that has passed is not given back."""
        floor = now - CATCH_UP_S
        return self._replace(
            requests_at=min(self.requests_at, max(floor, self.requests_at - requests_s)),
            tokens_at=max(min(floor, self.tokens_at), self.tokens_at - tokens_s),
        )


class SqliteAllowances:
    """Those of the store at ``store``; the file is made when it is first needed. Its clock is the same for all processes of a machine."""

    def __init__(self, store: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = store.with_name(f"{store.name}-limits")
        self._clock = clock
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None
        self._opened_as = (0, 0, 0)

    def take(self, wish: Wish) -> Grant:
        """Give a slice when the one before it is over; else say how long that is."""
        with self._changing() as connection:
            now = self._clock()
            row = self._settled(connection, wish, now)
            given = connection.execute(SQL["slices"], (wish.account,)).fetchall()
            sharers = len({holder for _, _, holder in given} | {wish.holder.encode()})
            opens_at = max(row.requests_at, row.tokens_at, row.closed_until, _room_at(wish, given))
            if opens_at > now:
                self._put(connection, wish.account, row, now)
                return Grant(wait_s=opens_at - now, sharers=sharers)
            return self._given(connection, wish, row, now, sum(tokens for _, tokens, _ in given))._replace(
                sharers=sharers
            )

    def give_back(self, wish: Wish) -> None:
        """Take back what is returned."""
        with self._changing() as connection:
            now = self._clock()
            self._put(connection, wish.account, self._settled(connection, wish, now), now)

    def note(self, learned: Learned) -> None:
        """Keep what a provider has said."""
        with self._changing() as connection:
            now = self._clock()
            row = self._row(connection, learned.account, now)
            closed_until = max(row.closed_until, now + learned.closed_s) if learned.closed_s else row.closed_until
            self._put(connection, learned.account, row._replace(closed_until=closed_until), now)
            connection.execute(
                SQL["note_learned"], (learned.requests_per_minute, learned.tokens_per_minute, learned.account)
            )

    def learned(self) -> list[Learned]:
        """Give what was kept; nothing where there is no file."""
        if not self._path.exists():
            return []
        with self._changing() as connection:
            now, rows = self._clock(), connection.execute(SQL["learned"]).fetchall()
            return [
                Learned(account.decode(), requests, tokens, max(0.0, until - now))
                for account, requests, tokens, until in rows
            ]

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock:
                connection = self._open_one()
                with writing(connection, busy_s=_BUSY_S):
                    yield connection
        except (sqlite3.Error, OSError) as error:
            raise JournalError(
                f"{self._path}, by which runs share limits, can not be used ({error}); it may be deleted"
            ) from error

    def _open_one(self) -> sqlite3.Connection:
        """Give the connection; a new one where the file is not the one that was opened, or this process not the one that opened it."""
        if self._connection is not None and self._opened_as == self._identity():
            return self._connection
        if self._connection is not None:
            abandon(self._connection) if self._opened_as[0] != os.getpid() else self._connection.close()
            self._connection = None
        try:
            self._connection = self._opened()
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise
            self._path.replace(f"{self._path}.damaged")  # it holds a minute's worth of nothing but counts
            self._connection = self._opened()
        self._opened_as = self._identity()
        return self._connection

    def _identity(self) -> tuple[int, int, int]:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return os.getpid(), 0, 0
        return os.getpid(), found.st_dev, found.st_ino

    def _opened(self) -> sqlite3.Connection:
        make_file(self._path)
        connection = connect_writer(self._path, busy_s=_BUSY_S)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(
                "PRAGMA synchronous = NORMAL"
            )  # a crash of the machine may cost the last minute, and nothing else
            with writing(connection, busy_s=_BUSY_S):
                connection.execute(SQL["make_allowances"])
                connection.execute(SQL["make_slices"])
        except BaseException:
            connection.close()
            raise
        return connection

    def _settled(self, connection: sqlite3.Connection, wish: Wish, now: float) -> _Row:
        """Read where an account stands once what is returned is back; each return counts once, and only while its slice is known."""
        row = self._row(connection, wish.account, now)
        (last,) = connection.execute(SQL["last_slice"], (wish.account,)).fetchone()
        for number, requests, tokens in wish.returns:
            if connection.execute(SQL["return_tokens"], (tokens, number, wish.account, wish.holder)).rowcount:
                is_last = (
                    number == last
                )  # the time of requests that were not made is only free while nobody has taken what follows
                row = row.given_back(requests * wish.request_s if is_last else 0.0, tokens * wish.token_s, now)
        connection.execute(SQL["forget_slices"], (wish.account, now - MINUTE_S))
        return row

    def _row(self, connection: sqlite3.Connection, account: str, now: float) -> _Row:
        found = connection.execute(SQL["allowance"], (account,)).fetchone()
        row = _Row() if found is None else _Row(*found)
        if row.at <= now:
            return row
        connection.execute(SQL["shift_slices"], (row.at - now, account))
        return row.back_by(row.at - now)

    def _put(self, connection: sqlite3.Connection, account: str, row: _Row, now: float) -> None:
        connection.execute(SQL["put_allowance"], (account, now, *row[1:]))

    def _given(self, connection: sqlite3.Connection, wish: Wish, row: _Row, now: float, used: int) -> Grant:
        requests = max(1, int(wish.slice_s / wish.request_s)) if wish.request_s else 0
        tokens = max(wish.weight, int(wish.slice_s / wish.token_s)) if wish.token_s else 0
        if wish.tokens_per_minute is not None:
            tokens = min(tokens, wish.tokens_per_minute - used)
        floor = now - CATCH_UP_S
        taken = row._replace(
            requests_at=max(row.requests_at, floor) + requests * wish.request_s,
            tokens_at=max(row.tokens_at, floor) + tokens * wish.token_s,
        )
        self._put(connection, wish.account, taken, now)
        lasts_s = requests * wish.request_s if requests else max(wish.slice_s, tokens * wish.token_s)
        number = connection.execute(SQL["add_slice"], (wish.account, wish.holder, now + lasts_s, tokens)).lastrowid or 0
        return Grant(slice=number, requests=requests or inf, tokens=tokens if wish.token_s else inf, lasts_s=lasts_s)


def _room_at(wish: Wish, given: list[tuple[float, int, bytes]]) -> float:
    """Tell when so many tokens more fit into a minute."""
    if wish.tokens_per_minute is None:
        return 0.0
    over, at = sum(tokens for _, tokens, _ in given) + wish.weight - wish.tokens_per_minute, 0.0
    for until, tokens, _ in given:
        if over <= 0:
            break
        over -= tokens
        at = until + MINUTE_S
    return at
