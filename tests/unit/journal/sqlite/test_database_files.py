from pathlib import Path

import pytest

from graphmill.core.errors import JournalError
from graphmill.journal.sqlite import database
from graphmill.journal.sqlite.database import filesystem_of
from graphmill.journal.sqlite.store import SqliteStore

MOUNTS = rb"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /mnt/team rw,relatime shared:5 master:1 - nfs4 server:/export rw,vers=4.2
31 22 0:27 / /mnt/my\040disk rw - cifs //server/share rw
32 22 0:28 / /data rw - fuse.sshfs me@server:/ rw
33 32 0:29 / /data rw - xfs /dev/vdb rw
34 22 0:30 / /mnt/te rw - vboxsf x rw
no line of mounts
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/tmp/a.db", "ext4"),
        ("/mnt/team/x/a.db", "nfs4"),
        ("/mnt/teamwork/a.db", "ext4"),
        ("/mnt/my disk/a.db", "cifs"),
        ("/data/me/a.db", "xfs"),
        ("/mnt/te", "vboxsf"),
    ],
)
def test_a_path_is_on_the_mount_with_the_longest_name_and_of_two_on_the_later(path, kind):
    assert filesystem_of(Path(path), MOUNTS) == kind


def test_where_nothing_is_known_of_mounts_nothing_is_refused(tmp_path, monkeypatch):
    assert filesystem_of(Path("/a"), b"") is None
    assert filesystem_of(Path("/a"), b"\xff\xfe - \n - ext4\n") is None
    monkeypatch.setattr(database, "_MOUNTS", tmp_path / "none")
    SqliteStore(tmp_path / "runs.db").close()


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "9p", "fuse.sshfs", "vboxsf", "afs", "smb3"])
def test_a_file_system_that_can_not_be_trusted_is_refused_with_its_name_and_the_remedy(tmp_path, monkeypatch, kind):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 1 0:1 / / rw - ext4 a rw\n2 1 0:2 / {tmp_path} rw - {kind} a rw\n")
    monkeypatch.setattr(database, "_MOUNTS", mounts)
    with pytest.raises(JournalError, match=rf"\({kind}\).*--journal.*GRAPHMILL_JOURNAL"):
        SqliteStore(tmp_path / "deep" / "runs.db")
    assert not (tmp_path / "deep").exists()
