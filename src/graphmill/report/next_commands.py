"""The commands that make sense next for a run, each with what it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote

from graphmill.core.job import JOB_ID
from graphmill.core.result import Kind, Status, StopReason
from graphmill.journal.records import HELD, RunState
from graphmill.report.run_view import KINDS_OF_ANSWERS, RunView
from graphmill.report.text import count_text, one_line

_ID_CHARS = 40
_COMMAND_CHARS = 37  # a longer command does not widen the column for the others


def next_lines(view: RunView, *, is_written: bool = False) -> list[str]:
    """Name the commands that make sense now, each with what it does; no export if the rows ``is_written`` already."""
    return _step_lines(list(_next_steps(view, is_written=is_written)))


def retry_lines(view: RunView, failed: int, kind: Kind | None) -> list[str]:
    """Name the commands that run failed and partial items again."""
    return _step_lines(list(_retry_steps(view, failed, kind)))


def _step_lines(steps: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(command) for command, _ in steps if len(command) <= _COMMAND_CHARS), default=0)
    return [f"{command:<{width}}   {does}" for command, does in steps]


def _retry_steps(view: RunView, failed: int, kind: Kind | None = None) -> Iterator[tuple[str, str]]:
    if view.is_of_jobs:  # each brought its own graph
        return
    unanswered = view.unanswered if kind in (None, *KINDS_OF_ANSWERS) else 0
    if failed > unanswered:
        yield _retry_command(view, kind), f"runs {_items(failed - unanswered, 'failed ')} again"
    if unanswered:
        yield _retry_command(view, kind, resample=True), _asks_again(view)
    if view.partial and kind is None:
        yield _retry_command(view, partial=True), f"runs {_items(view.partial, 'partial ')} again"


def _asks_again(view: RunView) -> str:
    answers = "answer that was" if view.unanswered == 1 else f"{view.unanswered:,} answers that were"
    return f"also asks again for the {answers} refused, cut or did not fit"


def _retry_command(view: RunView, kind: Kind | None = None, *, partial: bool = False, resample: bool = False) -> str:
    command, call = f"graphmill retry {quote(view.name)}", f"gm.retry({view.name!r}, graph=function"
    if kind is not None:
        command, call = f"{command} --kind {kind}", f"{call}, kinds=[{str(kind)!r}]"
    if partial:
        command, call = f"{command} --partial", f"{call}, partial=True"
    if resample:
        command, call = f"{command} --resample", f"{call}, resample=True"
    return command if view.has_graph else f"{call})"


def _next_steps(view: RunView, *, is_written: bool) -> Iterator[tuple[str, str]]:
    name, run = quote(view.name), view.run
    if run.is_live:
        yield f"graphmill status {name} --watch", "follows it"
        yield f"graphmill cancel {name}", "ends it"
    if view.waiting and not run.is_live and run.state is not RunState.CANCELLED:
        yield _answer_step(view, name)
    if view.can_resume and (view.left or not view.waiting or run.is_interrupted):
        yield _resume_step(view, name)
        if view.waits_for_model and view.can_reopen:
            yield f"graphmill resume {name} --model OTHER", "continues with another model"
    yield from _look_steps(view, name)
    if not run.is_live:
        ambiguous = view.kinds.get(Kind.AMBIGUOUS, 0)
        yield from _retry_steps(view, view.failed - ambiguous)
        if ambiguous:
            does = f"shows the {ambiguous:,} whose effect may have happened; retry --item ID runs one again"
            yield f"graphmill errors {name} --kind ambiguous", does
    if view.done + view.outdated and not view.is_single and not is_written:
        yield (
            f"graphmill export {name} FILE",
            f"writes {_rows_text(view)}, as .jsonl, .json, .csv or .parquet",
        )


def _rows_text(view: RunView) -> str:
    rows = count_text(view.done + view.outdated, "row")
    return f"{rows}, {view.outdated:,} of them outdated" if view.outdated else rows


def _look_steps(view: RunView, name: str) -> Iterator[tuple[str, str]]:
    if view.is_single:
        yield f"graphmill show {name} {JOB_ID}", "shows the job and its steps"
    elif view.failed:
        yield f"graphmill errors {name}", "shows what failed, and why"
    elif view.degraded or view.partial:
        flags = " or ".join(flag for flag in ("degraded", "partial") if getattr(view, flag))
        yield f"graphmill errors {name}", f"shows which items are {flags}"


def _resume_step(view: RunView, name: str) -> tuple[str, str]:
    does = f"continues with {_items(view.left, 'pending ')}" if view.left else "continues it"
    if view.has_broken_source:
        does = f"after the source is corrected, {does}"
    if view.run.status == HELD:
        return f"graphmill resume {name}", f"{does}, in its own process"
    if view.needs_source:
        return f"graphmill resume {name} --source FILE", f"{does}; its items came from standard input"
    if view.run.is_pass and not view.can_reopen:
        return f"gm.score({view.run.scored_id!r}, scorer)", "continues it, in the program that has the scorer"
    if not view.can_reopen:
        more = ", policy=gm.Policy(budget_usd=MORE)" if view.run.status.cause == StopReason.BUDGET else ""
        return _in_program(view, more), "continues it, in the program that has the function and the items"
    if view.run.status.cause == StopReason.BUDGET:
        whole = "this scoring pass alone" if view.run.is_pass else "the whole run"
        return f"graphmill resume {name} --budget MORE", f"{does}; MORE is the budget of {whole}"
    return f"graphmill resume {name}", does


def _answer_step(view: RunView, name: str) -> tuple[str, str]:
    count = view.counts.get(Status.WAITING, 0)
    does = "answers the item that waits" if count == 1 else f"answers the {count:,} items that wait"
    item = one_line(view.waiting[0].job_id, _ID_CHARS)
    if not (view.can_reopen or view.needs_source):
        return _in_program(view, f", answers={{{item!r}: …}}"), does
    source = " --source FILE" if view.needs_source else ""
    return f"graphmill resume {name}{source} --answer {quote(item)}=VALUE", does


def _in_program(view: RunView, more: str = "") -> str:
    call = "BatchExecutor(journal=…).start(jobs" if view.is_of_jobs else "gm.batch(function, items"
    return f"{call}, run_id={view.name!r}{more})"


def _items(count: int, word: str) -> str:
    if count == 1:
        return f"the {word}item"
    return f"the {count:,} {word}items"
