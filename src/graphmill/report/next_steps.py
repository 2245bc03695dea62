"""The commands that go on from where a run stands."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from graphmill.core.job import JOB_ID
from graphmill.core.result import Kind, Status
from graphmill.journal.records import RunState
from graphmill.report.run_view import RunView
from graphmill.report.text import counted, shown

_ID_CHARS = 40
_COMMAND_CHARS = 37  # a longer one does not push away what the others do


def next_lines(view: RunView, *, is_written: bool = False) -> list[str]:
    """Name the commands that make sense now, each with what it does; to export it is none where its rows are written already."""
    steps = list(_steps(view, is_written=is_written))
    width = max((len(command) for command, _ in steps if len(command) <= _COMMAND_CHARS), default=0)
    return [f"{command:<{width}}   {does}" for command, does in steps]


def retry_lines(view: RunView, failed: int, kind: Kind | None) -> list[str]:
    """Name the command that runs the failed items again, unless each is a job with a graph of its own."""
    if view.is_of_jobs:
        return []
    only = ("", "") if kind is None else (f" --kind {kind}", f", kinds=[{str(kind)!r}]")
    again = (
        f"graphmill retry {quote(view.name)}{only[0]}"
        if view.has_graph
        else f"gm.retry({view.name!r}, graph=function{only[1]})"
    )
    return [f"{again}   runs {_items(failed, 'failed ')} again"]


def _steps(view: RunView, *, is_written: bool) -> Iterator[tuple[str, str]]:
    name = quote(view.name)
    if view.run.state.is_live:
        yield f"graphmill status {name} --watch", "follows it"
        yield f"graphmill cancel {name}", "ends it"
    if view.waiting and not view.run.state.is_live and view.run.state is not RunState.CANCELLED:
        yield _answering(view, name)
    if view.can_go_on and (view.left or not view.waiting or view.run.state is RunState.INTERRUPTED):
        yield _going_on(view, name)
        if view.is_held_by_model and view.can_be_opened:
            yield f"graphmill resume {name} --model OTHER", "goes on with another model"
    if view.is_single:
        yield f"graphmill show {name} {JOB_ID}", "shows the job and its steps"
    elif view.failed or view.degraded:
        yield (
            f"graphmill errors {name}",
            "tells what failed, and why" if view.failed else "tells which items are degraded",
        )
    if view.failed and not view.run.state.is_live:
        yield from _again(view, name)
    if view.done and not view.is_single and not is_written:
        yield f"graphmill export {name} FILE", f"writes {counted(view.done, 'row')}, as .jsonl, .json or .csv"


def _going_on(view: RunView, name: str) -> tuple[str, str]:
    does = f"goes on with {_items(view.left)} to do" if view.left else "goes on with it"
    if view.needs_source:
        return f"graphmill resume {name} --source FILE", f"{does}; its items came by standard input"
    if not view.can_be_opened:
        return _in_program(view), "goes on with it, in the program that has them"
    return f"graphmill resume {name}", does


def _answering(view: RunView, name: str) -> tuple[str, str]:
    count, item = view.counts.get(Status.PAUSED, 0), view.waiting[0].job_id
    does = f"answers {_items(count)} that {'waits' if count == 1 else 'wait'}"
    if not (view.can_be_opened or view.needs_source):
        return _in_program(view, f", answers={{{shown(item, _ID_CHARS)!r}: …}}"), does
    source = " --source FILE" if view.needs_source else ""
    return f"graphmill resume {name}{source} --answer {quote(shown(item, _ID_CHARS))}=VALUE", does


def _in_program(view: RunView, more: str = "") -> str:
    call = "BatchExecutor(journal=…).start(jobs" if view.is_of_jobs else "gm.batch(function, items"
    return f"{call}, run_id={view.name!r}{more})"


def _again(view: RunView, name: str) -> Iterator[tuple[str, str]]:
    doubtful = view.kinds.get(Kind.AMBIGUOUS, 0)
    if view.failed > doubtful and not view.is_of_jobs:
        again = f"graphmill retry {name}" if view.has_graph else f"gm.retry({view.name!r}, graph=function)"
        yield again, f"runs {_items(view.failed - doubtful, 'failed ')} again"
    if doubtful:
        yield (
            f"graphmill errors {name} --kind ambiguous",
            f"tells which {doubtful:,} may have happened; retry --item ID runs one again",
        )


def _items(count: int, word: str = "") -> str:
    return f"the {word}item" if count == 1 else f"the {count:,} {word}items"
