"""``graphmill cache``: cached model responses, which are stored beside the journal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from graphmill.api.recording import cache_path
from graphmill.cli.options import Journal
from graphmill.cli.terminal import AsJson, print_json, print_lines
from graphmill.cli.values import age_s, parent_option
from graphmill.core.errors import UsageError
from graphmill.journal.cache import CacheFile
from graphmill.report.models_page import cache_lines, cache_record, none_here, responses
from graphmill.report.text import size_text

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")]

cache = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@cache.callback(invoke_without_command=True)
def _cache(context: typer.Context, *, as_json: AsJson = False, journal: Journal = None) -> None:
    """List, prune or clear cached model responses.

    Without a subcommand, lists them. The cache is a file beside the journal.

    Example: graphmill cache prune --older 30d
    """
    if context.invoked_subcommand is None:
        _list(context, as_json=as_json, journal=journal)


@cache.command("list")
def _list(context: typer.Context, *, as_json: AsJson = False, journal: Journal = None) -> None:
    """Show the number, size and age of cached responses by model.

    Example: graphmill cache list
    """
    path = _path(context, journal)
    with _opened(path) as found:
        holdings = [] if found is None else found.holdings()
    if as_json or parent_option(context, "as_json"):
        print_json(cache_record(path, holdings))
    else:
        print_lines(cache_lines(path, holdings, now=time.time()))


@cache.command()
def prune(
    context: typer.Context,
    *,
    older: Annotated[
        str,
        typer.Option(metavar="AGE", help="Only responses unused for this long: 90m, 12h, 30d, 2w.", show_default=False),
    ],
    dry_run: DryRun = False,
    as_json: AsJson = False,
    journal: Journal = None,
) -> None:
    """Delete responses that have not been used for a while (to the hour).

    Example: graphmill cache prune --older 30d --dry-run
    """
    _delete(context, age_s(older), dry_run=dry_run, as_json=as_json, journal=journal)


@cache.command()
def clear(context: typer.Context, *, dry_run: DryRun = False, as_json: AsJson = False, journal: Journal = None) -> None:
    """Delete all cached responses.

    Example: graphmill cache clear
    """
    _delete(context, None, dry_run=dry_run, as_json=as_json, journal=journal)


def _delete(
    context: typer.Context, older_s: float | None, *, dry_run: bool, as_json: bool, journal: str | None
) -> None:
    path = _path(context, journal)
    count = freed = 0
    with _opened(path) as found:
        if found is not None:
            count, freed = found.unused(older_s)
            if not dry_run:
                count = found.prune(older_s)
    if as_json or parent_option(context, "as_json"):
        print_json({"path": str(path), "responses": count, "bytes": freed, "is_dry_run": dry_run})
    elif found is None:
        print_lines([none_here(path)])
    else:
        verb = "would be deleted" if dry_run else "deleted"
        print_lines([f"{responses(count)} {verb}, {size_text(freed)}"])


@contextmanager
def _opened(path: Path) -> Iterator[CacheFile | None]:
    """Open the cache if there is one; looking does not create it."""
    try:
        found = CacheFile(path, clock=time.time, create=False)
    except FileNotFoundError:
        yield None
        return
    with closing(found):
        yield found


def _path(context: typer.Context, journal: str | None) -> Path:
    place = journal or parent_option(context, "journal")
    if place == "memory:":
        raise UsageError("--journal memory: has no cache; name a file")
    return cache_path(place)
