"""What people answer to the questions of a run, as they give it: ITEM=VALUE, or a file that holds several."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from graphmill.cli.inputs import mapping_in
from graphmill.core.errors import UsageError

Answers = Annotated[
    list[str] | None,
    typer.Option(
        "--answer",
        metavar="ITEM=VALUE",
        help="Answer what this item waits with: JSON, or else text. May be given more than once.",
        show_default=False,
    ),
]
AnswersFile = Annotated[
    str | None,
    typer.Option(
        "--answers",
        metavar="FILE",
        help="Answers by item, as .json or .yaml; ITEM=VALUE wins over them.",
        show_default=False,
    ),
]


def answers_given(texts: Iterable[str], file: str | None) -> dict[str, Any]:
    """Give the answers by item."""
    found: dict[str, Any] = {}
    for text in texts:
        item, value = _answer(text)
        if item in found:
            raise UsageError(
                f"two answers to item {item!r:.80}; where it waits for several, give one mapping from their paths to answers"
            )
        found[item] = value
    if file is None:
        return found
    return {
        **mapping_in(Path(file), option="--answers", holds="answers are a mapping from the ids of items to values"),
        **found,
    }


def _answer(text: str) -> tuple[str, Any]:
    item, equals, value = text.partition("=")
    if not equals or not item:
        raise UsageError(f"an answer is written item=value, not {text!r:.80}")
    try:
        return item, json.loads(value)
    except (ValueError, RecursionError):
        return item, value
