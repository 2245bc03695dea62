"""One SQLite database: its files, how it is created and checked, its connections, and the transactions on them."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path, PurePath
from threading import Lock
from typing import Any
from urllib.parse import quote

from graphmill.core.errors import JournalError
from graphmill.core.version import __version__
from graphmill.journal.sqlite.faults import emptied, gone, translate_errors
from graphmill.journal.sqlite.owners import let_go, owners_of
from graphmill.journal.sqlite.run_row import StoredRun, verify_counts
from graphmill.journal.sqlite.statements import SQL

VERSION = 10  # of the format; raise it with every change to what is stored
APPLICATION_ID = 1198344812  # "GmJl", at the place where SQLite files say whose they are

_MAX_IDLE = 4
_POLL_S = 0.001
_SETTINGS = (
    "PRAGMA cache_size = -4096",  # kB for each connection, a run has a few
    "PRAGMA synchronous = FULL",
    "PRAGMA fullfsync = ON",  # on macOS fsync alone leaves data in the disk's cache
    "PRAGMA cell_size_check = ON",
    "PRAGMA trusted_schema = OFF",
    "PRAGMA mmap_size = 0",  # an I/O error in mapped memory kills the process
)
_abandoned: list[sqlite3.Connection] = []  # inherited by a forked child, where neither use nor close is safe


class Database:
    """A database that exists and has the present format; ``name`` is its path.

    One that is not ``is_durable`` is never synced: it is worth nothing once the process is gone.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float], busy_s: float, is_durable: bool = True) -> None:
        self.path = path
        self.name = str(path)
        self.clock = clock
        self.busy_s = busy_s
        self._is_durable = is_durable
        self._verified: set[tuple[int, int]] = set()
        self._is_closed = False
        with translate_errors(self.name):
            require_trusted(path)
            make_folder(path.parent)
            lock_file = path.with_name(f"{path.name}-owners")
            make_file(lock_file)
            self.owners = owners_of(lock_file)
            try:
                with self.owners.alone(busy_s):
                    require_base(path)
                    make_file(path)
                    first = self._prepared()
            except BaseException:
                let_go(self.owners)
                raise
        # It stays open: closing the last connection empties the log into the database, which takes syncs.
        self._readers = ReaderPool(self.connect, name=self.name, first=first)

    def connect(self) -> sqlite3.Connection:
        """Open a connection, to be closed by the caller."""
        connection = connect(self.path, busy_s=self.busy_s)
        if not self._is_durable:
            connection.execute("PRAGMA synchronous = OFF")
        return connection

    def connect_writer(self) -> sqlite3.Connection:
        """Open a connection for ``writing``, which does the waiting."""
        connection = self.connect()
        connection.execute("PRAGMA busy_timeout = 0")
        return connection

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Read one state of the database."""
        with translate_errors(self.name), self._readers.snapshot() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Change the database, entirely or not at all, on a connection for just this."""
        with (
            translate_errors(self.name),
            closing(self.connect_writer()) as connection,
            writing(connection, busy_s=self.busy_s),
        ):
            yield connection

    def note_verified(self, run: StoredRun) -> None:
        """Skip the check until the run's next owner: this one has made it."""
        self._verified.add((run.number, run.epoch))

    def verify_once(self, connection: sqlite3.Connection, run: StoredRun) -> None:
        """Check for missing rows before the first answer about items of a run, once for each of its owners."""
        if (run.number, run.epoch) not in self._verified:
            verify_counts(connection, run, self.name)
            self._verified.add((run.number, run.epoch))

    def close(self) -> None:
        """Close all connections."""
        if not self._is_closed:
            self._is_closed = True
            self._readers.close()
            let_go(self.owners)

    def _prepared(self) -> sqlite3.Connection:
        connection = self.connect()
        try:
            prepare(connection, self.name)
        except BaseException:
            connection.close()
            raise
        return connection


