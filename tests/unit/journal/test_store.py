import gc
import os
from contextlib import closing

import pytest

from graphmill.core.errors import UnknownRunError, UsageError
from graphmill.journal.store import open_store


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRAPHMILL_JOURNAL", raising=False)


def made(tmp_path, url, **options):
    """Open a journal with a run in it; tell where it is."""
    store = open_store(url, **options)
    store.create("a", {})
    store.close()
    return sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.db"))


@pytest.mark.parametrize("url", ["my.db", "sqlite:///my.db", "sqlite:////{here}/my.db", "{here}/my.db", "./my.db"])
def test_a_path_and_a_url_name_the_same_file(tmp_path, url):
    assert made(tmp_path, url.format(here=tmp_path)) == ["my.db"]


def test_a_path_object_is_always_a_path(tmp_path):
    assert made(tmp_path, tmp_path / "sqlite:x.db") == ["sqlite:x.db"]


def test_a_colon_alone_makes_no_url(tmp_path):
    assert made(tmp_path, "runs-12:30.db") == ["runs-12:30.db"]


def test_without_a_name_it_is_the_environment_s_else_the_one_beside_the_project(tmp_path, monkeypatch):
    assert made(tmp_path, None) == [".graphmill/runs.db"]
    monkeypatch.setenv("GRAPHMILL_JOURNAL", "")
    open_store(None, create=False).close()
    monkeypatch.setenv("GRAPHMILL_JOURNAL", "sqlite:///other.db")
    assert made(tmp_path, None) == [".graphmill/runs.db", "other.db"]


def test_a_journal_in_memory_is_a_new_one_each_time_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first, second = open_store("memory:"), open_store("memory:", create=False)
    first.create("a", {})
    assert second.archive.runs() == []
    assert first.file is None
    first.close()
    del second  # one that is forgotten is closed
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_leaves_its_parent_s_journal_in_memory_alone():
    with closing(open_store("memory:")) as store:
        store.create("a", {})
        child = os.fork()
        if not child:
            store.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert [run.id for run in store.archive.runs()] == ["a"]


def test_one_that_is_not_there_is_not_made_by_reading(tmp_path):
    for url in (None, "x/my.db", "sqlite:///my.db"):
        with pytest.raises(UnknownRunError, match="no runs here yet"):
            open_store(url, create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://host/db", "comes later"),
        ("postgres://host/db", "comes later"),
        ("mysql://host/db", "no journal 'mysql://host/db'"),
        ("sqllite:///a.db", "did you mean 'sqlite'"),
        ("sqlite://a.db", "write sqlite:///path"),
        ("sqlite:a.db", "write sqlite:///path"),
        ("sqlite:///", "write sqlite:///path"),
        ("memory://", "write a path"),
        ("https://host/a.db", "write a path"),
        (".", "is a folder"),
        ("a" * 300, "cannot open"),
    ],
)
@pytest.mark.parametrize("create", [True, False])
def test_what_can_not_be_meant_is_refused_with_the_remedy(tmp_path, url, message, create):
    with pytest.raises(UsageError, match=message):
        open_store(url, create=create)
    assert list(tmp_path.iterdir()) == []


def test_what_is_neither_a_path_nor_a_url_makes_no_file(tmp_path):
    with pytest.raises(UsageError, match="by its path or URL, not by int"):
        open_store(3)
    assert list(tmp_path.iterdir()) == []
