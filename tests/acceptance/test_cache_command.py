"""`graphmill cache`: what is kept, and what of it goes."""

import json
import time
from contextlib import closing

import pytest

from graphmill.journal.cache import CachedAnswer, CacheFile
from support.command import run

DAY_S = 86_400.0


@pytest.fixture
def kept(tmp_path):
    """Keep three answers of 2 models: one 40 days old, one 2 days, one new."""

    def keep(name, model, days, body=b'{"text": "x"}'):
        with closing(
            CacheFile(tmp_path / ".graphmill" / "runs.db-cache", clock=lambda: time.time() - days * DAY_S)
        ) as cache:
            cache.keep([CachedAnswer(name, model, body)])

    keep(b"1" * 16, "openai/gpt-5-mini", 40)
    keep(b"2" * 16, "openai/gpt-5-mini", 2)
    keep(b"3" * 16, "local/" + "very-long-name-" * 10, 0, b'"' + b"y" * 5000 + b'"')
    return keep


def run_cache(tmp_path, *arguments):
    return run(tmp_path, "cache", *arguments, COLUMNS="80")


@pytest.mark.parametrize("words", [(), ("list",)])
def test_it_tells_of_each_model_how_many_how_large_and_how_old(tmp_path, kept, words):
    code, out, _ = run_cache(tmp_path, *words)
    head, local, openai, total = out.splitlines()
    assert (code, head.split()) == (0, ["model", "responses", "size", "oldest", "last", "used"])
    assert openai.split() == ["openai/gpt-5-mini", "2", "26", "B", "40", "d", "2", "d"]
    assert "just now" in local
    assert max(map(len, (head, local, openai))) <= 80
    assert total.startswith("3 responses, ")
    assert total.endswith("runs.db-cache")


@pytest.mark.parametrize("words", [("--json",), ("list", "--json"), ("--json", "list")])
def test_as_data(tmp_path, kept, words):
    found = json.loads(run_cache(tmp_path, *words)[1])
    assert (found["responses"], [each["responses"] for each in found["models"]]) == (3, [1, 2])
    assert found["bytes"] == sum(each["bytes"] for each in found["models"])
    assert set(found["models"][0]) == {"model", "responses", "bytes", "oldest_at", "used_at"}


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (("prune", "--older", "30d"), 2),
        (("prune", "--older", "1h"), 1),
        (("prune", "--older", "90d"), 3),
        (("clear",), 0),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "",
)
def test_what_goes_goes_and_a_dry_run_only_says_so(tmp_path, kept, words, left):
    assert run_cache(tmp_path, *words, "--dry-run")[1].startswith(_answers(3 - left) + " would be deleted, ")
    assert json.loads(run_cache(tmp_path, "--json")[1])["responses"] == 3
    assert run_cache(tmp_path, *words)[1].startswith(_answers(3 - left) + " deleted, ")
    assert json.loads(run_cache(tmp_path, "--json")[1])["responses"] == left


def test_what_was_used_lately_stays(tmp_path, kept):
    with closing(CacheFile(tmp_path / ".graphmill" / "runs.db-cache", clock=time.time)) as cache:
        assert cache.find(b"1" * 16) == b'{"text": "x"}'
    assert run_cache(tmp_path, "prune", "--older", "30d")[1].startswith("0 responses deleted")


def test_its_file_gives_the_room_back(tmp_path, kept):
    for number in range(50):
        kept(b"%016d" % number, "m/m", 0, json.dumps([f"{number}-{other}" for other in range(3000)]).encode())
    file = tmp_path / ".graphmill" / "runs.db-cache"
    run_cache(tmp_path)
    before = file.stat().st_size
    run_cache(tmp_path, "clear")
    assert file.stat().st_size < before / 4


@pytest.mark.parametrize("words", [(), ("prune", "--older", "1d"), ("clear",)])
def test_where_there_is_none_it_says_so_and_makes_none(tmp_path, words):
    code, out, _ = run_cache(tmp_path, *words)
    assert (code, "no cached responses" in out, list(tmp_path.iterdir())) == (0, True, [])


def test_an_empty_one_says_so_too(tmp_path, kept):
    run_cache(tmp_path, "clear")
    assert "no cached responses" in run_cache(tmp_path)[1]


@pytest.mark.parametrize(
    "words", [("--journal", "other.db"), ("--journal", "other.db", "list"), ("list", "--journal", "other.db")]
)
def test_of_another_journal(tmp_path, kept, words):
    assert "other.db-cache" in run_cache(tmp_path, *words)[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("prune",), "--older"),
        (("prune", "--older", "soon"), "such as 90m, 12h"),
        (("--journal", "memory:"), "memory: has no cache"),
        (("lst",), "lst"),
    ],
)
def test_what_can_not_be_meant_is_refused(tmp_path, words, said):
    code, _, err = run_cache(tmp_path, *words)
    assert (code, said in err) == (2, True)


@pytest.mark.parametrize(("content", "code"), [(b"nothing of a database" * 50, 65), (b"", 0)])
def test_a_damaged_one_is_told_with_the_remedy(tmp_path, content, code):
    (tmp_path / ".graphmill").mkdir()
    (tmp_path / ".graphmill" / "runs.db-cache").write_bytes(content)
    found, _, err = run_cache(tmp_path)
    assert (found, "delete the file" in err) == (code, code != 0)


def _answers(count):
    return "1 response" if count == 1 else f"{count} responses"