class ReaderPool:
    """Read-only connections, lent to any thread for the length of a block; ``first`` is open already."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], *, name: str, first: sqlite3.Connection) -> None:
        self._connect = connect
        self._name = name
        self._idle = [_read_only(first)]
        self._lock = Lock()
        self._pid = os.getpid()
        self._is_closed = False

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection that sees one state of the database throughout."""
        connection = self._borrow()
        try:
            with reading(connection):
                yield connection
        finally:
            self._give_back(connection)

    def close(self) -> None:
        """Close all; one that is lent is closed when it comes back."""
        self._abandon_inherited()
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _abandon_inherited(self) -> None:
        if self._pid != os.getpid():
            self._pid, self._lock = os.getpid(), Lock()
            _abandoned.extend(self._idle)
            self._idle = []

    def _borrow(self) -> sqlite3.Connection:
        self._abandon_inherited()
        with self._lock:
            if self._is_closed:
                raise JournalError(f"the journal {self._name} is closed")
            if self._idle:
                return self._idle.pop()
        return _read_only(self._connect())

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._is_closed and len(self._idle) < _MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()


def prepare(connection: sqlite3.Connection, name: str) -> None:
    """Create the tables in an empty database; JournalError for one of another format, or that is not ours."""
    version = _value(connection, "PRAGMA user_version")
    if version == 0 and _value(connection, "SELECT count(*) FROM sqlite_master"):
        raise JournalError(f"{name} is a database, but not a Graphmill journal; name another file")
    if version and _value(connection, "PRAGMA application_id") != APPLICATION_ID:
        raise JournalError(
            f"{name} is not a Graphmill journal, or its header is damaged; name another file or restore a backup"
        )
    if version not in (0, VERSION):
        raise _other_version(connection, name, version)
    if version == 0:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # cannot be changed later
    mode = _value(connection, "PRAGMA journal_mode = WAL")
    if mode != b"wal":
        raise JournalError(f"the journal {name} cannot keep a write-ahead log (mode {mode!r}); put it on a local disk")
    if version == 0:
        with writing(connection, busy_s=0.0):
            for statement in split_script(SQL["schema"]):
                connection.execute(statement)
            connection.execute(SQL["put_meta"], ("graphmill", __version__))
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")


