"""Options that more than one command has."""

from __future__ import annotations

from typing import Annotated

import typer

from graphmill.engine.policy import Policy
from graphmill.journal.intake import OnChange

_DEFAULTS = Policy()
RETRIES = _DEFAULTS.retry.attempts - 1
TIMEOUT_S = _DEFAULTS.timeout_s

SourceFormat = Annotated[
    str | None,
    typer.Option("--source-format", metavar="FORMAT", help="jsonl, json, yaml or csv, where the name does not say."),
]
Concurrency = Annotated[
    int | None, typer.Option("--concurrency", "-c", metavar="N", help="Attempts at once.", show_default=False)
]
Retries = Annotated[int, typer.Option(metavar="N", help="Tries after the first, for failures that may pass.", min=0)]
Timeout = Annotated[float | None, typer.Option(metavar="S", help="Seconds for one attempt.")]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME|ROLE=NAME",
        help="The model of all nodes that ask one, or of those of a role.",
        show_default=False,
    ),
]
Temperature = Annotated[
    float | None, typer.Option(metavar="T", help="The temperature of all nodes that ask a model.", min=0, max=100)
]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", metavar="N", help="The most tokens of an answer of a model.", min=1)
]
Seed = Annotated[
    int | None, typer.Option(metavar="N", help="The seed of all nodes that ask a model.", show_default=False)
]
Cache = Annotated[
    bool | None,
    typer.Option(
        "--cache/--no-cache",
        help="Use answers that are known at any temperature, or none; without it, as written.",
        show_default=False,
    ),
]
_WHEN_CHANGED = "If the workflow or an item is not what it was: refuse, do again what it concerns, or keep old results."
WhenChanged = Annotated[OnChange, typer.Option("--on-change", help=_WHEN_CHANGED)]
WhenResumed = Annotated[
    OnChange | None,
    typer.Option(
        "--on-change",
        help=f"{_WHEN_CHANGED} Without it a change is refused, but one of --model alone is kept.",
        show_default=False,
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write results here: .jsonl, .json, .csv, or - for standard output."
    ),
]
