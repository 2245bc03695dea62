"""The workflow files that one compilation meets: each is read and compiled once, however often it is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from graphmill.core.errors import UsageError, WorkflowError
from graphmill.graph.compiled import Graph
from graphmill.graph.document import Document
from graphmill.graph.problems import Problems
from graphmill.graph.spec import At, WorkflowSpec


class Child(NamedTuple):
    """A workflow that another uses; ``graph`` is None while there are problems."""

    spec: WorkflowSpec
    graph: Graph | None


Compile = Callable[[Document, At, Problems, "Library"], Child | None]


class Library:
    """Compiles files, keeps what became of them, and gathers the problems of them all."""

    def __init__(self, compile_one: Compile) -> None:
        self._compile = compile_one
        self._known: dict[Path, Child | None] = {}
        self._open: dict[Path, str] = {}
        self._problems: list[Problems] = []
        self._unread: list[str] = []

    @property
    def has_problems(self) -> bool:
        """Whether anything is wrong so far."""
        return bool(self._unread) or any(problems.found for problems in self._problems)

    def chain_to(self, path: Path) -> str | None:
        """If a file is being compiled now, give the files that lead from it to itself."""
        names = list(self._open)
        return None if path not in self._open else " → ".join([*(self._open[each] for each in names[names.index(path) :]), self._open[path]])

    def file(self, path: Path) -> Child | None:
        """Compile a file, or give what became of it before; None if it is no workflow, which is told. UsageError: there is no file."""
        key = path.resolve()
        if key not in self._known:
            self._known[key] = self._read(path)
        return self._known[key]

    def document(self, document: Document) -> Child | None:
        """Compile a document."""
        key = None if document.root is None else Path(document.path).resolve()
        if key is not None:
            self._open[key] = document.path
        problems = Problems(document)
        self._problems.append(problems)
        try:
            return self._compile(document, (), problems, self)
        finally:
            if key is not None:
                del self._open[key]

    def inline(self, document: Document, at: At, problems: Problems) -> Child | None:
        """Compile a workflow that stands inside another."""
        return self._compile(document, at, problems, self)

    def _read(self, path: Path) -> Child | None:
        try:
            document = Document.read(path)
        except WorkflowError as error:
            self._unread.extend(error.problems)
            return None
        return self.document(document)

    def raise_if_any(self, path: str) -> None:
        """Raise WorkflowError with the problems of all files, each once."""
        ...


__all__ = ["Child", "Library", "UsageError"]