def split_script(script: str) -> Iterator[str]:
    """Split a script into its statements; sqlite3's own executescript would commit in between."""
    statement = ""
    for line in f"{script};".splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def connect(path: Path, *, busy_s: float) -> sqlite3.Connection:
    """Open a database that exists; transactions are started by hand, and text is returned as bytes."""
    address = f"file:{quote(os.fsencode(path))}?mode=rw"  # never created again if it was deleted
    connection = sqlite3.connect(address, uri=True, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        connection.text_factory = bytes
        for setting in _SETTINGS:
            connection.execute(setting)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def reading(connection: sqlite3.Connection) -> Iterator[None]:
    """See one state of the database throughout."""
    connection.execute("BEGIN")
    with _ended(connection):
        yield


@contextmanager
def writing(connection: sqlite3.Connection, *, busy_s: float) -> Iterator[None]:
    """Write all that is written within, or nothing of it, once no other writes."""
    write_alone(connection, "BEGIN IMMEDIATE", (), busy_s=busy_s)
    with _ended(connection):
        yield


def write_alone(
    connection: sqlite3.Connection, statement: str, values: Sequence[object], *, busy_s: float
) -> sqlite3.Cursor:
    """Execute a statement that writes, once no other connection writes.

    SQLite itself tries only ten times a second; beside a run that commits without a pause it may never get its turn.
    """
    deadline = time.monotonic() + busy_s
    while True:
        try:
            return connection.execute(statement, values)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(_POLL_S)


@contextmanager
def _ended(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise


def _read_only(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.execute("PRAGMA query_only = ON")
    return connection


def _other_version(connection: sqlite3.Connection, name: str, version: int) -> JournalError:
    try:
        written_by = _value(connection, "SELECT value FROM meta WHERE name = 'graphmill'").decode()
    except (sqlite3.Error, TypeError, AttributeError, UnicodeDecodeError):
        written_by = "unknown"
    return JournalError(
        f"the journal {name} has format {version}, written by Graphmill {written_by}, and Graphmill {__version__} "
        f"reads only format {VERSION}; use the version that wrote it, or start a new journal"
    )


def _value(connection: sqlite3.Connection, statement: str) -> Any:
    return connection.execute(statement).fetchone()[0]


# -- its files: on a trusted file system, private to their owner, and watched for replacement

_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")  # how a write-ahead log begins
# File systems on which SQLite's locks or its shared memory cannot be trusted.
_UNTRUSTED = frozenset(
    """
    9p afs ceph cifs coda davfs drvfs gfs gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2 prl_fs smb2 smb3 smbfs
    vboxsf vmhgfs wslfs fuse.ceph fuse.cifs fuse.davfs fuse.gcsfuse fuse.glusterfs fuse.goofys fuse.grpcfuse
    fuse.juicefs fuse.mountpoint-s3 fuse.osxfs fuse.rclone fuse.s3fs fuse.smbnetfs fuse.sshfs fuse.vmhgfs-fuse
    """.split()  # noqa: SIM905
)
_ESCAPE = re.compile(rb"\\([0-7]{3})")
_MOUNTS = Path("/proc/self/mountinfo")


def make_folder(folder: Path) -> None:
    """Make a folder that nobody else may look into, and that Git leaves out; one that is there stays as it is."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    if make_private(folder):
        make_file(folder / ".gitignore")
        (folder / ".gitignore").write_text("*\n")


def make_private(folder: Path) -> bool:
    """Make a folder that nobody else may look into; return whether it was not there."""
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
    """Raise DamagedError for an empty database beside a log: SQLite would think it new, and delete the log."""
    log = Path(f"{path}-wal")
    with suppress(FileNotFoundError):
        if path.stat().st_size == 0 and log.stat().st_size > 0:
            raise emptied(str(path))


class FileWatch:
    """Notices that a database or the files beside it were deleted, replaced or cut under an open connection."""

    def __init__(self, path: Path) -> None:
        self._name = str(path)
        self._log = f"{path}-wal"
        self._paths = (str(path), self._log, f"{path}-shm", f"{path}-owners")
        self._identities = [self._identity(name) for name in self._paths]

    def glance(self) -> None:
        """Raise JournalError if the log is gone; done at every commit.

        It does not stat: some systems keep finer times of a file that was asked for them, and then each commit costs
        half as much again.
        """
        if not os.access(self._log, os.F_OK):
            raise gone(self._name)

    def look(self) -> None:
        """Raise JournalError if a file was replaced, or the log begins with a hole: it was cut, but not by SQLite."""
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


def require_trusted(path: Path) -> None:
    """Refuse a place whose file system is known to break a journal; one that is not known is trusted."""
    try:
        mounts = _MOUNTS.read_bytes()
    except OSError:
        return
    kind = filesystem_of(path, mounts)
    if kind in _UNTRUSTED:
        raise JournalError(
            f"{path} is on a file system ({kind}) whose locks a journal cannot trust; "
            "put it on a local disk: --journal PATH or GRAPHMILL_JOURNAL=PATH"
        )


def filesystem_of(path: PurePath, mounts: bytes) -> str | None:
    """Return the type of the file system that an absolute path is on, from the text of /proc/self/mountinfo."""
    best, found = -1, None
    for line in mounts.splitlines():
        before, mark, after = line.partition(b" - ")
        fields, kinds = before.split(b" "), after.split(b" ")
        if not mark or len(fields) < 5:
            continue
        point = PurePath(os.fsdecode(_ESCAPE.sub(lambda octal: bytes([int(octal[1], 8) & 0xFF]), fields[4])))
        if path.is_relative_to(point) and len(point.parts) >= best:  # of two on one point the later hides the other
            best, found = len(point.parts), os.fsdecode(kinds[0])
    return found
