"""The files of a store: on a trusted file system, private to their owner, and watched for replacement."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path, PurePath

from graphmill.core.errors import JournalError
from graphmill.journal.sqlite.faults import emptied, gone

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
