"""Limits that processes share: four commands on one journal, a server that notes when each call came, and a process that is killed."""

import itertools
import json
import re
import signal
import threading
import time

import pytest

from support.command import Command, answered, rows, write_items
from support.model_server import ModelServer, reply

PER_MINUTE = 1200
SLACK_S = 0.6  # a hundredth of a minute: by so much no call comes early


class Clocked:
    """Answers each call as a model does, and notes when it came."""

    def __init__(self, *, tokens=2, headers=()):
        self.came, self.by, self.tokens, self.headers = [], [], tokens, headers
        self.has_some = threading.Event()

    def __call__(self, asked):
        self.came.append(time.monotonic())
        self.by.append(asked.data["messages"][-1]["content"].split()[0])
        if len(self.came) >= 20:
            self.has_some.set()
        usage = {"prompt_tokens": self.tokens // 2, "completion_tokens": self.tokens - self.tokens // 2}
        choice = {"message": {"content": "fine"}, "finish_reason": "stop"}
        return reply({"choices": [choice], "usage": usage, "model": "m"}, headers=self.headers)


@pytest.fixture
def served(tmp_path):
    clocked = Clocked()
    with ModelServer(clocked) as server:
        clocked.url = server.url
        yield clocked


def settle(tmp_path, served, limits):
    provider = {"protocol": "openai", "address": f"{served.url}/v1", "limits": limits}
    (tmp_path / "graphmill.yaml").write_text(json.dumps({"providers": {"local": provider}}))


def begun(tmp_path, name, count):
    project = tmp_path / name
    project.mkdir(exist_ok=True)
    write_items(project, [{"id": f"{name}{number}", "text": f"{name} {number}"} for number in range(count)])
    options = (
        "--prompt",
        "${text}",
        "--model",
        "local/m",
        "--source",
        "items.jsonl",
        "--output",
        "out.jsonl",
        "--concurrency",
        "20",
    )
    return Command(project, "batch", *options, "--run-id", name, "--journal", str(tmp_path / "runs.db"))


def most_in(came, window_s):
    """Count the calls of the fullest window of this length."""
    return max(sum(start <= at < start + window_s for at in came) for start in came)


def test_four_processes_on_one_journal_keep_to_one_limit_in_any_window(tmp_path, served):
    settle(tmp_path, served, {"requests_per_minute": PER_MINUTE})
    commands = [begun(tmp_path, name, 25) for name in "abcd"]
    for command in commands:
        with command:
            assert command.wait() == 0
    came = sorted(served.came)
    assert len(came) == 100
    for window_s in (0.5, 1.0, 2.0, 4.0):
        assert most_in(came, window_s) <= PER_MINUTE / 60 * (window_s + SLACK_S)
    assert came[-1] - came[0] < 2 * 100 * 60 / PER_MINUTE  # and nearly all of it is used
    assert all(row["status"] == "succeeded" for name in "abcd" for row in rows(tmp_path / name / "out.jsonl"))


def test_what_a_killed_process_held_comes_back_once(tmp_path, served):
    settle(tmp_path, served, {"requests_per_minute": PER_MINUTE})
    with begun(tmp_path, "a", 200) as killed, begun(tmp_path, "b", 40) as other:
        assert served.has_some.wait(60)
        killed.process.send_signal(signal.SIGKILL)
        killed.process.wait()
        at = time.monotonic()
        assert other.wait() == 0
    came = sorted(served.came)
    for window_s in (0.5, 1.0, 2.0):
        assert most_in(came, window_s) <= PER_MINUTE / 60 * (window_s + SLACK_S)
    after = [came for came, who in zip(served.came, served.by, strict=True) if who == "b" and came > at]
    assert after[0] - at < 2  # it waits for no slice that nobody uses
    assert after[-1] - after[0] < 2 * len(after) * 60 / PER_MINUTE  # and has all of the limit for itself


def test_what_answers_tell_of_limits_is_shown(tmp_path, served):
    served.headers = {
        "x-ratelimit-limit-requests": "1234",
        "x-ratelimit-remaining-requests": "1200",
        "x-ratelimit-reset-requests": "2s",
    }
    settle(tmp_path, served, {"tokens_per_minute": 500_000})
    with begun(tmp_path, "a", 3) as command:
        assert command.wait() == 0
    shown = answered(tmp_path, "models", GRAPHMILL_JOURNAL=str(tmp_path / "runs.db"))
    assert "500,000 tokens a minute" in shown
    assert re.search(r"local/m +1,234 requests a minute", shown)


def test_all_processes_wait_where_one_was_told_that_nothing_is_left(tmp_path, served):
    served.headers = {
        "x-ratelimit-limit-requests": "600",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "3s",
    }
    settle(tmp_path, served, {"requests_per_minute": 600})
    for name in "abc":
        with begun(tmp_path, name, 1) as command:
            assert command.wait() == 0
    assert all(later - earlier > 2.9 for earlier, later in itertools.pairwise(sorted(served.came)))
