"""What file nodes do with files: read, replace, append, copy and move.

Only regular files are opened. A file is replaced by renaming a finished one, so readers see the old content or the new.
"""

from __future__ import annotations

import fcntl
import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EEXIST, EMLINK, ENOSYS, ENOTDIR, ENOTSUP, EOPNOTSUPP, EPERM, EXDEV
from pathlib import Path
from secrets import token_hex
from stat import S_IMODE, S_ISDIR, S_ISLNK, S_ISREG

from graphmill.nodes.files.paths import FilePath, file_errors

_CHUNK_BYTES = 2**20
_WRITE_BYTES = 256 * 1024
_NO_HARD_LINKS = frozenset({EPERM, EMLINK, ENOSYS, ENOTSUP, EOPNOTSUPP})


def read_file(path: FilePath, max_bytes: int) -> bytes:
    """Read a whole file; Permanent if it is larger."""
    chunks, left = [], max_bytes + 1
    with file_errors(path), opened(path, os.O_RDONLY) as file:
        size = os.fstat(file).st_size
        while size <= max_bytes and left and (chunk := os.read(file, min(left, _CHUNK_BYTES))):
            chunks.append(chunk)
            left -= len(chunk)
    if size > max_bytes or not left:
        raise path.refusal(f"the file has more than {max_bytes:,} bytes; raise `max_bytes` to read it")
    return b"".join(chunks)


def append(path: FilePath, chunks_at: Callable[[int], Iterable[bytes]], *, mode: int | None) -> int:
    """Write at the end of a file of this size; a failed write is undone. Return how many bytes were written."""
    is_new = file_status(path) is None
    with opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as file:
        if is_new and mode is not None:
            os.fchmod(file, mode)
        with _locked(file):
            end = os.fstat(file).st_size
            try:
                size = write_all(file, chunks_at(end))
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(file, end)
                raise
        os.fsync(file)
    if is_new:
        sync_folder(path)
    return size


@contextmanager
def _locked(file: int) -> Iterator[None]:
    """Make others that append to the file wait, in any process; where the file system has no locks, go without."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)


@contextmanager
def replacement(path: FilePath, *, mode: int | None = None, overwrite: bool = True) -> Iterator[int]:
    """Yield the descriptor of a new file beside a path; afterwards it is synced and put in its place.

    Without a mode, it gets that of the file it replaces, or the usual one.
    """
    found = file_status(path)
    if found is not None:
        _require_writable(path)
        mode = S_IMODE(found.st_mode) & 0o777 if mode is None else mode
    draft = path.real.with_name(f".graphmill-{token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    file = os.open(draft, flags, 0o666 if mode is None else 0o600)
    try:
        if mode is not None:
            os.fchmod(file, mode)
        yield file
        os.fsync(file)
        if overwrite:
            draft.replace(path.real)
        else:
            _rename_new(draft, path.real)
        sync_folder(path)
    finally:
        os.close(file)
        with suppress(OSError):
            draft.unlink()


def copy_bytes(file: int, source: FilePath, dest: FilePath, *, overwrite: bool) -> int:
    """Copy an open file; an attempt that was killed after its work finds the same bytes there, and is done."""
    status = os.fstat(file)
    if not overwrite and file_status(dest) is not None:
        if _has_same_bytes(file, source, dest):
            return status.st_size
        raise FileExistsError(EEXIST, os.strerror(EEXIST))
    with replacement(dest, mode=status.st_mode & 0o777, overwrite=overwrite) as copy:
        size = write_all(copy, _chunks_of(file, source))
        os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
    return size


def _has_same_bytes(file: int, source: FilePath, dest: FilePath) -> bool:
    with opened(dest, os.O_RDONLY) as other:
        if os.fstat(other).st_size != os.fstat(file).st_size:
            return False
        pairs = zip(_chunks_of(file, source), _chunks_of(other, dest), strict=False)
        return all(one == two for one, two in pairs)


def _chunks_of(file: int, path: FilePath) -> Iterator[bytes]:
    offset = 0
    while True:
        with file_errors(path):
            chunk = os.pread(file, _CHUNK_BYTES, offset)
        if not chunk:
            return
        offset += len(chunk)
        yield chunk


def move(source: FilePath, dest: FilePath, *, overwrite: bool) -> None:
    """Rename a file or a link; to another disk, copy the file and delete it."""
    here, there = source.real.lstat(), status_of(dest)
    if there is not None:
        require_file_or_link(dest, there)
    try:
        if there is not None and os.path.samestat(here, there):
            _leave_one_name(source, dest)
        elif overwrite:
            source.real.replace(dest.real)
        else:
            _rename_new(source.real, dest.real)
    except OSError as error:
        if error.errno != EXDEV:
            raise
        if S_ISLNK(here.st_mode):
            raise source.refusal("a link cannot be moved to another disk; move the file it leads to") from error
        with file_errors(source), opened(source, os.O_RDONLY) as file, file_errors(dest):
            copy_bytes(file, source, dest, overwrite=overwrite)
        source.real.unlink()


def _leave_one_name(source: FilePath, dest: FilePath) -> None:
    """Finish a move that was killed half-way; names that differ only in case may be the same name."""
    if not source.real.parent.samefile(dest.real.parent) or _folded(source.real.name) != _folded(dest.real.name):
        source.real.unlink()
    elif source.real != dest.real:
        source.real.rename(dest.real)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _rename_new(path: Path, target: Path) -> None:
    """Rename a file in one step, unless the new name exists: FileExistsError."""
    try:
        os.link(path, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
    else:
        path.unlink()
        return
    if os.path.lexists(target):  # the file system has no hard links
        raise FileExistsError(EEXIST, os.strerror(EEXIST))
    path.rename(target)


def status_of(path: FilePath) -> os.stat_result | None:
    """Return the status of what is there, of a link the link's; None if nothing is."""
    try:
        return path.real.lstat()
    except FileNotFoundError:
        return None


