"""The http node: what must not happen twice. The server's log is the witness (G3)."""

import asyncio
import json
import signal
import sys
import threading

import pytest

import graphmill as gm
from support import warm
from support.asking import PROMPT, answered, asked, workflow
from support.command import COMMAND, HANG_S, Command, environment
from support.http_server import Server, reply, unreachable

UNSAFE = ["POST", "PUT", "PATCH", "DELETE"]


@pytest.fixture
def server():
    with Server() as made:
        yield made


def hang_up(seen):
    return None


@pytest.mark.parametrize(
    ("params", "effect"),
    [
        ({}, "repeatable"),
        ({"method": "get"}, "repeatable"),
        ({"method": "HEAD"}, "repeatable"),
        ({"method": "OPTIONS", "body": {}}, "repeatable"),
        *(({"method": method}, "unsafe") for method in UNSAFE),
        ({"body": {}}, "unsafe"),
        ({"body": "${value}"}, "unsafe"),
        ({"form": {}}, "unsafe"),
        ({"method": "${value}"}, "unsafe"),
        ({"method": {"env": "METHOD"}}, "unsafe"),
    ],
)
def test_only_what_reads_may_be_repeated_unless_the_author_says_so(tmp_path, params, effect):
    graph = gm.load(workflow(tmp_path, {"url": "http://example.org/", **params}))
    assert graph.nodes["ask"].effect == effect
    graph = gm.load(workflow(tmp_path, {"url": "http://example.org/", **params}, effect="repeatable"))
    assert graph.nodes["ask"].effect == "repeatable"


@pytest.mark.parametrize("method", UNSAFE)
@pytest.mark.parametrize(
    "answer",
    [
        hang_up,
        *(lambda seen, status=status: reply(b"", status) for status in (408, 425, 500, 502, 504)),
        lambda seen: reply(b"{"),
    ],
    ids=["hangs up", "408", "425", "500", "502", "504", "bad JSON"],
)
def test_an_unsafe_request_of_which_nobody_knows_is_ambiguous_and_not_repeated(tmp_path, server, method, answer):
    server.answer = answer
    result = asked(tmp_path, {"url": server.url, "method": method})
    assert (result.status, result.error.kind, len(server.seen)) == ("failed", "ambiguous", 1)
    assert result.error.message.startswith("unknown outcome")


@pytest.mark.parametrize(
    "answer",
    [reply(b"x" * 50, kind="text/plain"), reply(b"x", headers=[("Content-Encoding", "br")])],
    ids=["large", "br"],
)
def test_an_unsafe_request_whose_answer_can_not_be_taken_is_ambiguous(tmp_path, server, answer):
    server.answer = lambda seen: answer
    result = asked(tmp_path, {"url": server.url, "body": {}, "max_bytes": 10})
    assert (result.status, result.error.kind, len(server.seen)) == ("failed", "ambiguous", 1)


def never(seen):
    async def wait(writer):
        await asyncio.Event().wait()

    return wait


def test_an_unsafe_request_without_an_answer_in_time_is_ambiguous(tmp_path, server):
    server.answer = never
    result = asked(tmp_path, {"url": server.url, "body": {}, "timeout": 0.3})
    assert (result.status, result.error.kind, len(server.seen)) == ("failed", "ambiguous", 1)


@pytest.mark.skipif(sys.platform != "linux", reason="only here is a connection beyond the backlog left waiting")
def test_an_unsafe_request_that_could_not_connect_in_time_has_not_happened(tmp_path):
    with unreachable() as url:
        result = asked(tmp_path, {"url": url, "body": {}, "timeout": 0.3})
    assert (result.error.kind, result.attempts) == ("transient", 3)


@pytest.mark.parametrize("status", [400, 401, 404, 409, 422])
def test_an_unsafe_request_that_was_refused_has_failed_and_that_is_known(tmp_path, server, status):
    server.answer = lambda seen: reply(b"", status)
    result = asked(tmp_path, {"url": server.url, "body": {}})
    assert (result.error.kind, len(server.seen)) == ("permanent", 1)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("headers", [[], [("Retry-After", "0")]])
def test_an_unsafe_request_that_was_surely_not_done_is_sent_again_with_the_same_key(tmp_path, server, status, headers):
    server.answer = lambda seen: reply(b"{}") if len(server.seen) > 1 else reply(b"", status, headers=headers)
    answered(tmp_path, {"url": server.url, "body": {}})
    first, second = server.seen
    assert first.header("idempotency-key") == second.header("idempotency-key") != ""


def test_an_unsafe_request_that_reached_nobody_is_tried_again(tmp_path, server):
    with Server() as gone:
        url = gone.url
    result = asked(tmp_path, {"url": url, "body": {}})
    assert (result.error.kind, result.attempts) == ("transient", 3)
    result = asked(tmp_path, {"url": "http://nowhere.invalid/", "body": {}})
    assert (result.error.kind, result.attempts) == ("transient", 3)


