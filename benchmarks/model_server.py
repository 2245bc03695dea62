"""A server of chat completions: ``python -m benchmarks.model_server KIND SECONDS BYTES`` answers as one of the simulated servers would.

It is as cheap as a server can be, and counts what it is asked: ``GET /counts``.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from random import Random
from urllib.request import urlopen

from benchmarks.own_process import serve, serving
from benchmarks.servers import Answer, Knee, Latency, Places, Server

PLACES = 32
KNEE = 24
_RETRY_AFTER_S = 1
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_HEAD_END = b"\r\n\r\n"
_REFUSAL = b'{"error":{"message":"Rate limit reached","type":"requests","param":null,"code":"rate_limit_exceeded"}}'
_FAILURE = b'{"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}'


@dataclass(frozen=True, slots=True)
class Kind:
    """What a server bears, and the share of calls that it fails whatever the load."""

    server: Callable[[Latency], Server]
    spread: float = 0.0
    failed_share: float = 0.0


KINDS = {
    "steady": Kind(lambda latency: Knee(knee=1_000_000, latency=latency)),
    "throttled": Kind(
        lambda latency: Places(places=(PLACES,), refused_share=0.05, retry_after_s=_RETRY_AFTER_S, latency=latency),
        0.3,
        failed_share=0.05,
    ),
    "knee": Kind(lambda latency: Knee(knee=KNEE, latency=latency), 0.3),
}


class _Model:
    """What all connections share: the load, the answer, and the counts."""

    def __init__(self, kind: Kind, takes_s: float, answer_bytes: int) -> None:
        self._server = kind.server(Latency(mean_s=takes_s, spread=kind.spread))
        self._failed_share = kind.failed_share
        self._random = Random(1)
        self._counts: Counter[str] = Counter()
        self._asked: Counter[bytes] = Counter()
        self.answer = _head(b"200 OK", _completion(answer_bytes))
        self.refusal = _head(b"429 Too Many Requests\r\nRetry-After: %d" % _RETRY_AFTER_S, _REFUSAL)
        self.failure = _head(b"500 Internal Server Error", _FAILURE)

    def call(self, now: float) -> Answer | None:
        """Let a call in, or refuse it; None for one that fails."""
        self._counts["requests"] += 1
        if self._failed_share and self._random.random() < self._failed_share:
            return None
        answer = self._server.call(now, self._random)
        self._counts["throttled"] += answer.is_throttled and not answer.is_injected
        return answer

    def answered(self, question: bytes) -> None:
        """Free its place."""
        self._server.done()
        self._counts["answered"] += 1
        self._asked[question] += 1

    def counts(self) -> bytes:
        twice = sum(count - 1 for count in self._asked.values())
        return _head(b"200 OK", json.dumps({**self._counts, "twice": twice}).encode())


class _Connection(asyncio.Protocol):
    """One connection; its requests come one after the other."""

    def __init__(self, model: _Model) -> None:
        self._model = model
        self._loop = asyncio.get_running_loop()
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        received = self._received = self._received + data
        end = received.find(_HEAD_END)
        if end < 0:
            return
        length = _LENGTH.search(received, 0, end)
        if length is None:
            self._received = b""
            self._transport.write(self._model.counts())
        elif len(received) >= end + 4 + int(length[1]):
            self._received = b""
            self._asked(received[end + 4 :])

    def _asked(self, question: bytes) -> None:
        now = self._loop.time()
        answer = self._model.call(now)
        if answer is None:
            self._send(self._model.failure)
        elif answer.is_throttled:
            self._send(self._model.refusal)  # at once: a refusal takes a small part of what an answer does
        else:
            self._loop.call_later(answer.takes_s, self._answer, question)

    def _answer(self, question: bytes) -> None:
        self._model.answered(question)
        self._send(self._model.answer)

    def _send(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)


def _completion(answer_bytes: int) -> bytes:
    message = {"role": "assistant", "content": "word " * (answer_bytes // 5), "refusal": None, "annotations": []}
    details = {
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    completion = {
        "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
        "object": "chat.completion",
        "created": 1741569952,
        "model": "measured-1",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 19, "completion_tokens": 40, "total_tokens": 59, **details},
        "service_tier": "default",
    }
    return json.dumps(completion).encode()


def _head(status: bytes, body: bytes) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


def model_server(kind: str, takes_s: float, *, answer_bytes: int = 200) -> AbstractContextManager[str]:
    """Start one; give its address."""
    return serving("benchmarks.model_server", kind, takes_s, answer_bytes)


def counts_of(address: str) -> Counter[str]:
    """Ask one what it was asked: ``requests``, ``answered``, ``twice``, and ``throttled`` beyond what it throttles at any load."""
    with urlopen(f"{address}/counts") as answer:
        return Counter(json.load(answer))


async def _main(kind: str, takes_s: str, answer_bytes: str) -> None:
    model = _Model(KINDS[kind], float(takes_s), int(answer_bytes))
    await serve(lambda: _Connection(model))


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
