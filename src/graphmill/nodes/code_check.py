"""What can be said of code before it runs: whether it is Python, which names it assigns, which types it declares."""

from __future__ import annotations

import ast
import keyword
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, NoneType
from typing import Any

from graphmill.graph.node_params import is_open
from graphmill.graph.node_type import ParamError

FILE_NAME = "<code>"

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
class Program:
    """Code that is Python: compiled, the names it may assign, and what it declares of its variables."""

    compiled: CodeType
    assigned: frozenset[str]
    declared: Mapping[str, ast.expr]


def parsed(code: str) -> Program:
    """Compile code; SyntaxError says where it is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an odd escape is the code's own business
        try:
            tree = ast.parse(code, FILE_NAME)
            compiled = compile(code, FILE_NAME, "exec", dont_inherit=True)
        except SyntaxError:
            raise
        except (ValueError, RecursionError, MemoryError) as error:  # a NUL; brackets thousands deep
            raise SyntaxError(str(error) or type(error).__name__) from error
    declarations = (
        node for node in _module_level(tree) if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    )
    return Program(
        compiled=compiled,
        assigned=frozenset(_assigned(tree)),
        declared={node.target.id: node.annotation for node in declarations if isinstance(node.target, ast.Name)},
    )


def assigns(code: str, name: str) -> bool:
    """Tell whether code may assign to a name; of what is no code, that it may."""
    try:
        return name in parsed(code).assigned
    except SyntaxError:
        return True


def require_code(code: str, inputs: Mapping[str, Any] | None) -> None:
    """Refuse code that can not go well with these inputs, as far as they are known; ParamError says why."""
    try:
        program = parsed(code)
    except SyntaxError as error:
        remedy = "; assign to result instead: result = …" if "'return' outside" in str(error.msg) else ""
        raise ParamError(
            f"code: {_place(error)}{error.msg}{_quoted(code, error.lineno)}{remedy}", at=("code",)
        ) from error
    if not program.assigned & {"result", "next"}:
        raise ParamError("code: nothing is assigned to result; add a line such as: result = …", at=("code",))
    if inputs is not None:
        _require_names(inputs)
        _require_given(program, inputs)
        require_types(program, {name: value for name, value in inputs.items() if not is_open(value)})


def require_types(program: Program, values: Mapping[str, Any]) -> None:
    """Refuse values that are not what the code declares them to be; only the outermost type counts, and one that is not known passes."""
    for name, annotation in program.declared.items():
        wanted = _types(annotation)
        if name in values and wanted is not None and not isinstance(values[name], wanted):
            declared, found = ast.unparse(annotation), type(values[name]).__name__
            raise ParamError(
                f"{name} is declared {declared} in the code, and is {found}; convert it, or declare it {found}",
                at=("inputs", name),
            )


def _require_names(inputs: Collection[str]) -> None:
    for name in inputs:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ParamError(f"inputs: {name!r} can not be a variable; use letters, digits and _", at=("inputs", name))


def _require_given(program: Program, inputs: Collection[str]) -> None:
    """Refuse a declared variable that nothing gives a value."""
    for name, annotation in program.declared.items():
        if name not in inputs and name not in program.assigned:
            where = f"code: line {annotation.lineno}: "
            raise ParamError(f"{where}{name} is declared, and no input has that name; add it to inputs", at=("code",))


def _module_level(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk what is not inside a function, a class or a comprehension."""
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
    yield from (
        node.target.id for node in ast.walk(tree) if isinstance(node, ast.NamedExpr)
    )  # also out of a comprehension


def _bound(node: ast.AST) -> str | None:
    """Give the name that a part of the tree gives a value, if it does."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            return name
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.MatchAs() | ast.MatchStar():
            return node.name
        case ast.alias():
            return (node.asname or node.name).partition(".")[0]
    return None


def _types(annotation: ast.expr) -> tuple[type, ...] | None:
    """Give the outermost types that an annotation stands for; None where that can not be told."""
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
    return f": {lines[line - 1].strip():.80}" if line and line <= len(lines) else ""
