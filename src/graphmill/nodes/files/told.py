"""What the system says of a file, in words that name the param and the remedy."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from graphmill.core.errors import Permanent, Transient
from graphmill.nodes.files.route import Route

_WORDS = {
    errno.ENOENT: "there is no such file, or no such folder before it",
    errno.ENOTDIR: "a name before the last is a file, not a folder",
    errno.EISDIR: "this is a folder; name a file in it",
    errno.EACCES: "not permitted; check who may read and write the file and its folder",
    errno.EPERM: "not permitted; check who may read and write the file and its folder",
    errno.EROFS: "the file system is read-only",
    errno.EEXIST: "there is such a file already; `overwrite: true` replaces it",
    errno.ENAMETOOLONG: "the name is longer than the file system takes; shorten it",
    errno.ELOOP: "links lead in a circle, or one was put here meanwhile",
    errno.EFBIG: "the file would be larger than the system permits",
    errno.EINVAL: "the file system does not take this name",
    errno.EILSEQ: "the file system does not take this name",
    errno.ENXIO: "this is no regular file; file nodes leave such alone",
}
_MAY_PASS = {
    errno.ENOSPC: "no space left on the disk",
    errno.EDQUOT: "the disk quota is used up",
    errno.EMFILE: "too many files are open; lower the concurrency or raise `ulimit -n`",
    errno.ENFILE: "too many files are open on this machine",
}


@contextmanager
def told(route: Route) -> Iterator[None]:
    """Tell an error of the system as a failure of the param: for good where the same call would fail again."""
    try:
        yield
    except OSError as error:
        about = f"{route.param} {route.shown}"
        if error.errno in _WORDS:
            raise Permanent(f"{about}: {_WORDS[error.errno]}") from error
        said = _MAY_PASS.get(error.errno or 0) or error.strerror or os.strerror(error.errno or errno.EIO)
        raise Transient(f"{about}: {said}") from error
