"""How many bytes of the journal a recorded conversation takes, for each byte that was sent to models."""

from __future__ import annotations

import json
import os
from contextlib import closing
from functools import cache
from pydoc_data.topics import topics

import graphmill as gm
from benchmarks.durable import fresh_folder
from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import require
from benchmarks.trial import trial
from graphmill.core.model_call import ModelRequest

_ITEMS = 1000
_CONCURRENCY = 50
_SYSTEM, _PROBLEM, _ANSWER, _CRITIQUE = 1200, 600, 500, 250  # characters of real English, none of them twice
_SETTINGS = "providers: {scripted: {address: 'benchmarks.prompt_bytes:answer'}}\n"
_REPETITIONS = 3


@cache
def _english() -> str:
    return " ".join(" ".join(topics.values()).split())


def _text(place: int, chars: int) -> str:
    """Give a text of its own for each place, as far as there is English to go round."""
    start = place * (_PROBLEM + _ANSWER + _CRITIQUE) % (len(_english()) - chars)
    return _english()[start : start + chars]


_HEAD = "You solve problems step by step, check each step, and give the final answer alone on the last line.\n"
_PROMPTS = {
    "solver": "Solve this problem. Think first; then write the answer.\n\nProblem:\n",
    "verifier": "Check the answer below. Name the first wrong step, if there is one, and rate it from 0 to 1.\n\nProblem:\n",
}


def answer(request: ModelRequest) -> str:
    """Answer as a solver and as a verifier would, at the usual lengths."""
    number = int(request.origin.item)
    if request.messages[-1].text.startswith(_PROMPTS["solver"]):
        return _text(2 * number, _ANSWER)
    return json.dumps({"passed": True, "score": 0.8, "critique": _text(2 * number + 1, _CRITIQUE)})


async def _solve(item: dict[str, str]) -> str:
    problem = item["problem"]
    solved = await gm.complete("scripted/m", _PROMPTS["solver"] + problem, system=_system("solver"))
    asked = f"{_PROMPTS['verifier']}{problem}\n\nAnswer:\n{solved.text}"
    return str((await gm.complete("scripted/m", asked, system=_system("verifier"))).text)


def _system(role: str) -> str:
    return _HEAD + _english()[-_SYSTEM:] + role


def _sent() -> int:
    """Tell how many bytes of messages the two calls of all items send."""
    each = sum(len(_system(role)) + len(prompt) for role, prompt in _PROMPTS.items())
    return _ITEMS * (each + 2 * _PROBLEM + _ANSWER + len("\n\nAnswer:\n"))


def journal_bytes(*, record_prompts: bool) -> float:
    """Tell the bytes of all files of a store in which one run was recorded."""
    with fresh_folder() as folder:
        (folder / "graphmill.yaml").write_text(_SETTINGS)
        os.chdir(folder)
        items = [{"id": str(number), "problem": _text(number + 3 * _ITEMS, _PROBLEM)} for number in range(_ITEMS)]
        with closing(gm.open_journal(folder / "runs.db")) as journal:
            report = gm.batch(
                _solve, items, concurrency=_CONCURRENCY, journal=journal, run_id="b", record_prompts=record_prompts
            )
            require(_ITEMS, report.statistics.succeeded)
        size = sum(path.stat().st_size for path in folder.rglob("*.db*"))
        os.chdir("/")
        return size


def _measure() -> Reading:
    without = trial(journal_bytes, record_prompts=False)
    taken = [trial(journal_bytes, record_prompts=True) - without for _ in range(_REPETITIONS)]
    note = f"{_sent() / 1e6:.1f} MB sent by {2 * _ITEMS:,} calls took {taken[0] / 1e6:.2f} MB, with their answers"
    return middle([each / _sent() for each in taken], note)


FIGURE = Figure(
    name="prompt-bytes",
    title="bytes that recorded conversations add to the journal, for each byte sent to a model",
    bound="at most",
    target=0.5,
    form="{:.2f} bytes",
    measure=_measure,
)
