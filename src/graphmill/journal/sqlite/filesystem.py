"""File systems on which SQLite's locks or its shared memory can not be trusted."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePath

from graphmill.core.errors import JournalError

_UNTRUSTED = frozenset(
    {
        *(
            "9p",
            "afs",
            "ceph",
            "cifs",
            "coda",
            "davfs",
            "drvfs",
            "gfs",
            "gfs2",
            "glusterfs",
            "gpfs",
            "lustre",
            "ncpfs",
            "nfs",
            "nfs4",
            "ocfs2",
        ),
        *(
            "prl_fs",
            "smb2",
            "smb3",
            "smbfs",
            "vboxsf",
            "vmhgfs",
            "wslfs",
            "fuse.ceph",
            "fuse.cifs",
            "fuse.davfs",
            "fuse.gcsfuse",
            "fuse.glusterfs",
        ),
        *(
            "fuse.goofys",
            "fuse.grpcfuse",
            "fuse.juicefs",
            "fuse.mountpoint-s3",
            "fuse.osxfs",
            "fuse.rclone",
            "fuse.s3fs",
            "fuse.smbnetfs",
        ),
        *("fuse.sshfs", "fuse.vmhgfs-fuse"),
    }
)
_ESCAPE = re.compile(rb"\\([0-7]{3})")
_MOUNTS = Path("/proc/self/mountinfo")


def require_trusted(path: Path) -> None:
    """Refuse a place whose file system is known to break a journal; one that is not known is trusted."""
    try:
        mounts = _MOUNTS.read_bytes()
    except OSError:
        return
    kind = filesystem_of(path, mounts)
    if kind in _UNTRUSTED:
        raise JournalError(
            f"{path} is on a file system ({kind}) whose locks a journal can not trust; "
            "put it on a local disk: --journal PATH or GRAPHMILL_JOURNAL=PATH"
        )


def filesystem_of(path: PurePath, mounts: bytes) -> str | None:
    """Tell the type of the file system that an absolute path is on, from the text of /proc/self/mountinfo."""
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
