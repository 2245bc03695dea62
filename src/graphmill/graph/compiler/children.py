"""Child workflows: found, compiled once per file, and their inputs and results checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from graphmill.core.errors import UsageError, WorkflowError
from graphmill.graph.compiler.checks import Types, is_vague, listed, make_inputs, nearest, tell
from graphmill.graph.compiler.templates import texts
from graphmill.graph.graph import Graph
from graphmill.graph.language.document import Document
from graphmill.graph.language.places import At
from graphmill.graph.language.problems import Problems
from graphmill.graph.language.spec import NodeSpec, WorkflowSpec
from graphmill.graph.node_type import NodeType
from graphmill.graph.secrets import mark_secrets

WORKFLOW = "workflow"
_SUFFIXES = (".yaml", ".yml", ".json")


class ChildWorkflow(NamedTuple):
    """A workflow that another uses; ``graph`` is None while there are problems."""

    spec: WorkflowSpec
    graph: Graph | None


Children = Mapping[At, ChildWorkflow]


_MOST_LEVELS = 50

Compile = Callable[[Document, At, Problems, "Library"], ChildWorkflow | None]


class Library:
    """Compiles documents, keeps what became of each file, and gathers the problems of them all in those of the first."""

    def __init__(self, compile_one: Compile) -> None:
        self._compile = compile_one
        self._known: dict[Path, ChildWorkflow | None] = {}
        self._open: dict[Path, str] = {}
        self._level = 0
        self._problems: list[Problems] = []

    @property
    def has_problems(self) -> bool:
        """Whether anything is wrong so far."""
        return any(problems.found for problems in self._problems)

    def document(self, document: Document) -> ChildWorkflow | None:
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

    def file(self, path: Path) -> ChildWorkflow | None:
        """Compile a file, or give what became of it before. UsageError: there is no file."""
        key = _real(path)
        if key not in self._known:
            self._known[key] = self._read(path)
        return self._known[key]

    def inside(self, document: Document, at: At, problems: Problems) -> ChildWorkflow | None:
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

    def _read(self, path: Path) -> ChildWorkflow | None:
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


def compile_children(spec: WorkflowSpec, types: Types, library: Library, problems: Problems) -> Children:
    """Compile each node's child; give those that could be read."""
    found: dict[At, ChildWorkflow] = {}
    for node in spec.nodes:
        if (
            child := _child(node, spec.document, library, problems) if _is_workflow(types[node.at]) else None
        ) is not None:
            found[node.at] = child
            _check_inputs(node, child.spec, problems)
    return found


def _is_workflow(node_type: NodeType[Any] | None) -> bool:
    return node_type is not None and node_type.name == WORKFLOW


def _child(node: NodeSpec, document: Document, library: Library, problems: Problems) -> ChildWorkflow | None:
    at = (*node.at, "params", "workflow")
    written = node.params.get("workflow")
    if isinstance(written, Mapping):
        return library.inside(document, at, problems)
    if not isinstance(written, str) or not written:
        return None  # the type's params say what is wanted
    try:
        return _file(_path(written, document), library)
    except UsageError as error:
        tell(problems, at, str(error))
        return None


def _file(path: Path, library: Library) -> ChildWorkflow | None:
    if (chain := library.chain_to(path)) is not None:
        raise UsageError(
            f"a workflow can not run itself: {chain}; what is to be repeated is a node with a `loop` block"
        )
    return library.file(path)


def _path(written: str, document: Document) -> Path:
    """Take a text with a slash or a known ending as a path, any other as the name of a file beside this one."""
    folder = Path(document.path).parent if document.root is not None else Path()
    if "/" in written or Path(written).suffix.lower() in _SUFFIXES:
        return folder / written
    there = (folder / f"{written}{suffix}" for suffix in _SUFFIXES)
    return next((path for path in there if _is_file(path)), folder / f"{written}{_SUFFIXES[0]}")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long, a folder that is closed: to read it will tell
        return False


def _check_inputs(node: NodeSpec, child: WorkflowSpec, problems: Problems) -> None:
    given = node.params.get("inputs") or {}
    if not isinstance(given, Mapping):
        return  # a template: known when it is resolved
    at = (*node.at, "params", "inputs")
    inputs = make_inputs(child)
    for name, value in given.items():
        if name not in inputs:
            has = list(inputs)
            tell(
                problems, (*at, name), f"the child has no input {name!r}{nearest(str(name), has)}; it has {listed(has)}"
            )
        elif _is_literal(value, at) and (problem := inputs[name].problem(value)):
            tell(problems, (*at, name), problem)
    for each in inputs.values():
        if each.is_required and each.name not in given:
            tell(problems, at, f"the child requires the input {each.name!r}")


def _is_literal(value: Any, at: At) -> bool:
    return next(texts(value, at), None) is None and mark_secrets(value) is value


def check_results(spec: WorkflowSpec, types: Types, children: Children, problems: Problems) -> None:
    """Refuse an output of a node with a batch that has the name of what the batch puts in its place, unless it is the same."""
    for node in spec.nodes:
        if node.batch is None or node.loop is not None or is_vague(node, spec):
            continue
        given = _given(node, types, children)
        for name, same in (("item", f"${{{node.batch.alias}}}"), ("original_index", "${__index__}")):
            if name in given and node.params.get(name) != same:
                message = (
                    f"the batch puts its own {name!r} into each result, in place of the node's; give that another name"
                )
                tell(problems, node.at, message, inside=("params", name) if name in node.params else ())


def _given(node: NodeSpec, types: Types, children: Children) -> Collection[str]:
    if (child := children.get(node.at)) is not None:
        return child.spec.outputs or ()
    node_type = types[node.at]
    return () if node_type is None else node_type.output_names(node.params) or ()
