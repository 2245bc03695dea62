"""A function that calls a server, and says of each answer what it means: run it with ``python examples/run_http.py``.

The server is one of our own, on this machine: it bears eight requests at once, answers 429 above that, and is down for a while.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import graphmill as gm

ADDRESS = ("127.0.0.1", 0)
AT_ONCE = 8
DOWN_S = 1.0


class Handler(BaseHTTPRequestHandler):
    """Doubles the number in the path."""

    slots = threading.Semaphore(AT_ONCE)
    count = 0
    up_at = 0.0

    def do_GET(self) -> None:
        Handler.count += 1
        if Handler.count == 300:
            Handler.up_at = time.monotonic() + DOWN_S
        if time.monotonic() < Handler.up_at:
            self.answer(503, {"error": "down"})
        elif not Handler.slots.acquire(blocking=False):
            self.answer(429, {"error": "slow down"}, {"Retry-After": "0.2"})
        else:
            time.sleep(0.02)
            Handler.slots.release()
            self.answer(200, {"double": 2 * int(self.path[1:])})

    def answer(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Be quiet."""


server = ThreadingHTTPServer(ADDRESS, Handler)


def fetch(number: int) -> Any:
    """Ask the server; what it answers decides what becomes of the attempt."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/{number}", timeout=10) as response:
            return json.load(response)["double"]
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 429:  # too many at once: wait as long as it says, and use up no attempt
                raise gm.Throttled("429", retry_after_s=error.headers.get("Retry-After")) from error
            if error.code in (
                401,
                402,
                403,
                503,
            ):  # nobody gets an answer: probe until it is well again, or park the run
                raise gm.Unavailable(f"the server answers {error.code}") from error
            if error.code < 500:  # this item will never go well
                raise gm.Permanent(f"the server answers {error.code}") from error
            raise
    except urllib.error.URLError as error:  # refused, unknown host
        raise gm.Unavailable(f"cannot reach the server: {error.reason}") from error


if __name__ == "__main__":
    threading.Thread(target=server.serve_forever, daemon=True).start()
    report = gm.batch(
        fetch, range(1000), policy=gm.Policy(concurrency=64, adaptive=True), on_alert=lambda alert: print(alert.message)
    )
    print(report.closing_line())
    assert report.statistics.succeeded == 1000
    server.shutdown()
    server.server_close()
