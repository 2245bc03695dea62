"""What a run has used of models is told by every summary of it, the same at every door: of failed attempts, after kills and retries too."""

import json
import signal

import pytest

import graphmill as gm
from support.asked_model import failing
from support.command import COMMAND, IMPATIENT, Command, rows, run, write_items
from support.model_server import ModelServer, reply
from support.recount import counted, recounted

WORKFLOW = """
inputs: {text: {}}
nodes:
  - {id: draft, type: llm, params: {model: own/a, prompt: "draft ${text}"}, retry: {attempts: 3, wait_s: 0}}
  - {id: check, type: llm, params: {model: own/b, prompt: "check ${text}", temperature: 0}}
"""
USED = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "prompt_tokens_details": {"cached_tokens": 60},
    "completion_tokens_details": {"reasoning_tokens": 8},
}


class Place:
    """A project whose models are a server of ours, which refuses what it is told to, once each."""

    def __init__(self, folder, server):
        self.folder, self.server, self.refused = folder, server, []
        server.answer = self.answer
        (folder / "graphmill.yaml").write_text(f"providers: {{own: {{protocol: openai, address: '{server.url}/v1'}}}}")
        (folder / "w.yaml").write_text(WORKFLOW)

    def answer(self, asked):
        text = asked.data["messages"][-1]["content"]
        if text in self.refused:
            self.refused.remove(text)
            return reply({"error": {"message": "not now"}}, 500)
        choice = {"index": 0, "message": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"}
        return reply({"id": "c", "model": "m", "choices": [choice], "usage": USED})

    def command(self, *arguments, code=0, argv=COMMAND):
        found, out, err = run(self.folder, *arguments, argv=argv)
        assert found == code, out + err
        return out

    def record(self, *arguments, code=0):
        return json.loads(self.command(*arguments, "--json", code=code))

    def batch(self, count, *options):
        items = [{"id": str(number), "text": f"text {number % 4}"} for number in range(count)]
        return ("batch", "w.yaml", "--source", write_items(self.folder, items), "--concurrency", "1", *options)


@pytest.fixture
def place(tmp_path):
    with ModelServer() as server:
        yield Place(tmp_path, server)


def models(record):
    return {
        name: (each["requests"], each["reused"], each["input_tokens"])
        for name, each in record["usage"]["models"].items()
    }


def test_every_summary_tells_the_same_of_each_model_and_of_all(place):
    place.refused = ["draft text 2", "draft text 2"]
    said = place.command(*place.batch(6, "--run-id", "r"))
    assert len(place.server.asked) == 6 + 2 + 4
    lines = [
        "  12 requests, 2 answers reused · 1,000 tokens in (600 cached), 200 out (80 reasoning)",
        "    draft   own/a   8 requests · 600 tokens in (360 cached), 120 out (48 reasoning)",
        "    check   own/b   4 requests, 2 answers reused · 400 tokens in (240 cached), 80 out (32 reasoning)",
    ]
    for told in (said, place.command("status", "r"), place.command("show", "r"), place.command("resume", "r")):
        assert all(line in told for line in lines)
    counts = {
        "requests": 12,
        "reused": 2,
        "input_tokens": 1000,
        "output_tokens": 200,
        "reasoning_tokens": 80,
        "cached_tokens": 600,
    }
    records = [place.record(*asked) for asked in (("status", "r"), ("show", "r"), ("resume", "r"))] + place.record(
        "runs"
    )["runs"]
    assert [record["usage"] for record in records] == [records[0]["usage"]] * 4
    assert records[0]["usage"].items() >= counts.items()
    assert models(records[0]) == {"own/a": (8, 0, 600), "own/b": (4, 2, 400)}
    assert counted(place.folder / ".graphmill/runs.db", "r") == recounted(place.folder / ".graphmill/runs.db", "r")


def test_a_retry_adds_what_it_takes_to_what_the_failed_attempts_took(place):
    place.refused = ["draft text 1"] * 3
    first = place.record(*place.batch(2, "--run-id", "r"), code=3)
    assert models(first) == {"own/a": (4, 0, 100), "own/b": (1, 0, 100)}
    assert (
        models(place.record("retry", "r"))
        == models(place.record("status", "r"))
        == {"own/a": (5, 0, 200), "own/b": (2, 0, 200)}
    )
    assert len(place.server.asked) == 7
    assert counted(place.folder / ".graphmill/runs.db", "r") == recounted(place.folder / ".graphmill/runs.db", "r")


@pytest.mark.parametrize("door", ["batch", "run"])
def test_a_run_without_a_journal_tells_it_too(place, door):
    place.refused = ["draft text 0"]
    arguments = place.batch(1) if door == "batch" else ("run", "w.yaml", "text=text 0")
    record = place.record(*arguments, "--no-journal")
    assert models(record) == {"own/a": (2, 0, 100), "own/b": (1, 0, 100)}
    assert record["usage"]["requests"] == 3


def test_a_run_that_asks_no_model_says_nothing_of_it(place):
    (place.folder / "w.yaml").write_text(
        "{inputs: {text: {}}, nodes: [{id: v, type: value, params: {value: '${text}'}}]}"
    )
    said = place.command(*place.batch(2, "--run-id", "r"))
    assert "request" not in said
    assert "tokens" not in said
    assert place.record("status", "r")["usage"] is None


def test_after_kills_nothing_that_is_recorded_is_missing_or_there_twice(place):
    path, concurrency = place.folder / ".graphmill/runs.db", 4
    command, kills = [*place.batch(60, "--run-id", "r")], 0
    command[command.index("--concurrency") + 1] = str(concurrency)
    (place.folder / "w.yaml").write_text(WORKFLOW.replace("temperature: 0", "temperature: 1"))
    for more in (25, 60):
        with Command(place.folder, *command) as first:
            first.until(lambda more=more: len(place.server.asked) >= more)
            first.send(signal.SIGKILL)
            first.wait()
        kills += 1
        command = ["resume", "r"]
        assert counted(path, "r") == recounted(path, "r")
    record = place.record("resume", "r")
    assert counted(path, "r") == recounted(path, "r")
    assert record["usage"]["models"].keys() == {"own/a", "own/b"}
    assert (
        120
        <= record["usage"]["requests"]
        <= len(place.server.asked)
        <= record["usage"]["requests"] + kills * 2 * concurrency
    )
    assert place.record("status", "r")["usage"] == record["usage"]


def test_python_has_it_in_the_statistics_of_a_report_and_of_a_live_run(played):
    played.answers = [failing(gm.Transient("gone"), input_tokens=1), "fine"]
    seen = []

    async def ask(item):
        return (await gm.complete("scripted/play", "x")).text

    policy = gm.Policy(concurrency=1, retry=gm.Retry(attempts=3, wait_s=0, cap_s=0))
    report = gm.batch(ask, [1, 2], policy=policy, on_progress=seen.append)
    (usage,) = report.statistics.usage.values()
    assert (usage.requests, usage.input_tokens, usage.output_tokens) == (3, 1 + 2 + 2, 2)
    assert report.usage_lines() == ["  3 requests · 5 tokens in, 2 out · $1.00"]
    assert seen[-1].usage == report.statistics.usage


ANSWERED = [["own/a", "own/b"]] * 4 + ["own/a"]


@pytest.mark.parametrize("journal", [None, "memory:", "runs.db"])
def test_a_row_names_the_models_that_have_answered_its_item(place, monkeypatch, journal):
    monkeypatch.chdir(place.folder)
    place.refused = ["draft text 1", *["check text 9"] * 3]
    items = [{"id": str(number), "text": f"text {number}"} for number in (0, 1, 2, 0, 9)]
    items[3]["id"] = "again"
    lived = []
    policy = gm.Policy(concurrency=1, retry=gm.Retry(attempts=3, wait_s=0, cap_s=0))
    more = {} if journal is None else {"journal": journal, "run_id": "r"}
    report = gm.batch(
        "w.yaml", items, policy=policy, on_result=lambda _, result: lived.append(result.metadata["model"]), **more
    )
    assert [result.status for result in report.results()] == ["succeeded"] * 4 + ["failed"]
    assert [result.metadata["model"] for result in report.results()] == lived == ANSWERED


def test_a_row_names_the_model_of_a_step_that_an_earlier_process_did(place):
    (place.folder / "w.yaml").write_text(WORKFLOW.replace("own/b", "own/c"))
    answer = place.answer
    place.server.answer = lambda asked: (
        reply({"error": {"message": "no such model"}}, 404) if asked.data["model"] == "c" else answer(asked)
    )
    place.command(*place.batch(2, "--run-id", "r"), code=5, argv=IMPATIENT)
    place.server.answer = answer
    (place.folder / "w.yaml").write_text(WORKFLOW.replace("own/b", "own/d"))
    place.command("resume", "r", "--on-change", "keep", "-o", "out.jsonl")
    assert [row["metadata"]["model"] for row in rows(place.folder / "out.jsonl")] == [["own/a", "own/d"]] * 2
