"""The concurrency of model calls adapts unless told not to: seen with a real server, and through the commands."""

import asyncio
import json

import pytest

import graphmill as gm
from graphmill.graph.workflow import load_data
from support.command import run
from support.model_server import ModelServer, reply, said

PLACES = 32
NODES = [{"id": "ask", "type": "llm", "params": {"model": "local/m", "prompt": "${n}"}}]


class Busy:
    """Takes so many calls at once, and refuses more."""

    def __init__(self, places=PLACES, takes_s=0.02):
        self.requests, self.inside, self.highest = 0, 0, 0
        self._places, self._takes_s = places, takes_s

    def __call__(self, _):
        self.requests += 1
        if self.inside >= self._places:
            return reply({"error": {"message": "too many"}}, 429, headers={"Retry-After": "0.02"})
        self.inside += 1
        self.highest = max(self.highest, self.inside)
        return self._play

    async def _play(self, writer):
        await asyncio.sleep(self._takes_s)
        self.inside -= 1
        writer.write(said("yes"))
        await writer.drain()
        return True


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    with ModelServer() as found:
        (tmp_path / "graphmill.yaml").write_text(
            f"providers: {{local: {{protocol: openai, address: '{found.url}/v1'}}}}\n"
        )
        yield found


def batch(graph, count, **policy):
    rules = gm.Policy(concurrency=64, retry=gm.Retry(wait_s=0.02, throttle_budget_s=60), **policy)
    report = gm.batch(graph, [{"n": number} for number in range(count)], policy=rules)
    assert report.statistics.succeeded == count


def workflow():
    return load_data({"inputs": {"n": {}}, "nodes": NODES})


async def call(item):
    return (await gm.complete("local/m", str(item["n"]))).text


@pytest.mark.parametrize("is_workflow", [True, False])
def test_by_default_a_server_that_takes_half_of_it_is_hardly_asked_more_than_needed(server, is_workflow):
    busy = server.answer = Busy()
    batch(workflow() if is_workflow else call, 1500)
    assert busy.requests <= 1650


def test_a_server_that_takes_it_all_is_given_it_all_from_the_first_call_on(server):
    busy = server.answer = Busy(places=1000)
    batch(workflow(), 200)
    assert (busy.requests, busy.highest) == (200, 64)


def test_told_not_to_adapt_it_asks_with_the_whole_concurrency(server):
    busy = server.answer = Busy()
    batch(workflow(), 300, adaptive=False)
    assert busy.requests > 400


def test_the_commands_take_it_and_record_it(server, tmp_path):
    server.answer = lambda _: said("yes")
    (tmp_path / "w.yaml").write_text(json.dumps({"inputs": {"n": {}}, "nodes": NODES}))
    (tmp_path / "items.jsonl").write_text('{"n": 1}\n{"n": 2}\n')

    def adaptive(*arguments):
        code, _, error = run(tmp_path, *arguments)
        assert code == 0, error
        shown = json.loads(run(tmp_path, "show", "one", "--json")[1])
        return shown["manifest"]["policy"]["adaptive"], " (adaptive)" in error

    assert adaptive("batch", "w.yaml", "--source", "items.jsonl", "--run-id", "one") == (None, True)
    assert adaptive("batch", "w.yaml", "--source", "items.jsonl", "--run-id", "one", "--no-adaptive") == (False, False)
    assert adaptive("resume", "one", "--adaptive") == (True, False)
