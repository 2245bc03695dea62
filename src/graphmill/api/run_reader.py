"""Read a recorded run from Python: its results, its traces, its manifest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphmill.api.recording import JournalRef, open_briefly
from graphmill.core.errors import UsageError
from graphmill.core.result import Result, Status, Trace
from graphmill.core.suggest import suggestion
from graphmill.core.usage import RunUsage
from graphmill.journal.item_name import find_item
from graphmill.journal.journal import Journal
from graphmill.journal.records import Query
from graphmill.journal.store import fixed
from graphmill.report.item.steps import trace_of_item
from graphmill.report.scores import figures_of_run, scored_entries
from graphmill.scoring.figures import ScoreFigures


class RunReader:
    """Reads one run, also while it is live: each iteration opens the journal, and returns what is recorded by then."""

    def __init__(self, run_id: str, journal: JournalRef | None = None) -> None:
        self._journal: JournalRef = journal if isinstance(journal, Journal) else fixed(journal)
        with open_briefly(self._journal) as opened:
            run = opened.archive.find(run_id)
        self._id = run.id
        self._manifest = run.manifest

    def __repr__(self) -> str:
        return f"<RunReader: run {self._id}>"

    @property
    def id(self) -> str:
        """The whole id of the run."""
        return self._id

    @property
    def manifest(self) -> Mapping[str, Any]:
        """What the run was started with, as plain data."""
        return self._manifest

    @property
    def usage(self) -> RunUsage:
        """What it has used and cost by now, by model; ``.roles`` and ``.nodes`` are the same by who called."""
        with open_briefly(self._journal) as opened:
            return opened.archive.find(self._id).usage

    def results(self, *, status: str | None = None, offset: int = 0, limit: int | None = None) -> Iterator[Result]:
        """Iterate over the results in input order, read as they are needed: all, or those of one status.

        In a scored run each has its scores by scorer, as ``metadata["scores"]``.
        """
        query = _query(status, offset, limit)
        with open_briefly(self._journal) as opened:
            run = opened.archive.find(self._id)
            for entry in scored_entries(opened.archive, run, query):
                yield entry.result

    def scores(self, *, by: Sequence[str] | str = (), cluster: str | None = None) -> list[ScoreFigures]:
        """Return the figures of each scorer of the run, also ``by`` fields of its items, such as "level".

        ``cluster`` names a field whose values are shared by items that depend on one another: intervals are then over
        these.
        """
        fields = [by] if isinstance(by, str) else list(by)
        with open_briefly(self._journal) as opened:
            return figures_of_run(opened.archive, opened.archive.find(self._id), by=fields, cluster=cluster)

    def traces(self, *, status: str | None = None, offset: int = 0, limit: int | None = None) -> Iterator[Trace]:
        """Iterate over the traces of items that have a result, in input order, read as they are needed."""
        query = _query(status, offset, limit)
        with open_briefly(self._journal) as opened:
            run = opened.archive.find(self._id)
            for history in opened.archive.histories(run, query):
                yield trace_of_item(run, history)

    def trace(self, item: str) -> Trace:
        """Return the trace of one item, named by its id, its row number or the start of its id."""
        with open_briefly(self._journal) as opened:
            run = opened.archive.find(self._id)
            found = find_item(opened.archive, run, str(item), with_calls=True)
        if not found.history.entries:
            raise UsageError(f"item {found.id!r:.80} of run {self._id} has no result yet")
        return trace_of_item(run, found.history)


def open_run(run_id: str, journal: JournalRef | None = None) -> RunReader:
    """Open a recorded run for reading, by its id or a unique start of it; UnknownRunError if there is none."""
    return RunReader(run_id, journal)


def _query(status: str | None, offset: int, limit: int | None) -> Query:
    for name, number in (("offset", offset), ("limit", limit)):
        if number is not None and (type(number) is not int or number < 0):
            raise UsageError(f"{name} must be an integer >= 0, got {number!r:.80}")
    if status is None:
        return Query(offset=offset, limit=limit)
    final = [str(each) for each in Status if each.is_final]
    if status not in final:
        raise UsageError(f"no status {status!r:.80}{suggestion(str(status), final)}; results have {', '.join(final)}")
    return Query(statuses=frozenset({Status(status)}), offset=offset, limit=limit)
