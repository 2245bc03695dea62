"""What is wrong in a workflow, or only differs from what its author may expect: collected, then told all at once."""

from __future__ import annotations

from dataclasses import dataclass

from graphmill.core.errors import WorkflowError
from graphmill.graph.document import At, Document


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to tell about one place of a workflow."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        """Give 'file:line:column: message'; a workflow without a file has no line."""
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.message}"


class Problems:
    """Gathers every mistake of a workflow, and every note, before anything is raised."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.found: list[Problem] = []
        self.notes: list[Problem] = []

    def add(self, at: At, message: str, *, offset: int = 0) -> None:
        """Tell a mistake of a part; ``offset`` is where in its text."""
        self.found.append(self._problem(at, message, offset))

    def note(self, at: At, message: str) -> None:
        """Tell what is no mistake, but means something else here than where it was written for."""
        self.notes.append(self._problem(at, message, 0))

    def raise_if_any(self) -> None:
        """Raise WorkflowError with all mistakes, in the order of their places; notes raise nothing."""
        if self.found:
            raise WorkflowError(self.document.path, [str(problem) for problem in self.found])

    def _problem(self, at: At, message: str, offset: int) -> Problem:
        return Problem(*self.document.place(at, offset=offset), message)