def file_status(path: FilePath) -> os.stat_result | None:
    """Return the status of the file; None if there is nothing, Permanent if it is not a regular file."""
    found = status_of(path)
    if found is not None:
        _require_file(path, found)
    return found


def _require_file(path: FilePath, found: os.stat_result) -> None:
    if S_ISDIR(found.st_mode):
        raise path.refusal("this is a folder; name a file in it")
    if S_ISLNK(found.st_mode):
        raise path.refusal("symbolic links lead in a circle")
    if not S_ISREG(found.st_mode):
        raise path.refusal("this is not a regular file but a pipe, a device or the like")


def require_file_or_link(path: FilePath, found: os.stat_result) -> None:
    """Refuse folders, pipes and devices."""
    if not S_ISLNK(found.st_mode):
        _require_file(path, found)


def _require_writable(path: FilePath) -> None:
    """Refuse to replace a read-only file, though its folder would allow it."""
    if not os.access(path.real, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise path.refusal("the file is read-only")


@contextmanager
def opened(path: FilePath, flags: int) -> Iterator[int]:
    """Open a regular file; a pipe or a device is not even opened."""
    file_status(path)
    descriptor = os.open(path.real, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o666)
    try:
        _require_file(path, os.fstat(descriptor))
        yield descriptor
    finally:
        os.close(descriptor)


def create_folders(path: FilePath) -> None:
    """Create the folders that are missing before a file."""
    try:
        path.real.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(ENOTDIR, os.strerror(ENOTDIR)) from error


def sync_folder(path: FilePath) -> None:
    """Make sure that new names survive a crash."""
    with suppress(OSError):  # some file systems cannot sync folders
        folder = os.open(path.real.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_all(file: int, chunks: Iterable[bytes]) -> int:
    """Write all of it in few calls; return how many bytes."""
    size, waiting = 0, bytearray()
    for chunk in chunks:
        waiting += chunk
        if len(waiting) >= _WRITE_BYTES:
            size += _write(file, waiting)
            waiting = bytearray()
    return size + _write(file, waiting)


def _write(file: int, data: bytearray) -> int:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
    return len(data)
