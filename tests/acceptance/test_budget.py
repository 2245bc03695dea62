"""A hard budget, against a server that keeps its own ledger: never more than the cap, and every cent of it accounted for."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from itertools import cycle, repeat

import pytest

import graphmill as gm
from support.command import environment, run, write_items
from support.model_server import ModelServer, reply

INPUT, OUTPUT = 1000, 5000  # dollars for a million tokens: an answer of ten tokens costs five cents
MOST = 40  # max_tokens
NODE = {"id": "ask", "type": "llm", "params": {"model": "own/m", "prompt": "Item ${n}", "max_tokens": MOST}}


class Ledger:
    """Answers, and writes down what each answer costs."""

    def __init__(self):
        self.answers = repeat("yes")
        self.takes_s = 0.0
        self.billed_nano = 0
        self.requests = 0

    def __call__(self, asked):
        self.requests += 1
        return self._play

    async def _play(self, writer):
        await asyncio.sleep(self.takes_s)
        self.billed_nano += 100 * INPUT * 1000 + 10 * OUTPUT * 1000
        choice = {"message": {"content": next(self.answers)}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 10}
        writer.write(reply({"choices": [choice], "usage": usage}))
        await writer.drain()
        return True


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    with ModelServer() as found:
        (tmp_path / "graphmill.yaml").write_text(
            f"providers: {{own: {{protocol: openai, address: '{found.url}/v1'}}}}\n"
            f"prices: {{own/m: {{input: {INPUT}, output: {OUTPUT}}}}}\n"
        )
        write_items(tmp_path, [{"n": number} for number in range(30)])
        (tmp_path / "w.yaml").write_text(json.dumps({"inputs": {"n": {}}, "nodes": [NODE]}))
        found.answer = Ledger()
        yield found


def spent(folder):
    usage = json.loads(run(folder, "status", "r", "--json")[1])["usage"]
    return usage["cost_usd"] or 0.0, usage["lost_usd"]


def test_the_run_pauses_when_nothing_more_may_start_and_goes_on_with_more(server, tmp_path):
    batch = ["batch", "w.yaml", "-s", "items.jsonl", "--run-id", "r"]
    code, out, err = run(tmp_path, *batch, "--budget", "3", "--concurrency", "4")
    assert code == 4, err
    assert "the budget is used up: $" in out + err
    assert "and the next call may cost $" in out + err
    assert "graphmill resume r --budget MORE" in out + err
    assert 0 < server.answer.requests < 30
    cost, lost = spent(tmp_path)
    assert (round(cost * 1e9), lost) == (server.answer.billed_nano, 0)
    assert cost <= 3 < cost + 1.3  # the next call might have cost more than is left
    assert json.loads(run(tmp_path, "status", "r", "--json")[1])["state"] == "paused"
    assert run(tmp_path, "resume", "r")[0] == run(tmp_path, *batch)[0] == 4
    assert run(tmp_path, "resume", "r", "--budget", "100")[0] == 0
    assert server.answer.requests == 30
    assert round(spent(tmp_path)[0] * 1e9) == server.answer.billed_nano


def test_calls_in_functions_that_are_asked_again_keep_to_it(server):
    server.answer.answers = cycle(["no", "no", "{}"])

    async def ask(item):
        return (await gm.complete("own/m", str(item), max_tokens=MOST, schema={"type": "object"})).data

    require_stopped_at_two_dollars(ask, server)


def test_calls_in_parallel_batches_keep_to_it(server, tmp_path):
    inner = {**NODE, "batch": {"times": 4, "as": "k", "parallel": True}}
    (tmp_path / "b.yaml").write_text(json.dumps({"inputs": {"n": {}}, "nodes": [inner]}))
    require_stopped_at_two_dollars(gm.load("b.yaml"), server)


def require_stopped_at_two_dollars(graph, server):
    report = gm.batch(graph, [{"n": n} for n in range(4)], policy=gm.Policy(concurrency=8, budget_usd=2))
    assert report.stopped == "budget"
    total = sum(usage.cost_nano for usage in report.statistics.usage.values())
    assert total == server.answer.billed_nano <= 2_000_000_000


def test_what_has_no_bound_or_no_price_is_refused_before_the_first_item(server, tmp_path):
    def refusal(workflow, *more):
        (tmp_path / "w.yaml").write_text(json.dumps(workflow))
        code, out, err = run(tmp_path, "batch", "w.yaml", "-s", "items.jsonl", "--budget", "1", *more)
        assert (code, server.answer.requests) == (2, 0)
        return out + err

    def node(**params):
        return {"inputs": {"n": {}}, "nodes": [{**NODE, "params": {"model": "own/m", "prompt": "${n}", **params}}]}

    assert "--max-tokens" in refusal(node())
    assert "prices: {own/other:" in refusal(node(model="own/other", max_tokens=5))
    assert "image by URL" in refusal(node(max_tokens=5, images=["http://127.0.0.1/x.png"]))
    assert "billed apart" in refusal(node(max_tokens=5, extra={"web_search_options": {}}))
    assert "--max-tokens" in refusal(node(max_tokens=5, extra={"max_tokens": None}))
    assert "leave that out" in refusal(node(max_tokens=5, extra={"model": "a-dear-one"}))
    assert "searches are billed apart" in refusal(node(model="openai/gpt-4o-search-preview", max_tokens=5), "--dry-run")
    settings = tmp_path / "graphmill.yaml"
    settings.write_text(f"{settings.read_text()}models: {{searching: {{model: own/m, extra: {{tools: []}}}}}}\n")
    assert "billed apart" in refusal(node(model="searching", max_tokens=5, extra={"user": "me"}))


def test_what_has_a_bound_in_another_way_runs(server, tmp_path):
    def succeeds(**params):
        llm = {**NODE, "params": {"model": "own/m", "prompt": "${n}", **params}}
        (tmp_path / "w.yaml").write_text(json.dumps({"inputs": {"n": {}}, "nodes": [llm]}))
        return run(tmp_path, "batch", "w.yaml", "-s", "items.jsonl", "--budget", "100", "--limit", "1")[0] == 0

    assert succeeds(extra={"max_completion_tokens": 5})
    assert succeeds(model="scripted/x", images=["http://127.0.0.1/x.png"])  # it costs nothing


def test_a_call_that_turns_out_to_have_no_bound_fails_its_item(server):
    async def ask(item):
        return (await gm.complete("own/m", str(item))).text

    report = gm.batch(ask, [1], policy=gm.Policy(budget_usd=1))
    (result,) = report.results()
    assert (result.status, "max_tokens" in result.error.message, server.answer.requests) == ("failed", True, 0)


def test_a_call_that_waits_for_the_budget_does_not_time_out(server):
    server.answer.takes_s = 0.1

    async def ask(item):
        return (await gm.complete("own/m", str(item), max_tokens=MOST, timeout_s=0.3)).text

    rules = gm.Policy(concurrency=10, budget_usd=3.5, retry=gm.Retry(attempts=1), timeout_s=0.3)
    report = gm.batch(ask, range(10), policy=rules)  # at most two at a time
    assert {result.status for result in report.results()} == {"succeeded"}


KILLED = """
import sys
import graphmill as gm
rules = gm.Policy(concurrency=4, budget_usd=float(sys.argv[1]), retry=gm.Retry(wait_s=0.01))
gm.batch(gm.load("w.yaml"), gm.source("items.jsonl"), run_id="r", samples=2, policy=rules)
"""
LOOPED = {"inputs": {"n": {}}, "nodes": [{**NODE, "loop": {"max": 2, "until": {"never": "${round.logprobs}"}}}]}


def test_calls_in_flight_at_two_kills_count_as_what_was_reserved(server, tmp_path):
    """With rounds, samples, refusals and failures, which cost nothing."""
    ledger = server.answer

    def answer(asked):
        if len(server.asked) % 7 == 0:
            return reply({"error": {"message": "no"}}, 500)
        if len(server.asked) % 11 == 0:
            return reply({"error": {"message": "slow down"}}, 429, headers={"Retry-After": "0.01"})
        return ledger(asked)

    server.answer = answer
    (tmp_path / "w.yaml").write_text(json.dumps(LOOPED))
    write_items(tmp_path, [{"n": number} for number in range(15)])
    ledger.takes_s = 0.05
    for budget in ("20", "30"):
        before = ledger.requests
        with subprocess.Popen([sys.executable, "-c", KILLED, budget], cwd=tmp_path, env=environment()) as process:
            while ledger.requests < before + 8:
                assert process.poll() is None
                time.sleep(0.005)
            os.kill(process.pid, signal.SIGKILL)
        assert round(sum(spent(tmp_path)) * 1e9) >= ledger.billed_nano  # also before it is resumed
    ledger.takes_s = 0.0
    assert run(tmp_path, "resume", "r", "--budget", "100")[0] in (0, 3)  # an item may meet a failure three times
    cost, lost = spent(tmp_path)
    assert lost > 0
    assert round((cost + lost) * 1e9) >= ledger.billed_nano
    assert cost + lost <= 100


def test_what_functions_report_counts(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)

    async def work(item):
        gm.report_usage("some/model", cost_usd=0.4, requests=1)
        return item

    report = gm.batch(work, range(50), policy=gm.Policy(budget_usd=1, concurrency=1))
    assert (report.stopped, report.statistics.succeeded) == ("budget", 3)
    assert "cannot limit calls made with other clients" in caplog.text


def test_what_functions_report_without_a_price_pauses_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def work(item):
        gm.report_usage("no/such", input_tokens=9)
        return item

    report = gm.batch(work, range(50), policy=gm.Policy(budget_usd=1, concurrency=1))
    assert (report.stopped, report.statistics.succeeded) == ("budget", 1)
    assert "no price is known for no/such" in report.stopped_because
