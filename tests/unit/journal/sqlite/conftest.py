import subprocess

import pytest

from graphmill.journal.sqlite.store import SqliteStore
from support.remains import nothing_left


@pytest.fixture(autouse=True)
def _tidy():
    with nothing_left():
        yield


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal" / "runs.db"


@pytest.fixture
def store(path, _tidy):
    store = SqliteStore(path)
    yield store
    store.close()


@pytest.fixture
def ledger(store):
    ledger = store.take(store.create("r", {"workflow": "w"}).id)
    yield ledger
    ledger.release()


@pytest.fixture
def small_disk(tmp_path):
    """A disk of two megabytes; needs the right to mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", folder], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("a small disk can be mounted by root only")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)
