"""Code written in a workflow: what is checked before it runs, and how it runs in a worker process."""

from __future__ import annotations

import ast
import builtins
import io
import json
import keyword
import typing
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, NoneType
from typing import Any, NamedTuple

from graphmill.core.errors import Permanent, cut
from graphmill.core.json import json_of
from graphmill.graph.node_params import is_open
from graphmill.graph.node_type import Output, ParamError

MAX_OUTPUT_BYTES = 100_000
_FILE_NAME = "<code>"
_LINE_CHARS = 80
_SCOPES = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "bool": (bool,),
    "list": (list,),
    "dict": (dict,),
    "set": (set,),
    "tuple": (tuple,),
    "bytes": (bytes,),
    "None": (NoneType,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeProgram:
    """Compiled code, the names it may assign, and the types it declares."""

    compiled: CodeType
    assigned: frozenset[str]
    declared: Mapping[str, ast.expr]


def parse_code(code: str) -> CodeProgram:
    """Compile code; SyntaxError says where it is wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(code, _FILE_NAME)
            compiled = compile(code, _FILE_NAME, "exec", dont_inherit=True)
        except SyntaxError:
            raise
        except (ValueError, RecursionError, MemoryError) as error:  # a NUL; brackets thousands deep
            raise SyntaxError(str(error) or type(error).__name__) from error
    declarations = (
        node for node in _module_level(tree) if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    )
    return CodeProgram(
        compiled=compiled,
        assigned=frozenset(_assigned(tree)),
        declared={node.target.id: node.annotation for node in declarations if isinstance(node.target, ast.Name)},
    )


def assigns(code: str, name: str) -> bool:
    """Whether code may assign to a name; true if it does not compile."""
    try:
        return name in parse_code(code).assigned
    except SyntaxError:
        return True


def check_code(code: str, inputs: Mapping[str, Any] | None) -> None:
    """Refuse code that must fail with these inputs, as far as they are known."""
    try:
        program = parse_code(code)
    except SyntaxError as error:
        remedy = "; use result = … instead" if "'return' outside" in str(error.msg) else ""
        raise ParamError(
            f"code: {_place(error)}{error.msg}{_quoted(code, error.lineno)}{remedy}", at=("code",)
        ) from error
    if not program.assigned & {"result", "next"}:
        raise ParamError("code must assign to result; add a line such as: result = …", at=("code",))
    if inputs is not None:
        _check_names(inputs)
        _check_declared(program, inputs)
        check_types(program, {name: value for name, value in inputs.items() if not is_open(value)})


def check_types(program: CodeProgram, values: Mapping[str, Any]) -> None:
    """Refuse values that do not have the declared type; only the outermost type counts, and unknown types pass."""
    for name, annotation in program.declared.items():
        expected = _types(annotation)
        if name in values and expected is not None and not isinstance(values[name], expected):
            declared, found = ast.unparse(annotation), type(values[name]).__name__
            raise ParamError(f"{name} must be {declared} as the code declares it, got {found}", at=("inputs", name))


class CodeCall(NamedTuple):
    """What is sent to the worker process: the code and its variables."""

    code: str
    inputs: Mapping[str, Any]


def run_code(call: CodeCall) -> Output:
    """Run code once in its own namespace; return ``result`` as JSON, what was printed, and ``next`` as the action."""
    program = _program(call.code)
    _check_types(program, call.inputs)
    namespace = _namespace(call.inputs)
    stdout, stderr = _OutputBuffer(), _OutputBuffer()
    with redirect_stdout(stdout.stream), redirect_stderr(stderr.stream):
        try:
            exec(program.compiled, namespace)  # noqa: S102  the purpose of a code node
        except BaseException as error:
            _note_line(error, call.code)
            raise
    return Output(
        {"result": _result(program, namespace), "stdout": stdout.text(), "stderr": stderr.text()},
        _action(program, namespace),
    )


def _check_names(inputs: Collection[str]) -> None:
    for name in inputs:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ParamError(f"inputs: {name!r} is not a variable name; use letters, digits and _", at=("inputs", name))


def _check_declared(program: CodeProgram, inputs: Collection[str]) -> None:
    """Refuse a declared variable that nothing gives a value."""
    for name, annotation in program.declared.items():
        if name not in inputs and name not in program.assigned:
            where = f"code: line {annotation.lineno}: "
            raise ParamError(f"{where}{name} is declared but is not an input; add it to inputs", at=("code",))


def _module_level(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk everything outside of functions, classes and comprehensions."""
    for child in ast.iter_child_nodes(tree):
        yield child
        if not isinstance(child, _SCOPES):
            yield from _module_level(child)


def _assigned(tree: ast.Module) -> Iterator[str]:
    bare = {id(node.target) for node in _module_level(tree) if isinstance(node, ast.AnnAssign) and node.value is None}
    for node in _module_level(tree):
        if id(node) not in bare and (name := _bound(node)) is not None:
            yield name
    yield from (name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names)
    # A walrus also assigns outside of a comprehension.
    yield from (node.target.id for node in ast.walk(tree) if isinstance(node, ast.NamedExpr))


def _bound(node: ast.AST) -> str | None:
    """Return the name that a node of the tree assigns, if it does."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            return name
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.MatchAs() | ast.MatchStar():
            return node.name
        case ast.alias():
            return (node.asname or node.name).partition(".")[0]
    return None


def _types(annotation: ast.expr) -> tuple[type, ...] | None:
    """Return the outermost types of an annotation; None if they are unknown."""
    if isinstance(annotation, ast.Name):
        return _TYPES.get(annotation.id)
    if isinstance(annotation, ast.Constant):
        return _quoted_types(annotation.value)
    if isinstance(annotation, ast.Subscript):
        outer = ast.unparse(annotation.value)
        inner = _types(annotation.slice)
        return (
            _types(annotation.value) if outer not in ("Optional", "typing.Optional") else inner and (*inner, NoneType)
        )
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        left, right = _types(annotation.left), _types(annotation.right)
        return left and right and (*left, *right)
    return None


def _quoted_types(value: object) -> tuple[type, ...] | None:
    if value is None:
        return (NoneType,)
    try:
        return _types(ast.parse(str(value), mode="eval").body)
    except (SyntaxError, ValueError):
        return None


def _place(error: SyntaxError) -> str:
    column = f", column {error.offset}" if error.offset else ""
    return f"line {error.lineno}{column}: " if error.lineno else ""


def _quoted(code: str, line: int | None) -> str:
    lines = code.splitlines()
    if line and line <= len(lines):
        return f": {lines[line - 1].strip():.80}"
    return ""


@lru_cache(maxsize=64)
def _program(code: str) -> CodeProgram:
    return parse_code(code)


def _namespace(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables that code starts with; the names of typing are for its declarations."""
    typed = {"typing": typing, "Any": typing.Any, "Optional": typing.Optional}
    return {"__name__": "graphmill_code", "__builtins__": builtins, **typed, **inputs}


def _check_types(program: CodeProgram, values: Mapping[str, Any]) -> None:
    try:
        check_types(program, values)
    except ParamError as error:
        raise Permanent(str(error)) from error


def _result(program: CodeProgram, namespace: Mapping[str, Any]) -> Any:
    if "result" not in namespace:
        if "next" in program.assigned and "next" in namespace:
            return None
        raise Permanent("the code ended without assigning to result; assign to it on every path")
    _check_types(program, {"result": namespace["result"]})
    return json.loads(json_of(namespace["result"]))


def _action(program: CodeProgram, namespace: Mapping[str, Any]) -> str:
    if "next" not in program.assigned or "next" not in namespace:
        return "default"
    action = namespace["next"]
    if not isinstance(action, str) or not action:
        raise Permanent(f"next must be text, the name of an action, got {cut(repr(action), _LINE_CHARS)}")
    return action


def _note_line(error: BaseException, code: str) -> None:
    """Add the line of the code that an error came from."""
    line, traceback = 0, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == _FILE_NAME:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    if line:
        text = code.splitlines()[line - 1].strip()
        error.add_note(f"line {line} of the code: {cut(text, _LINE_CHARS)}")


class _OutputBuffer(io.RawIOBase):
    """Keeps the first bytes and counts the rest."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._left_out = 0
        self.stream = io.TextIOWrapper(
            io.BufferedWriter(self), encoding="utf-8", errors="backslashreplace", write_through=True
        )

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        taken = bytes(data)
        kept = taken[: MAX_OUTPUT_BYTES - len(self._bytes)]
        self._bytes += kept
        self._left_out += len(taken) - len(kept)
        return len(taken)

    def text(self) -> str:
        """Return what was printed, with a note if it was cut."""
        if not self.stream.closed:
            self.stream.flush()
        mark = f"\n… {self._left_out:,} more bytes were cut" if self._left_out else ""
        return self._bytes.decode(errors="replace") + mark
