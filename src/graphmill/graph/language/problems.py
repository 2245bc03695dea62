"""Collects every problem of a workflow, so that all are reported at once."""

from __future__ import annotations

from graphmill.core.errors import WorkflowError
from graphmill.core.positions import FileProblem
from graphmill.graph.language.document import Document
from graphmill.graph.language.places import At

_MAX_PROBLEMS = 1000  # nobody reads more, and finding the place of each takes time


class Problems:
    """Collects all problems and notes of a workflow before anything is raised."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.found: list[FileProblem] = []
        self.notes: list[FileProblem] = []
        self._left_out = 0

    def add(self, at: At, message: str, *, offset: int = 0, is_key: bool = False) -> None:
        """Report a problem with a part, or with its key; ``offset`` is a position in its text."""
        if len(self.found) < _MAX_PROBLEMS:
            self.found.append(FileProblem(*self.document.place(at, offset=offset, is_key=is_key), message))
        else:
            self._left_out += 1

    def note(self, at: At, message: str, *, is_key: bool = False) -> None:
        """Report what is not a mistake, but may not mean what its author expects."""
        if len(self.notes) < _MAX_PROBLEMS:
            self.notes.append(FileProblem(*self.document.place(at, is_key=is_key), message))

    def adopt(self, other: Problems | WorkflowError) -> None:
        """Add what was found in another document, such as a child's."""
        if isinstance(other, WorkflowError):
            self.found.extend(other.placed)
        else:
            self.found.extend(other.found)
            self.notes.extend(other.notes)

    def raise_if_any(self) -> None:
        """Raise WorkflowError with all problems, each once, sorted, this document's first; notes are not raised."""
        if not self.found:
            return
        problems = sorted(dict.fromkeys(self.found), key=self._order)
        if self._left_out:
            problems.append(FileProblem(self.document.path, 0, 0, f"and {self._left_out} more"))
        raise WorkflowError(self.document.path, problems)

    def _order(self, problem: FileProblem) -> tuple[bool, str, int, int]:
        return problem.file != self.document.path, problem.file, problem.line, problem.column
