"""The workflow files that one compilation meets: each is read and compiled once, however often it is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from graphmill.core.errors import WorkflowError
from graphmill.graph.compiler.telling import tell
from graphmill.graph.document import Document
from graphmill.graph.graph import Graph
from graphmill.graph.problems import Problems
from graphmill.graph.spec import At, WorkflowSpec


class Child(NamedTuple):
    """A workflow that another uses; ``graph`` is None while there are problems."""

    spec: WorkflowSpec
    graph: Graph | None


_MOST_LEVELS = 50

Compile = Callable[[Document, At, Problems, "Library"], Child | None]


class Library:
    """Compiles documents, keeps what became of each file, and gathers the problems of them all in those of the first."""

    def __init__(self, compile_one: Compile) -> None:
        self._compile = compile_one
        self._known: dict[Path, Child | None] = {}
        self._open: dict[Path, str] = {}
        self._level = 0
        self._problems: list[Problems] = []

    @property
    def has_problems(self) -> bool:
        """Whether anything is wrong so far."""
        return any(problems.found for problems in self._problems)

    def document(self, document: Document) -> Child | None:
        """Compile a document; None if it is no workflow, which is told."""
        problems = Problems(document)
        self._problems.append(problems)
        if document.root is None:
            return self.inside(document, (), problems)
        path = _real(Path(document.path))
        self._open[path] = document.path
        try:
            return self.inside(document, (), problems)
        finally:
            del self._open[path]

    def file(self, path: Path) -> Child | None:
        """Compile a file, or give what became of it before. UsageError: there is no file."""
        key = _real(path)
        if key not in self._known:
            self._known[key] = self._read(path)
        return self._known[key]

    def inside(self, document: Document, at: At, problems: Problems) -> Child | None:
        """Compile a workflow that stands inside a document."""
        if self._level == _MOST_LEVELS:
            tell(problems, at, f"workflows run one another more than {_MOST_LEVELS} levels deep")
            return None
        self._level += 1
        try:
            return self._compile(document, at, problems, self)
        finally:
            self._level -= 1

    def chain_to(self, path: Path) -> str | None:
        """If a file is being compiled now, name the files that lead from it to itself."""
        key = _real(path)
        if key not in self._open:
            return None
        names = list(self._open)
        return " → ".join(self._open[each] for each in [*names[names.index(key) :], key])

    def gathered(self) -> Problems:
        """Give the problems and notes of all documents, with those of the first as its own."""
        first, *others = self._problems
        for problems in others:
            first.adopt(problems)
        return first

    def _read(self, path: Path) -> Child | None:
        try:
            document = Document.read(path)
        except WorkflowError as error:
            self._problems[0].adopt(error)
            return None
        return self.document(document)


def _real(path: Path) -> Path:
    """Give the one path by which a file is known, links followed; of what is no path at all, itself."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return path
