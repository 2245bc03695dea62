"""Child workflows: found, compiled once per file, and their inputs and results checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from graphmill.core.errors import UsageError, WorkflowError
from graphmill.graph.compiler.checks import Types, is_vague, listed, make_inputs, nearest, tell
from graphmill.graph.compiler.shapes import Shape
from graphmill.graph.compiler.templates import texts
from graphmill.graph.graph import Graph
from graphmill.graph.language.document import Document
from graphmill.graph.language.places import At
from graphmill.graph.language.problems import Problems
from graphmill.graph.language.spec import NodeSpec, WorkflowSpec
from graphmill.graph.node_type import NodeType
from graphmill.graph.registry import installed_workflow
from graphmill.graph.secrets import mark_secrets

WORKFLOW = "workflow"
_SUFFIXES = (".yaml", ".yml", ".json")
_MAX_LEVELS = 50


class ChildWorkflow(NamedTuple):
    """A workflow that another uses, and what its ``outputs`` hold; ``graph`` is None while there are problems."""

    spec: WorkflowSpec
    graph: Graph | None
    outputs: Shape


Children = Mapping[At, ChildWorkflow]
Compile = Callable[[Document, At, Problems, "Library"], ChildWorkflow | None]


class Library:
    """Compiles each document once and collects the problems and the texts of all of them."""

    def __init__(self, compile_one: Compile) -> None:
        self._compile = compile_one
        self._known: dict[Path, ChildWorkflow | None] = {}
        self._open: dict[Path, str] = {}
        self._level = 0
        self._problems: list[Problems] = []
        self.texts: dict[str, str] = {}

    @property
    def has_problems(self) -> bool:
        """Whether any problem was found so far."""
        return any(problems.found for problems in self._problems)

    def document(self, document: Document) -> ChildWorkflow | None:
        """Compile a document; None if it is not a workflow, which is reported."""
        problems = Problems(document)
        self._problems.append(problems)
        self.texts |= document.texts
        if document.root is None:
            return self.inside(document, (), problems)
        path = _real(Path(document.path))
        self._open[path] = document.path
        try:
            return self.inside(document, (), problems)
        finally:
            del self._open[path]

    def file(self, path: Path) -> ChildWorkflow | None:
        """Compile a file, or return what it was compiled to before; UsageError if there is no file."""
        key = _real(path)
        if key not in self._known:
            self._known[key] = self._read(path)
        return self._known[key]

    def inside(self, document: Document, at: At, problems: Problems) -> ChildWorkflow | None:
        """Compile a workflow inside a document."""
        if self._level == _MAX_LEVELS:
            tell(problems, at, f"workflows are nested deeper than {_MAX_LEVELS} levels")
            return None
        self._level += 1
        try:
            return self._compile(document, at, problems, self)
        finally:
            self._level -= 1

    def chain_to(self, path: Path) -> str | None:
        """Return the chain of files from one that is being compiled to itself; None if it is not being compiled."""
        key = _real(path)
        if key not in self._open:
            return None
        names = list(self._open)
        return " → ".join(self._open[each] for each in [*names[names.index(key) :], key])

    def gathered(self) -> Problems:
        """Return the problems and notes of all documents."""
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
    """Return the real path of a file; what is not a valid path as it is."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return path


def compile_children(spec: WorkflowSpec, types: Types, library: Library, problems: Problems) -> Children:
    """Compile the child of each ``workflow`` node; return those that could be read."""
    found: dict[At, ChildWorkflow] = {}
    for node in spec.nodes:
        if not _is_workflow(types[node.at]):
            continue
        child = _child(node, spec.document, library, problems)
        if child is not None:
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
        return None  # reported by the check of the type's params
    try:
        return _file(_path(written, document), library)
    except UsageError as error:
        tell(problems, at, str(error))
        return None


def _file(path: Path, library: Library) -> ChildWorkflow | None:
    if (chain := library.chain_to(path)) is not None:
        raise UsageError(f"a workflow cannot run itself: {chain}; to repeat something, use a node with a `loop` block")
    return library.file(path)


def _path(written: str, document: Document) -> Path:
    """Return the path for a text with a slash or known suffix; else a file beside this, or an installed one."""
    folder = Path(document.path).parent if document.root is not None else Path()
    if "/" in written or Path(written).suffix.lower() in _SUFFIXES:
        return folder / written
    there = (folder / f"{written}{suffix}" for suffix in _SUFFIXES)
    beside = next((path for path in there if _is_file(path)), None)
    return beside or installed_workflow(written) or folder / f"{written}{_SUFFIXES[0]}"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as a name that is too long: reading it reports that
        return False


def _check_inputs(node: NodeSpec, child: WorkflowSpec, problems: Problems) -> None:
    given = node.params.get("inputs") or {}
    if not isinstance(given, Mapping):
        return  # a template: known when it is resolved
    at = (*node.at, "params", "inputs")
    inputs = make_inputs(child)
    for name, value in given.items():
        if name not in inputs:
            known = list(inputs)
            message = f"the child has no input {name!r}{nearest(str(name), known)}; its inputs: {listed(known)}"
            tell(problems, (*at, name), message)
        elif _is_literal(value, at) and (problem := inputs[name].problem(value)):
            tell(problems, (*at, name), problem)
    for each in inputs.values():
        if each.is_required and each.name not in given:
            tell(problems, at, f"the child requires the input {each.name!r}; add it")


def _is_literal(value: Any, at: At) -> bool:
    return next(texts(value, at), None) is None and mark_secrets(value) is value


def check_results(spec: WorkflowSpec, types: Types, children: Children, problems: Problems) -> None:
    """Report an output of a batch node that the batch would overwrite in each result, unless it has the same value."""
    for node in spec.nodes:
        if node.batch is None or node.loop is not None or is_vague(node, spec):
            continue
        outputs = _output_names(node, types, children)
        for name, same in (("item", f"${{{node.batch.alias}}}"), ("original_index", "${__index__}")):
            if name in outputs and node.params.get(name) != same:
                message = f"the batch overwrites the output {name!r} in each result; rename the node's output"
                inside = ("params", name) if name in node.params else ()
                tell(problems, node.at, message, inside=inside)


def _output_names(node: NodeSpec, types: Types, children: Children) -> Collection[str]:
    if (child := children.get(node.at)) is not None:
        return child.spec.outputs or ()
    node_type = types[node.at]
    if node_type is None:
        return ()
    return node_type.output_names(node.params) or ()
