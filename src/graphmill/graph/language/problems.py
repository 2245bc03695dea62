"""Collects every problem of a workflow, so that all are reported at once."""

from __future__ import annotations

from graphmill.core.errors import WorkflowError
from graphmill.core.positions import Problem
from graphmill.graph.language.document import Document
from graphmill.graph.language.places import At

_MOST = 1000  # nobody reads more, and to place each takes its time


class Problems:
    """Gathers every mistake of a workflow, and every note, before anything is raised."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.found: list[Problem] = []
        self.notes: list[Problem] = []
        self._left_out = 0

    def add(self, at: At, message: str, *, offset: int = 0, is_key: bool = False) -> None:
        """Tell a mistake of a part, or of its key; ``offset`` is where in its text."""
        if len(self.found) < _MOST:
            self.found.append(Problem(*self.document.place(at, offset=offset, is_key=is_key), message))
        else:
            self._left_out += 1

    def note(self, at: At, message: str, *, is_key: bool = False) -> None:
        """Tell what is no mistake, but means something else here than where it was written for."""
        if len(self.notes) < _MOST:
            self.notes.append(Problem(*self.document.place(at, is_key=is_key), message))

    def adopt(self, other: Problems | WorkflowError) -> None:
        """Take over what was found in another document, such as a child's, with its places."""
        if isinstance(other, WorkflowError):
            self.found.extend(other.placed)
        else:
            self.found.extend(other.found)
            self.notes.extend(other.notes)

    def raise_if_any(self) -> None:
        """Raise WorkflowError with all mistakes, each once, this document's first, in the order of places; notes raise nothing."""
        if not self.found:
            return
        problems = sorted(dict.fromkeys(self.found), key=self._order)
        more = [Problem(self.document.path, 0, 0, f"and {self._left_out} more")] if self._left_out else []
        raise WorkflowError(self.document.path, [*problems, *more])

    def _order(self, problem: Problem) -> tuple[bool, str, int, int]:
        return problem.file != self.document.path, problem.file, problem.line, problem.column
