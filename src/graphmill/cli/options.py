"""Options that more than one command has."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

SourceFormat = Annotated[
    str | None, typer.Option("--source-format", metavar="FORMAT", help="jsonl, json, yaml or csv, where the name does not say.")
]
Concurrency = Annotated[int | None, typer.Option("--concurrency", "-c", metavar="N", help="Attempts at once.", show_default=False)]
WhenChanged = Annotated[
    Literal["refuse", "invalidate", "keep"],
    typer.Option(
        "--on-change", help="If the workflow or an item is not what it was: refuse, do again what it concerns, or keep old results."
    ),
]
Output = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write results here: .jsonl, .json, .csv, or - for standard output."),
]
