"""The process of a program's tests: runs them one by one, and reports each to the supervisor in a file of its own.

The program runs in another process. Its functions are called from here, and what they return arrives as data.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import socket
import sys
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

from graphmill.sandbox.inside.remote import Peer
from graphmill.sandbox.inside.wire import ConnectionEndedError, receive

_FILE = "tests.py"
_PROGRAM_NAMES = ("solution", "program")  # under which tests may import from the program
_MOST_CHARACTERS = 400


class Unit(NamedTuple):
    """A part of the tests: one that counts, or one that prepares others."""

    source: str
    run: Callable[[dict[str, Any]], None]
    counts: bool


def run_tests(job: dict[str, Any], connection: socket.socket, report: int) -> None:
    """Run all tests of a job against the program at the other end of the connection. Never returns.

    The report ends with ``done`` only if every test was run to its end.
    """
    with os.fdopen(report, "w") as out:

        def tell(**line: Any) -> None:
            out.write(json.dumps(line) + "\n")
            out.flush()

        tell(begun=True)
        try:
            namespace, units = _prepare(job)
        except (SyntaxError, ValueError, RecursionError) as error:
            tell(broken=f"{type(error).__name__}: {error}")
            os._exit(0)
        except BaseException as error:  # noqa: BLE001  the beginning of the problem, which is no answer
            tell(broken=f"what stands before the tests raised {type(error).__name__}: {error}")
            os._exit(0)
        tell(count=sum(unit.counts for unit in units))
        _run_units(job, connection, namespace, units, tell)
    os._exit(0)


def _prepare(job: dict[str, Any]) -> tuple[dict[str, Any], list[Unit]]:
    namespace: dict[str, Any] = {"__name__": "tests", "__builtins__": builtins}
    exec(compile(job["prelude"], "prelude.py", "exec", dont_inherit=True), namespace)  # noqa: S102
    units = [unit for source in job["tests"] for unit in _units(ast.parse(source), source, job["entry_point"])]
    return namespace, units


def _run_units(
    job: dict[str, Any],
    connection: socket.socket,
    namespace: dict[str, Any],
    units: list[Unit],
    tell: Callable[..., None],
) -> None:
    peer = Peer(connection, None)
    try:
        loaded = receive(connection)
        if loaded["outcome"] != "loaded":
            tell(load=str(loaded["outcome"]), text=str(loaded["text"]))
            return
        tell(load="loaded", text="")
        _fetch_names(peer, namespace, job)
    except ConnectionEndedError:
        tell(load="exited", text="the program ended before its tests")
        return
    for unit in units:
        outcome, text = _run_unit(unit, namespace, peer)
        if outcome == "broken":
            tell(broken=text)
            return
        if unit.counts or outcome != "passed":
            tell(test=unit.source[:_MOST_CHARACTERS], outcome=outcome, text=text[:_MOST_CHARACTERS])
        if peer.has_ended:
            return
    tell(done=True)


def _fetch_names(peer: Peer, namespace: dict[str, Any], job: dict[str, Any]) -> None:
    """Take from the program what the tests name; what else it defines they do not see."""
    entry_point = job["entry_point"]
    named = {
        node.id: None
        for source in job["tests"]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    for name in [*named, *([entry_point] if entry_point else [])]:
        if name != entry_point and (name in namespace or hasattr(builtins, name)):
            continue
        try:
            namespace[name] = peer.fetch(name, is_strict=name == entry_point or not _names_class(name))
        except NameError:  # the tests define it, or will say that it is missing
            continue
    if entry_point in namespace:
        namespace["candidate"] = namespace[entry_point]
    for name in _PROGRAM_NAMES:
        sys.modules[name] = _Program(name, peer)  # type: ignore[assignment]


def _names_class(name: str) -> bool:
    """Whether a name is that of a class, by its spelling: a program could say of anything that it is one."""
    return name[:1].isupper()


class _Program:
    """What ``from solution import name`` finds."""

    def __init__(self, name: str, peer: Peer) -> None:
        self.__name__, self.__spec__ = name, None
        self._peer = peer

    def __getattr__(self, name: str) -> Any:
        try:
            return self._peer.fetch(name, is_strict=not _names_class(name))
        except NameError as error:
            raise AttributeError(str(error)) from error


def _run_unit(unit: Unit, namespace: dict[str, Any], peer: Peer) -> tuple[str, str]:
    try:
        unit.run(namespace)
    except ConnectionEndedError:
        return "exited", "the program ended"
    except ImportError as error:
        is_of_program = getattr(error, "is_from_program", False) or error.name in _PROGRAM_NAMES
        if not unit.counts and not is_of_program:
            return "broken", f"{error} (code?packages=true shows the sandbox the installed packages)"
        return _outcome_of(error), _text_of(error)
    except BaseException as error:  # noqa: BLE001  a failed test
        return _outcome_of(error), _text_of(error)
    if peer.has_ended:  # whatever the test makes of that
        return "exited", "the program ended"
    return "passed", ""


def _outcome_of(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "memory_limit"
    if not getattr(error, "is_from_program", False):
        return "wrong"
    return "exited" if isinstance(error, SystemExit) else "exception"


def _text_of(error: BaseException) -> str:
    text = getattr(error, "text", None) or str(error)
    name = type(error).__name__
    if isinstance(error, AssertionError) or text.startswith(name):
        return str(text)
    return f"{name}: {text}"


# -- the parts of the tests


def _units(tree: ast.Module, source: str, entry_point: str | None) -> Iterator[Unit]:
    asserting = {
        node.name for node in tree.body if isinstance(node, ast.FunctionDef) and _contains(node, ast.Assert | ast.Raise)
    }
    for statement in tree.body:
        body = _body_of_check(statement) if entry_point else None
        if body is not None:
            for each in body:
                yield _unit(each, source, asserting)
        elif not (entry_point and _calls_check(statement)):
            yield from _units_of(statement, source, asserting)


def _body_of_check(statement: ast.stmt) -> list[ast.stmt] | None:
    """Return the body of ``def check(candidate)``, each assert of which is a test; None for anything else."""
    if not isinstance(statement, ast.FunctionDef) or statement.name != "check":
        return None
    if [each.arg for each in statement.args.args] != ["candidate"]:
        return None
    if _contains(statement, ast.Return | ast.Yield | ast.Nonlocal | ast.Global):
        return None
    return statement.body


def _contains(tree: ast.AST, kind: Any) -> bool:
    return any(isinstance(node, kind) for node in ast.walk(tree))


def _calls_check(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Name)
        and statement.value.func.id == "check"
    )


def _units_of(statement: ast.stmt, source: str, asserting: set[str]) -> Iterator[Unit]:
    yield _unit(statement, source, asserting)
    if isinstance(statement, ast.FunctionDef) and statement.name.startswith("test") and not statement.args.args:
        yield Unit(statement.name, lambda names: names[statement.name](), counts=True)
    if isinstance(statement, ast.FunctionDef) and statement.name == "check":
        yield Unit("check(candidate)", lambda names: names["check"](names["candidate"]), counts=True)
    if isinstance(statement, ast.ClassDef) and any("TestCase" in ast.unparse(base) for base in statement.bases):
        for each in statement.body:
            if isinstance(each, ast.FunctionDef) and each.name.startswith("test"):
                yield _unit_of_method(statement.name, each.name)


def _unit_of_method(kind: str, method: str) -> Unit:
    return Unit(f"{kind}.{method}", lambda names: names[kind](method).debug(), counts=True)


def _unit(statement: ast.stmt, source: str, asserting: Collection[str] = ()) -> Unit:
    """Return a statement as a test if it asserts something, itself or by a function it calls; else as preparation."""
    text = ast.get_source_segment(source, statement) or ast.unparse(statement)
    if isinstance(statement, ast.Assert):
        return Unit(text, _assertion(statement), counts=True)
    is_definition = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    calls = any(isinstance(node, ast.Name) and node.id in asserting for node in ast.walk(statement))
    counts = not is_definition and (calls or _contains(statement, ast.Assert))
    code = _compiled(ast.Module([statement], []))
    return Unit(text, lambda names: exec(code, names), counts)  # noqa: S102


def _assertion(statement: ast.Assert) -> Callable[[dict[str, Any]], None]:
    """Return what checks an assertion; that of ``==`` says what it got."""
    test = statement.test
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)):
        code = _compiled(ast.Module([statement], []))
        return lambda names: exec(code, names)  # noqa: S102
    left, right = _compiled(ast.Expression(test.left)), _compiled(ast.Expression(test.comparators[0]))

    def check(names: dict[str, Any]) -> None:
        found, wanted = eval(left, names), eval(right, names)  # noqa: S307
        if not found == wanted:
            raise AssertionError(f"got {_shown(found)}, expected {_shown(wanted)}")

    return check


def _compiled(tree: ast.Module | ast.Expression) -> Any:
    return compile(tree, _FILE, "eval" if isinstance(tree, ast.Expression) else "exec", dont_inherit=True, optimize=0)


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  such as an integer of too many digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= 100 else text[:99] + "…"
