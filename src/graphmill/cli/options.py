"""Options that several commands share; ``values`` reads and checks what they are given."""

from __future__ import annotations

from typing import Annotated

import typer

from graphmill.api.rehearsal import rehearsing
from graphmill.engine.policy import Policy
from graphmill.journal.resume import OnChange

_DEFAULTS = Policy()
RETRIES = _DEFAULTS.retry.attempts - 1
TIMEOUT_S = _DEFAULTS.timeout_s

# -- recording

RunName = Annotated[str, typer.Argument(metavar="RUN", help="A run id, or the start of one.", show_default=False)]
_ITEM = "An item: its row number, its id, or the start of its id."
OptionalItem = Annotated[str | None, typer.Argument(metavar="ITEM", help=_ITEM, show_default=False)]
Journal = Annotated[
    str | None,
    typer.Option(
        "--journal",
        metavar="PATH|URL",
        help="Where runs are recorded. [default: $GRAPHMILL_JOURNAL, or .graphmill/runs.db]",
        show_default=False,
    ),
]
NoJournal = Annotated[bool, typer.Option("--no-journal", help="Record nothing. The run cannot be resumed.")]
NoPrompts = Annotated[
    bool, typer.Option("--no-record-prompts", help="Do not record what is sent to models and what they answer.")
]


def _begin_rehearsal(context: typer.Context, given: str | None) -> str | None:
    """Rehearse until the command ends; the option alone means answers from schemas and prompts."""
    context.with_resource(rehearsing(True if given == "" else given))
    return given


Rehearse = Annotated[
    str | None,
    typer.Option(
        "--rehearse",
        metavar="[FILE]",
        help="Call no model: answer from schemas and prompts, or by the rules in FILE (or module:function).",
        callback=_begin_rehearsal,
        show_default=False,
    ),
]
RunId = Annotated[
    str | None,
    typer.Option(
        "--run-id",
        metavar="ID",
        help="The id to record the run under. Resumes the run if it exists.",
        show_default=False,
    ),
]

# -- inputs and outputs

SourceFormat = Annotated[
    str | None,
    typer.Option(
        "--source-format", metavar="FORMAT", help="jsonl, json, yaml, csv, tsv or parquet. [default: by file name]"
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="NAME=COLUMN",
        help="Use a column under another name. Repeatable, or separated by commas.",
        show_default=False,
    ),
]
Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="FIELD=VALUE",
        help="Only rows with this value; FIELD may be in metadata. Repeatable.",
        show_default=False,
    ),
]
Shuffle = Annotated[int | None, typer.Option(metavar="SEED", help="Order the rows by this seed.", show_default=False)]
Sample = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Draw N rows, with the seed of --shuffle or 0, and keep their order.",
        min=0,
        show_default=False,
    ),
]
Stratify = Annotated[
    str | None,
    typer.Option(metavar="FIELD", help="With --sample: from each value of this field its share.", show_default=False),
]
Limit = Annotated[int | None, typer.Option(metavar="N", help="Run at most N items.", min=0)]
Offset = Annotated[int, typer.Option(metavar="N", help="Skip the first N items.", min=0, show_default=False)]
SkipBadRows = Annotated[
    bool, typer.Option("--skip-bad-rows", help="Leave out rows that cannot be read, and name them.")
]
InputsFile = Annotated[
    str | None,
    typer.Option(
        "--inputs",
        metavar="FILE",
        help="A .json or .yaml file of inputs by name. NAME=VALUE takes precedence.",
        show_default=False,
    ),
]
Answers = Annotated[
    list[str] | None,
    typer.Option(
        "--answer",
        metavar="ITEM=VALUE",
        help="Answer the question of a waiting item, as JSON or text. Repeatable.",
        show_default=False,
    ),
]
AnswersFile = Annotated[
    str | None,
    typer.Option(
        "--answers",
        metavar="FILE",
        help="A .json or .yaml file of answers by item. ITEM=VALUE takes precedence.",
        show_default=False,
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write results to a .jsonl, .json, .csv or .parquet file, or - (stdout)."
    ),
]

ShownColumns = Annotated[
    str | None,
    typer.Option(
        "--columns", metavar="NAME,NAME", help="Only these fields, such as id,label,input.text.", show_default=False
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Replace the --output file even if no run of this journal wrote it.")
]

# -- scores

By = Annotated[
    list[str] | None,
    typer.Option(metavar="FIELD", help="Scores by this field of the items too. Repeatable.", show_default=False),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="FIELD",
        help="Items with the same value in this field depend on one another; intervals are over these groups.",
        show_default=False,
    ),
]

# -- policy

Concurrency = Annotated[
    int | None, typer.Option("--concurrency", "-c", metavar="N", help="Maximum attempts at once.", show_default=False)
]
Adaptive = Annotated[
    bool | None,
    typer.Option(
        "--adaptive/--no-adaptive",
        help="Find the best concurrency below --concurrency, for everything or nothing. [default: for model calls]",
        show_default=False,
    ),
]
BudgetUsd = Annotated[
    float | None,
    typer.Option(
        "--budget",
        metavar="USD",
        help="The most that the run may cost, across resumes. It pauses when nothing more may start.",
        show_default=False,
    ),
]
Retries = Annotated[int, typer.Option(metavar="N", help="Retries after the first attempt.", min=0)]
Timeout = Annotated[float | None, typer.Option(metavar="S", help="Timeout of one attempt, in seconds.")]
_ON_CHANGE = "What to do if the workflow or an item changed: refuse, invalidate (redo affected results) or keep them."
WhenChanged = Annotated[OnChange, typer.Option("--on-change", help=_ON_CHANGE)]
WhenResumed = Annotated[
    OnChange | None,
    typer.Option("--on-change", help=f"{_ON_CHANGE} [default: refuse; with --model: keep]", show_default=False),
]

# -- models

Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        metavar="NAME|ROLE=NAME",
        help="The model of all nodes that call one, or of those with a role. Repeatable.",
        show_default=False,
    ),
]
Temperature = Annotated[
    float | None, typer.Option(metavar="T", help="Temperature of all nodes that call a model.", min=0, max=100)
]
MaxTokens = Annotated[
    int | None, typer.Option("--max-tokens", metavar="N", help="Maximum tokens of a model's response.", min=1)
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Seed of all nodes that call a model.", show_default=False)]
Cache = Annotated[
    bool | None,
    typer.Option(
        "--cache/--no-cache",
        help="Reuse cached responses at any temperature, or never. [default: as the workflow says]",
        show_default=False,
    ),
]
