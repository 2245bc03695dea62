"""Code at work in a worker process: a namespace of its own, its output kept, its errors with the line they came from."""

from __future__ import annotations

import builtins
import io
import json
import typing
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from functools import lru_cache
from typing import Any, NamedTuple

from graphmill.core.errors import Permanent, cut
from graphmill.core.json import json_of
from graphmill.graph.node_type import Output, ParamError
from graphmill.nodes.code_check import FILE_NAME, Program, parsed, require_types

MOST_BYTES = 100_000
_LINE_CHARS = 80


class CodeCall(NamedTuple):
    """What a worker process is sent: the code and its variables."""

    code: str
    inputs: Mapping[str, Any]


def run_code(call: CodeCall) -> Output:
    """Run code once; give what it assigned to ``result``, as JSON would give it back, and what it printed.

    Text that it assigned to ``next`` is the action.
    """
    program = _program(call.code)
    _require_types(program, call.inputs)
    namespace = _namespace(call.inputs)
    stdout, stderr = _Kept(), _Kept()
    with redirect_stdout(stdout.stream), redirect_stderr(stderr.stream):
        try:
            exec(program.compiled, namespace)  # noqa: S102  that is what a code node is for
        except BaseException as error:
            _note_line(error, call.code)
            raise
    return Output(
        {"result": _result(program, namespace), "stdout": stdout.text(), "stderr": stderr.text()},
        _action(program, namespace),
    )


@lru_cache(maxsize=64)
def _program(code: str) -> Program:
    return parsed(code)


def _namespace(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Give the variables that code begins with; the names of typing are there for its declarations."""
    typed = {"typing": typing, "Any": typing.Any, "Optional": typing.Optional}
    return {"__name__": "graphmill_code", "__builtins__": builtins, **typed, **inputs}


def _require_types(program: Program, values: Mapping[str, Any]) -> None:
    try:
        require_types(program, values)
    except ParamError as error:
        raise Permanent(str(error)) from error


def _result(program: Program, namespace: Mapping[str, Any]) -> Any:
    if "result" not in namespace:
        if "next" in program.assigned and "next" in namespace:
            return None
        raise Permanent("the code ended without an assignment to result; assign to it on every path")
    _require_types(program, {"result": namespace["result"]})
    return json.loads(json_of(namespace["result"]))


def _action(program: Program, namespace: Mapping[str, Any]) -> str:
    if "next" not in program.assigned or "next" not in namespace:
        return "default"
    action = namespace["next"]
    if not isinstance(action, str) or not action:
        raise Permanent(f"next is the action, a text, and the code made it {cut(repr(action), _LINE_CHARS)}")
    return action


def _note_line(error: BaseException, code: str) -> None:
    """Say with an error which line of the code it came from."""
    line, traceback = 0, error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == FILE_NAME:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    if line:
        text = code.splitlines()[line - 1].strip()
        error.add_note(f"line {line} of the code: {cut(text, _LINE_CHARS)}")


class _Kept(io.RawIOBase):
    """Keeps the first bytes written to it and counts the rest."""

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
        kept = taken[: MOST_BYTES - len(self._bytes)]
        self._bytes += kept
        self._left_out += len(taken) - len(kept)
        return len(taken)

    def text(self) -> str:
        """Give what was kept, with a mark where more was written."""
        if not self.stream.closed:
            self.stream.flush()
        mark = f"\n… {self._left_out:,} more bytes were printed and are not kept" if self._left_out else ""
        return self._bytes.decode(errors="replace") + mark
