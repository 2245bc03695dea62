"""Simulated servers: they count their calls, throttle above a limit or a rate, and are down now and then."""

from contextlib import contextmanager

import graphmill as gm


class LiveServer:
    """One server of a scenario while it runs."""

    def __init__(self, server):
        self._server = server
        self._calls = 0
        self._bucket_s = 0.0

    @contextmanager
    def call(self, clock, name):
        """Be inside while the call is served; raise as the server would."""
        self._require_up(clock(), name)
        self._require_room(clock(), name)
        self._calls += 1
        try:
            yield
            self._require_up(clock(), name)
        finally:
            self._calls -= 1

    def _require_up(self, now, name):
        if any(since <= now < until for since, until in self._server.down):
            raise gm.Unavailable(f"down for {name}")

    def _require_room(self, now, name):
        server = self._server
        if server.limit is not None and self._calls >= server.limit:
            raise gm.Throttled(f"full for {name}", retry_after_s=server.retry_after_s)
        if server.per_s is not None:
            self._bucket_s = max(self._bucket_s, now - 1.0)
            if self._bucket_s + 1 / server.per_s > now + 1e-9:
                raise gm.Throttled(f"too fast for {name}", retry_after_s=server.retry_after_s)
            self._bucket_s += 1 / server.per_s
