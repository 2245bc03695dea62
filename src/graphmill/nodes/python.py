"""The python node, also called code: runs a function named by module and name, or code written in the workflow."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import Meta

from graphmill.core.fingerprint import known_fingerprint
from graphmill.core.json import fresh, require_json
from graphmill.engine.attempts.workers import call, is_async
from graphmill.graph.named import find_named
from graphmill.graph.node_type import Context, Isolation, NodeCall, NodeType, ParamError, Site
from graphmill.nodes.code import CodeCall, assigns, check_code, run_code


class PythonParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Either code or a function, and its inputs."""

    code: Annotated[
        str | None,
        Meta(
            description="Python that assigns to `result`; the inputs are its variables. Runs in a worker process, each "
            "time with a new namespace. Text assigned to `next` is the action."
        ),
    ] = None
    function: Annotated[str | None, Meta(description="`module:name`, called with the inputs as keyword arguments.")] = (
        None
    )
    inputs: Annotated[
        dict[str, Any], Meta(description="Variables of the code, or arguments of the function, by name.")
    ] = {}
    isolation: Annotated[
        Literal["process"] | None,
        Meta(
            description="`process` calls the function in a worker process, which can be killed; code always runs in "
            "one."
        ),
    ] = None
    timeout: Annotated[
        Annotated[float, Meta(gt=0)] | None, Meta(description="Seconds per attempt; same as the node's own `timeout`.")
    ] = None
    memory_mb: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="Megabytes that the worker process may use, with what it starts; with more it is killed, and "
            "the attempt fails as `crash`."
        ),
    ] = None
    requires: Annotated[list[str], Meta(description="Packages that the code needs; for readers only.")] = []


class PythonNode(NodeType[PythonParams]):
    """Runs async functions on the loop, plain ones in threads; code, and functions on request, in workers."""

    name = "python"
    summary = "Runs Python: a function named by module and name, or code written in the workflow."
    Params = PythonParams
    outputs: ClassVar[Mapping[str, str]] = {
        "result": "what the function returned or the code assigned to `result`, as JSON data: a tuple becomes a list",
        "stdout": 'what the code printed, at most 100,000 bytes; "" for a function',
        "stderr": 'the same of the standard error; "" for a function',
    }
    untemplated = frozenset({"code", "function", "isolation", "memory_mb", "requires", "timeout"})
    incidental = frozenset({"memory_mb"})
    example = """\
- id: shorten
  type: code
  params:
    inputs: {reviews: "${fetch.response}", count: 10}
    code: |
      reviews: list
      count: int
      result: list = [review["text"] for review in reviews[:count]]
- id: score
  type: python
  params: {function: "scoring:score", inputs: {reviews: "${shorten.result}"}}
"""

    def check(self, params: Mapping[str, Any], site: Site) -> None:
        """Import the function or compile the code, so that mistakes are found before the first item."""
        code, function, inputs = params.get("code"), params.get("function"), params.get("inputs", {})
        if code is None and function is None:
            raise ParamError("code or function is required")
        if code is not None and function is not None:
            raise ParamError("give either code or function, not both")
        if params.get("memory_mb") is not None and self.isolation(params) is None:
            raise ParamError("memory_mb needs a worker process; add isolation: process", at=("memory_mb",))
        known = inputs if isinstance(inputs, Mapping) else None
        if code is not None:
            check_code(code, known)
        else:
            _check_function(function, known, site.root)

    def actions(self, params: Mapping[str, Any]) -> Collection[str] | None:
        """Return any action for code that assigns to ``next``, else the default one."""
        code = params.get("code")
        if isinstance(code, str) and assigns(code, "next"):
            return None
        return ("default",)

    def fingerprint(self, params: Mapping[str, Any]) -> str:
        """Return the function's; code is a param."""
        if params.get("function") is None:
            return ""
        return known_fingerprint(find_function(params["function"]))

    async def run(self, params: PythonParams, context: Context) -> Mapping[str, Any]:
        """Call the function in this process, with copies of its inputs, and copy what it returns."""
        del context
        function, is_on_loop = _found(str(params.function))
        inputs = fresh(params.inputs)
        made = await function(**inputs) if is_on_loop else await call(function, **inputs)
        try:
            return {"result": fresh(made), "stdout": "", "stderr": ""}
        except RecursionError:  # it contains itself or is very deep; require_json explains that
            require_json(made)
            raise

    def isolation(self, params: Mapping[str, Any]) -> Isolation | None:
        """Return process for code, and for functions on request."""
        if params.get("code") is None and params.get("isolation") is None:
            return None
        return "process"

    def memory_bytes(self, params: Mapping[str, Any]) -> int | None:
        """Return the param ``memory_mb``, in bytes."""
        limit: int | None = params.get("memory_mb")
        return None if limit is None else limit * 1_000_000

    def timeout_s(self, params: Mapping[str, Any]) -> float | None:
        """Return the param of that name."""
        return params.get("timeout")

    def call(self, params: PythonParams, context: Context) -> NodeCall:
        """Send code, and functions on request, to a worker process."""
        if params.code is not None:
            return NodeCall(run_code, CodeCall(params.code, params.inputs), "process", params.timeout)
        if params.isolation is not None:
            return NodeCall(call_function, FunctionCall(str(params.function), params.inputs), "process", params.timeout)
        return super().call(params, context)._replace(timeout_s=params.timeout)


class FunctionCall(NamedTuple):
    """What is sent to the worker process: where the function is, and its arguments by name."""

    function: str
    inputs: Mapping[str, Any]


def call_function(call: FunctionCall) -> Any:
    """Call a function in this process; return its outputs, or an awaitable of them."""
    made = find_function(call.function)(**call.inputs)
    if inspect.isawaitable(made):
        return _awaited(made)
    return _outputs(made)


async def _awaited(made: Any) -> Mapping[str, Any]:
    return _outputs(await made)


def _outputs(result: Any) -> dict[str, Any]:
    return {"result": result, "stdout": "", "stderr": ""}


def _check_function(name: str | None, inputs: Mapping[str, Any] | None, root: Path | None) -> None:
    try:
        function = find_function(name, root)
    except ValueError as error:
        raise ParamError(str(error), at=("function",)) from error
    try:
        _check_inputs(function, inputs or {})
    except ValueError as error:
        if inputs is not None:
            raise ParamError(str(error), at=("inputs",)) from error


@cache
def _found(name: str) -> tuple[Callable[..., Any], bool]:
    """Return a function, and whether it is async."""
    function = find_function(name)
    return function, is_async(function)


def _check_inputs(function: Callable[..., Any], inputs: Mapping[str, Any]) -> None:
    """Refuse unknown or missing inputs before the first item."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have no signature
        return
    try:
        signature.bind(**inputs)
    except TypeError as error:
        raise ValueError(
            f"the inputs do not fit {getattr(function, '__name__', function)}{signature}: {error}"
        ) from error


def find_function(name: object, root: Path | None = None) -> Callable[..., Any]:
    """Import the function ``module:name``, also from the folder ``root`` from then on."""
    found = find_named(name, root, what="function")
    if not callable(found):
        raise ValueError(f"{name} is not a function but {type(found).__name__}")
    return found  # type: ignore[no-any-return]