def test_where_the_author_allows_it_an_ambiguous_request_is_sent_again_with_the_same_key(tmp_path, server):
    server.answer = lambda seen: reply(b"{}") if len(server.seen) > 2 else None
    answered(tmp_path, {"url": server.url, "body": {}}, on_ambiguous="retry")
    assert len(server.seen) == 3
    assert len({seen.header("idempotency-key") for seen in server.seen}) == 1


def test_an_author_may_set_the_key(tmp_path, server):
    answered(tmp_path, {"url": server.url, "body": {}, "headers": {"Idempotency-Key": "${value}"}}, "mine")
    assert [seen.header("idempotency-key") for seen in server.seen] == ["mine"]


def test_each_item_has_a_key_of_its_own(tmp_path, server):
    graph = gm.load(workflow(tmp_path, {"url": server.url, "body": "${value}"}))
    gm.batch(graph, [{"value": str(number)} for number in range(5)], policy=PROMPT)
    assert len({seen.header("idempotency-key") for seen in server.seen}) == 5


# --- a process that is killed in mid-call ---


class Killed:
    """A batch of three items of which the server does not answer the second, until its process is killed."""

    def __init__(self, folder, server, **node):
        self.folder, self.server = folder, server
        self.is_held = threading.Event()
        self.is_let_go = False
        server.answer = self.answer
        workflow(folder, {"url": f"{server.url}/items", "body": {"item": "${value}"}}, **node)
        (folder / "items.jsonl").write_text("".join(json.dumps({"id": name, "value": name}) + "\n" for name in "abc"))

    def answer(self, seen):
        if json.loads(seen.body)["item"] != "b" or self.is_let_go:
            return reply(b"{}")

        async def hold(writer):
            self.is_held.set()
            await asyncio.Event().wait()

        return hold

    def kill(self):
        with Command(
            self.folder, "batch", "ask.json", "--source", "items.jsonl", "--concurrency", "1", "--run-id", "r"
        ) as command:
            command.until(self.is_held.is_set)
            command.send(signal.SIGKILL)
            assert command.wait() == -signal.SIGKILL
        self.is_let_go = True

    def graphmill(self, *arguments):
        return warm.run(
            [*COMMAND, *arguments], cwd=self.folder, env=environment(), capture_output=True, text=True, timeout=HANG_S
        )

    def sent(self):
        """What the server was sent, by item, with its keys."""
        found = {}
        for seen in self.server.seen:
            found.setdefault(json.loads(seen.body)["item"], []).append(seen.header("idempotency-key"))
        return found


def test_a_post_killed_in_mid_call_goes_to_the_dead_letters_as_ambiguous_and_only_retry_sends_it_again(
    tmp_path, server
):
    run = Killed(tmp_path, server)
    run.kill()
    resumed = run.graphmill("resume", "r")
    assert resumed.returncode == 3, resumed.stderr
    assert {name: len(keys) for name, keys in run.sent().items()} == {"a": 1, "b": 1, "c": 1}
    errors = run.graphmill("errors", "r")
    assert "ambiguous" in errors.stdout
    assert run.graphmill("resume", "r").returncode == 3
    assert len(run.sent()["b"]) == 1
    retried = run.graphmill("retry", "r", "--kind", "ambiguous")
    assert retried.returncode == 0, retried.stderr
    first, second = run.sent()["b"]
    assert first == second
    assert len(run.sent()["a"]) == len(run.sent()["c"]) == 1


def test_a_post_killed_in_mid_call_is_sent_again_with_the_same_key_where_the_author_allows_it(tmp_path, server):
    run = Killed(tmp_path, server, on_ambiguous="retry")
    run.kill()
    resumed = run.graphmill("resume", "r")
    assert resumed.returncode == 0, resumed.stderr
    sent = run.sent()
    assert {name: len(keys) for name, keys in sent.items()} == {"a": 1, "b": 2, "c": 1}
    assert len(set(sent["b"])) == 1


# --- secrets ---


def test_a_secret_reaches_the_server_and_no_file_and_no_message(tmp_path, server, monkeypatch):
    secret = "hunter2-é/ü&=+ key"
    monkeypatch.setenv("API_KEY", secret)
    server.answer = lambda seen: reply(
        f"{seen.target} {seen.header('authorization')} {secret} {seen.body.decode()}".encode(), 400, "text/plain"
    )
    params = {
        "url": server.url,
        "params": {"key": {"env": "API_KEY"}},
        "auth": {"basic": {"user": "me", "password": {"env": "API_KEY"}}},
        "body": {"deep": [{"env": "API_KEY"}]},
    }
    graph = gm.load(workflow(tmp_path, params))
    journal = tmp_path / "journal" / "runs.db"
    journal.parent.mkdir()
    (result,) = gm.batch(graph, [{}], run_id="r", journal=journal, policy=PROMPT).results()
    (seen,) = server.seen
    assert seen.query == [("key", secret)]
    assert json.loads(seen.body) == {"deep": [secret]}
    needles = ["hunter2", "aHVudGVy", "bWU6aHVudGVy", seen.header("authorization").split(" ")[1]]
    assert not [needle for needle in needles if needle in repr(result)]
    stored = b"".join(path.read_bytes() for path in journal.parent.rglob("*") if path.is_file())
    assert not [needle for needle in needles if needle.encode() in stored]
