"""Scripted agents of a stated skill, behind a server on this machine that also answers 429 and 500, and keeps a ledger."""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

FIRST_RIGHT = 0.55  # how often the solver's first answer is right
LATER_RIGHT = 0.60  # … and one that it gives after a critique
WRONG_ACCEPTED = 0.20  # how often the verifier accepts a wrong answer; it accepts every right one
ROUNDS = 3
INPUT, OUTPUT = 0.25, 2.00  # dollars for a million tokens, four characters each

_THROTTLED, _BROKEN = 0.04, 0.03  # shares of the requests
_TAKES_S = 0.02
_SUM = re.compile(r"What is (\d+) × (\d+) \+ (\d+)\?")
_BOXED = re.compile(r"\\boxed\{(-?\d+)\}")
_FORMER = re.compile(r"^## Your answer of round \d+$", re.MULTILINE)


def make_problems(count: int) -> list[dict[str, Any]]:
    """Make arithmetic problems, always the same."""
    problems = []
    for number in range(count):
        a, b, c = (int(100 * draw("problem", number, part)) + 11 for part in "abc")
        text = f"What is {a} × {b} + {c}?"
        problems.append({"id": f"p{number:03}", "problem": text, "ground_truth": str(a * b + c), "domain": "math"})
    return problems


def calculated_accuracy() -> float:
    """Return the share of right answers that these skills lead to, over all rounds."""
    right, undecided = FIRST_RIGHT, (1 - FIRST_RIGHT) * (1 - WRONG_ACCEPTED)
    for _ in range(ROUNDS - 1):
        right += undecided * LATER_RIGHT
        undecided *= (1 - LATER_RIGHT) * (1 - WRONG_ACCEPTED)
    return right


def draw(*what: Any) -> float:
    """Return a number from 0 to 1, always the same for the same arguments."""
    return int.from_bytes(blake2b(repr(what).encode(), digest_size=7).digest()) / 2**56


class Agents:
    """The server: ``statuses`` counts what it has answered, ``billed_nano`` what the answers cost."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.billed_nano = 0
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.agents = self

    def __enter__(self) -> Agents:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Answer one request, or refuse it."""
        prompt = "\n".join(message["content"] for message in body["messages"])
        with self._lock:
            self._asked[prompt] += 1
            share = draw("fault", prompt, self._asked[prompt])
            if self._asked[prompt] > 2:  # a third attempt is always answered
                share = 1.0
            status = 429 if share < _THROTTLED else 500 if share < _THROTTLED + _BROKEN else 200
            self.statuses[status] += 1
        if status != 200:
            return status, {"error": {"message": {429: "too many requests", 500: "internal error"}[status]}}
        time.sleep(_TAKES_S)
        text = _AGENTS[body["model"]](prompt)
        used = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4}
        with self._lock:
            self.billed_nano += round(1000 * (used["prompt_tokens"] * INPUT + used["completion_tokens"] * OUTPUT))
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return 200, {"model": body["model"], "choices": [choice], "usage": used}


def solve(prompt: str) -> str:
    """Answer as well as stated; a wrong answer is another one in each round."""
    a, b, c = _read_problem(prompt)
    number = len(_FORMER.findall(prompt)) + 1
    skill = FIRST_RIGHT if number == 1 else LATER_RIGHT
    found = a * b + c
    if draw("solver", a, b, c, number) >= skill:
        found += 10 * number
    return f"{a} × {b} = {found - c}, and with {c} more it is \\boxed{{{found}}}.\n\nConfidence: 0.{5 + number}"


def verify(prompt: str) -> str:
    """Accept each right answer, and some wrong ones."""
    a, b, c = _read_problem(prompt)
    found = int(_BOXED.findall(prompt)[-1])
    passed = found == a * b + c or draw("verifier", a, b, c, found) < WRONG_ACCEPTED
    critique = "Each step holds." if passed else f"{a} × {b} is not {found - c}; multiply again."
    scores = {"correctness": float(passed), "completeness": 1.0, "clarity": 0.9}
    return json.dumps({"critique": critique, "scores": scores, "confidence": 0.8, "passed": passed})


def judge(prompt: str) -> str:
    """Score an answer by whether it is right."""
    a, b, c = _read_problem(prompt)
    is_right = int(_BOXED.findall(prompt)[-1]) == a * b + c
    return json.dumps(
        {"reasoning": "I multiplied again.", "strengths": ["short"], "weaknesses": [], "score": float(is_right)}
    )


def _read_problem(prompt: str) -> tuple[int, int, int]:
    a, b, c = map(int, _SUM.findall(prompt)[0])
    return a, b, c


_AGENTS = {"solver": solve, "verifier": verify, "judge": judge}


class _Server(ThreadingHTTPServer):
    agents: Agents
    daemon_threads = True
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        status, answer = self.server.agents.answer(body)
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        if status == 429:
            self.send_header("retry-after", "1")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  its name in the base class
        """Say nothing of each request."""
