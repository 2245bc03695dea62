"""The progress bar of a batch that a program starts: on a terminal, and in notebooks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from typing import Any

from graphmill.core.errors import UsageError
from graphmill.engine.results.statistics import Progress
from graphmill.report.progress import progress_bar, progress_line

OnProgress = Callable[[Progress], Any] | None
_NOTEBOOK_WIDTH = 100


@contextmanager
def showing_progress(wanted: bool | None, on_progress: OnProgress) -> Iterator[OnProgress]:  # noqa: FBT001
    """Show a bar for the length of a block; yield what a run must call with its figures.

    With None it is shown on a terminal and in a notebook, unless the program itself follows the progress.
    """
    if wanted not in (None, True, False):
        raise UsageError(f"progress must be True, False or None, got {wanted!r:.80}")
    notebook = _notebook_display()
    if wanted is None:
        wanted = on_progress is None and (notebook is not None or _has_terminal())
    if not wanted:
        yield on_progress
    elif notebook is not None:
        yield _both(on_progress, _NotebookBar(notebook))
    else:
        with _terminal_bar() as show:
            yield _both(on_progress, show)


def _has_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _notebook_display() -> Any:
    """Return IPython's ``display`` in a notebook; None elsewhere, also in IPython on a terminal."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    return ipython.display.display  # type: ignore[union-attr]


def _both(on_progress: OnProgress, show: Callable[[Progress], None]) -> Callable[[Progress], Any]:
    if on_progress is None:
        return _on_loop(show)

    async def call(progress: Progress) -> None:
        show(progress)
        found = on_progress(progress)
        if isawaitable(found):
            await found

    return call


def _on_loop(show: Callable[[Progress], None]) -> Callable[[Progress], Any]:
    """Show it on the loop's thread: what another thread displays belongs to no cell of a notebook."""

    async def call(progress: Progress) -> None:
        show(progress)

    return call


class _NotebookBar:
    """One line below a cell, replaced by the next."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None

    def __call__(self, progress: Progress) -> None:
        """Show the newest figures."""
        shown = {"text/plain": progress_bar(progress, _NOTEBOOK_WIDTH).plain}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


@contextmanager
def _terminal_bar() -> Iterator[Callable[[Progress], None]]:
    """Show a moving line on standard error; without a terminal, a plain line for each reading."""
    from rich.console import Console  # noqa: PLC0415  a program that shows no bar need not load it
    from rich.live import Live  # noqa: PLC0415

    if not _has_terminal():
        yield lambda progress: _write(progress_line(progress))
        return
    console = Console(stderr=True)
    with Live(console=console, transient=True, auto_refresh=False, redirect_stdout=sys.stdout.isatty()) as live:
        yield lambda progress: live.update(progress_bar(progress, console.width), refresh=True)


def _write(line: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"{line}\n")
