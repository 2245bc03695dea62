import pytest

from graphmill.journal.sqlite.store import SqliteStore


class Clock:
    """A wall clock that a test sets."""

    def __init__(self):
        self.now = 1_800_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(tmp_path, clock):
    store = SqliteStore(tmp_path / "runs.db", clock=clock)
    yield store
    store.close()


@pytest.fixture
def taken(store):
    """A new run and its ledger."""
    ledger = store.take(store.create("r", {}).id)
    yield ledger
    ledger.release()
