"""The SQL of this store, read once from the named blocks of its files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from graphmill.journal.sqlite.rows import SELDOM

MANY = 500  # keys looked up at once
SOME = 50  # rows read at once, bodies and all: memory holds no more of them
_BLOCK = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)


def _load() -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted((Path(__file__).parent / "sql").glob("*.sql")):
        for name, text in _BLOCK.findall(path.read_text(encoding="utf-8")):
            if name in found:
                raise ValueError(f"{path}: the block {name} occurs twice")
            found[name] = text.strip().rstrip(";").replace("@many", _marks(MANY)).replace("@some", _marks(SOME))
    return found


def padded(values: Sequence[object], length: int) -> list[object]:
    """Fill up with NULL, which no IN finds, so that a statement has one text for any number of values."""
    return [*values, *[None] * (length - len(values))]


def _marks(count: int) -> str:
    return ",".join("?" * count)


SQL = _load()


def _for_many(name: str, *counts: int) -> dict[int, dict[int, str]]:
    """Make inserts of many rows out of one of a single row, by row count and then by number of values."""
    before, whole, after = re.split(r"VALUES (\(.*?\))", SQL[name], maxsplit=1)
    usual = whole.replace(", ?" * SELDOM + ")", ", NULL" * SELDOM + ")")
    made = {count: [f"{before}VALUES {', '.join([one] * count)}{after}" for one in (usual, whole)] for count in counts}
    return {count: {text.count("?"): text for text in texts} for count, texts in made.items()}


# One statement for many rows keeps Python's lock for one moment, not for one moment a row: the run goes on beside it.
_COUNTS = (64, 32, 16, 8, 4, 2, 1)
INSERT_RESULTS = _for_many("insert_result", *_COUNTS)
INSERT_STEPS = _for_many("insert_step", *_COUNTS)
ADD_RESULTS = _for_many("add_result", *range(1, 9))
