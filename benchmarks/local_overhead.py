"""What a model on this machine costs above llama.cpp itself: its own process, HTTP, the grammar and our engine."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from benchmarks.figure import Figure, NotMeasuredError, Reading, middle
from benchmarks.trial import trial

_CALLS = 40
_REPETITIONS = 3
_NAME = "smollm2-135m"
_PROMPT = "Write down the numbers from one to ten."
_SCHEMA = {"enum": ["one two three four five six seven eight nine ten"]}


def ours(path: str) -> float:
    """Ask through ``gm.complete``, one call at a time; return the seconds of the fastest, without the start."""
    import graphmill as gm  # noqa: PLC0415  each trial loads only what it measures

    times: list[float] = []

    async def ask(_: int) -> str:
        began = time.perf_counter()
        answer = await gm.complete(f"local/{path}", _PROMPT, schema=_SCHEMA, temperature=0, cache=False)
        times.append(time.perf_counter() - began)
        return str(answer)

    report = gm.batch(ask, range(_CALLS + 1), concurrency=1, journal=None)
    assert report.statistics.succeeded == _CALLS + 1, report.summary()
    return min(times[1:])  # the least disturbed by what else runs


def direct(path: str) -> float:
    """Ask llama.cpp in this process; return the seconds of the fastest call."""
    import xllamacpp  # noqa: PLC0415

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_parallel, params.n_ctx, params.kv_unified = 4, 8192, True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.cache_ram_mib, params.port, params.verbosity = 256, 0, 1
    server = xllamacpp.Server(params)
    shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": _SCHEMA}}
    body = {"messages": [{"role": "user", "content": _PROMPT}], "temperature": 0, "response_format": shape}
    times: list[float] = []
    for _ in range(_CALLS + 1):
        began = time.perf_counter()
        answer: Any = server.handle_chat_completions(body)
        times.append(time.perf_counter() - began)
        assert "choices" in answer, answer
    return min(times[1:])  # the least disturbed by what else runs


def _measure() -> Reading:
    from graphmill.providers.local.files import stored_path  # noqa: PLC0415

    path = stored_path(_NAME)
    if not path.is_file():
        raise NotMeasuredError(f"no model; run: graphmill models pull {_NAME}")
    pairs = [(trial(ours, path=str(path)), trial(direct, path=str(path))) for _ in range(_REPETITIONS)]
    mine_s, bare_s = (median(column) for column in zip(*pairs, strict=True))
    note = f"{mine_s * 1e3:.0f} ms a call, of {bare_s * 1e3:.0f} ms in llama.cpp itself; {_NAME}, one call at a time"
    return middle([(mine - bare) * 1e3 for mine, bare in pairs], note)


FIGURE = Figure(
    name="local-overhead",
    title="time that a call of a model on this machine takes above llama.cpp in the same process",
    bound="at most",
    target=None,
    form="{:.1f} ms",
    measure=_measure,
)
