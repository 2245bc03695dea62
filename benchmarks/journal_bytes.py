"""How many bytes the journal takes for a small item."""

from __future__ import annotations

from contextlib import closing

import graphmill as gm
from benchmarks.durable import fresh_folder
from benchmarks.figure import Figure, Reading, middle
from benchmarks.streaming import require
from benchmarks.trial import trial

_ITEMS = 20_000
_CONCURRENCY = 100
_BODY_BYTES = 100
_OUTPUT = {"text": "y" * (_BODY_BYTES - len('{"text":""}'))}


async def _answer(item: dict[str, str]) -> dict[str, str]:
    del item
    return _OUTPUT


def _item(number: int) -> dict[str, str]:
    name = f"item-{number:06d}"
    return {"id": name, "text": "x" * (_BODY_BYTES - len(f'{{"id":"{name}","text":""}}'))}


def each() -> float:
    """Tell the bytes, for each item, of all files of a store in which one run was recorded."""
    with fresh_folder() as folder:
        with closing(gm.open_journal(folder / "runs.db")) as journal:
            report = gm.batch(
                _answer, map(_item, range(_ITEMS)), concurrency=_CONCURRENCY, journal=journal, run_id="benchmark"
            )
            require(_ITEMS, report.statistics.succeeded)
        return sum(path.stat().st_size for path in folder.rglob("*")) / _ITEMS


def _measure() -> Reading:
    return middle([trial(each)], f"{2 * _BODY_BYTES} of them are the item's own")


FIGURE = Figure(
    name="journal-bytes",
    title="bytes of all files of the journal for an item of 100 bytes in and 100 bytes out",
    bound="at most",
    target=700,
    form="{:.0f} bytes",
    measure=_measure,
)
