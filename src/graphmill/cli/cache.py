"""``graphmill cache``: the answers of models that are kept beside the journal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from graphmill.api.recording import cache_of
from graphmill.cli.age import age_s
from graphmill.cli.answer import AsJson, tell, tell_json
from graphmill.cli.journal import Journal, outer
from graphmill.core.errors import UsageError
from graphmill.journal.sqlite.cache_file import CacheFile
from graphmill.report.models_page import answers, cache_lines, cache_record, none_here
from graphmill.report.text import size

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say how many would go.")]

cache = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@cache.callback(invoke_without_command=True)
def _cache(context: typer.Context, *, as_json: AsJson = False, journal: Journal = None) -> None:
    """List, prune or clear the answers of models that are kept.

    Without a word behind it, it lists them. They lie beside the journal.

    Example: graphmill cache prune --older 30d
    """
    if context.invoked_subcommand is None:
        _list(context, as_json=as_json, journal=journal)


@cache.command("list")
def _list(context: typer.Context, *, as_json: AsJson = False, journal: Journal = None) -> None:
    """Tell how many answers are kept of each model, how large and how old.

    Example: graphmill cache list
    """
    path = _path(context, journal)
    with _opened(path) as found:
        holdings = [] if found is None else found.holdings()
    if as_json or outer(context, "as_json"):
        tell_json(cache_record(path, holdings))
    else:
        tell(cache_lines(path, holdings, now=time.time()))


@cache.command()
def prune(
    context: typer.Context,
    *,
    older: Annotated[
        str,
        typer.Option(
            metavar="AGE", help="Only answers unused for this long, such as 30d; s, m, h, d or w.", show_default=False
        ),
    ],
    dry_run: DryRun = False,
    as_json: AsJson = False,
    journal: Journal = None,
) -> None:
    """Forget the answers that nobody has used for long; a use counts to the hour.

    Example: graphmill cache prune --older 30d --dry-run
    """
    _forget(context, age_s(older), dry_run=dry_run, as_json=as_json, journal=journal)


@cache.command()
def clear(context: typer.Context, *, dry_run: DryRun = False, as_json: AsJson = False, journal: Journal = None) -> None:
    """Forget all answers.

    Example: graphmill cache clear
    """
    _forget(context, None, dry_run=dry_run, as_json=as_json, journal=journal)


def _forget(
    context: typer.Context, older_s: float | None, *, dry_run: bool, as_json: bool, journal: str | None
) -> None:
    path = _path(context, journal)
    with _opened(path) as found:
        count, freed = (0, 0) if found is None else found.unused(older_s)
        if found is not None and not dry_run:
            count = found.prune(older_s)
    if as_json or outer(context, "as_json"):
        tell_json({"path": str(path), "answers": count, "bytes": freed, "is_dry_run": dry_run})
    elif found is None:
        tell([none_here(path)])
    else:
        tell([f"{answers(count)} {'would be ' if dry_run else ''}forgotten, {size(freed)}"])


@contextmanager
def _opened(path: Path) -> Iterator[CacheFile | None]:
    """Open the cache, if there is one: none is made by being looked for."""
    try:
        found = CacheFile(path, clock=time.time, create=False)
    except FileNotFoundError:
        yield None
        return
    with closing(found):
        yield found


def _path(context: typer.Context, journal: str | None) -> Path:
    place = journal or outer(context, "journal")
    if place == "memory:":
        raise UsageError("a journal in memory has no answers beside it; name a file")
    return cache_of(place)
