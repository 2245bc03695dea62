"""The one table of all figures, as text, Markdown and JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.figure import Figure, Reading

_HEADINGS = ("figure", "target", "result", "reached", "lowest – highest", "note")

Entries = list[tuple[Figure, Reading]]


def as_markdown(entries: Entries) -> str:
    """Write the table of all figures and, below it, the tables some have of their own."""
    details = [reading.detail for _, reading in entries if reading.detail]
    return "\n\n".join([columns([_HEADINGS, *(_row(figure, reading) for figure, reading in entries)]), *details])


def columns(rows: list[tuple[str, ...]]) -> str:
    """Write a table whose first row is its heading; its columns line up, so that it reads as plain text too."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    ruled = [rows[0], tuple("-" * width for width in widths), *rows[1:]]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in ruled
    )


def save(entries: Entries, machine: dict[str, str], folder: Path) -> None:
    """Write the table and the machine beside each other, for people and for programs."""
    folder.mkdir(exist_ok=True)
    about = "\n".join(f"- {name}: {value}" for name, value in machine.items())
    (folder / "latest.md").write_text(f"# Benchmarks\n\n{as_markdown(entries)}\n\n{about}\n", encoding="utf-8")
    record = {"machine": machine, "figures": [_record(figure, reading) for figure, reading in entries]}
    (folder / "latest.json").write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _row(figure: Figure, reading: Reading) -> tuple[str, ...]:
    is_reached = "yes" if figure.is_reached(reading) else "NO"
    return (
        figure.title,
        figure.render_target(),
        figure.render(reading.value),
        is_reached,
        _spread(figure, reading),
        reading.note,
    )


def _spread(figure: Figure, reading: Reading) -> str:
    if reading.repetitions < 2:
        return "one run" if reading.repetitions else "–"
    return f"{figure.render(reading.lowest)} – {figure.render(reading.highest)}"


def _record(figure: Figure, reading: Reading) -> dict[str, object]:
    return {
        "name": figure.name,
        "title": figure.title,
        "bound": figure.bound,
        "target": figure.target,
        "is_reached": figure.is_reached(reading),
        **asdict(reading),
    }
