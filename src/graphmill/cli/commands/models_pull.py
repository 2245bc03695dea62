"""``graphmill models pull``: download a model that runs on this machine."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from graphmill.cli.terminal import AsJson, ExitCode, print_error, print_json, print_lines, terminal_width
from graphmill.core.errors import Unavailable
from graphmill.providers.local.pull import PulledModel, pull_model
from graphmill.report.text import size_text


def models_pull(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Such as smollm2-135m, or owner/repository/file.gguf of the hub.")
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Download a model that runs on this machine, as local/NAME.

    Needs neither a key nor an account. A download that ended early is continued, and each file is checked by its
    SHA-256.

    Exit status: 0 success, 2 usage, 69 the download failed.

    Example: graphmill models pull smollm2-135m
    """
    line = _ProgressLine(name)
    try:
        pulled = pull_model(name, line.show)
    except Unavailable as error:
        line.end()
        print_error(error)
        raise typer.Exit(ExitCode.SERVICE) from None
    line.end()
    if as_json:
        print_json({"model": f"local/{name}", "path": str(pulled.path), "bytes": pulled.size, "is_new": pulled.is_new})
    else:
        print_lines([_said(name, pulled)])


def _said(name: str, pulled: PulledModel) -> str:
    what = "downloaded" if pulled.is_new else "already downloaded"
    return f"{what}: {pulled.path} ({size_text(pulled.size)}); use it with --model local/{name}"


class _ProgressLine:
    """One line on a terminal that is written again at each percent; nothing elsewhere."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_watched = terminal_width(sys.stderr) is not None
        self._percent = -1

    def show(self, done: int, total: int) -> None:
        """Show how much there is."""
        percent = 100 * done // max(total, 1)
        if self._is_watched and percent != self._percent:
            self._percent = percent
            sys.stderr.write(f"\r{self._name}: {percent} % of {size_text(total)} ")

    def end(self) -> None:
        """End the line if there is one."""
        if self._percent >= 0:
            sys.stderr.write("\n")
