"""How much memory a batch node over long texts needs, against the texts themselves."""

from __future__ import annotations

import graphmill as gm
from benchmarks.figure import Figure, Reading, middle
from benchmarks.memory import MB, peak_bytes
from benchmarks.streaming import require
from benchmarks.trial import trial
from benchmarks.workflow import WORKFLOWS, output_of

_ITEMS = 1000
_LENGTH = 130_000
_TEXTS_MB = 2 * _ITEMS * _LENGTH / MB


def peak() -> float:
    """Tell the most memory, in MB, that this process has had once the batch is through."""
    output = output_of(gm.load(WORKFLOWS / "texts.yaml"), count=_ITEMS, length=_LENGTH)
    require(_ITEMS, sum(len(entry["result"]) == _LENGTH for entry in output["texts"]))
    return peak_bytes() / MB


def _measure() -> Reading:
    most = trial(peak)
    return middle([most / _TEXTS_MB], f"{most:.0f} MB, all of the process; {_TEXTS_MB:.0f} MB of items and results")


FIGURE = Figure(
    name="batch-memory",
    title="resident memory of a batch node over 1,000 texts of 130 kB, over the bytes of items and results",
    bound="at most",
    target=2.5,
    form="{:.2f} ×",
    measure=_measure,
)
