"""The python node: a function named by module and name, or code written in the workflow, with its inputs by name."""

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
from graphmill.nodes.code_check import assigns, require_code
from graphmill.nodes.code_worker import CodeCall, run_code


class PythonParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Either code or a function, and what it is given."""

    code: Annotated[
        str | None,
        Meta(
            description="Python that assigns to `result`; the inputs are its variables. Runs in a worker process, with a namespace of "
            "its own each time. Text assigned to `next` is the action."
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
            description="`process` calls the function in a worker process that can be killed; code always runs in one."
        ),
    ] = None
    timeout: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Seconds per attempt; the node's own `timeout` says the same for any type."),
    ] = None
    requires: Annotated[list[str], Meta(description="Packages that the code needs, for the reader.")] = []


class Python(NodeType[PythonParams]):
    """Calls an async function on the loop, a plain one in a thread; code, and on request functions, in a worker process."""

    name = "python"
    summary = "Runs Python: a function named by module and name, or code written in the workflow."
    Params = PythonParams
    outputs: ClassVar[Mapping[str, str]] = {
        "result": "what the function returned, or what the code assigned to `result`, as JSON gives it back: a tuple is a list",
        "stdout": 'what the code printed, at most 100,000 bytes; "" for a function',
        "stderr": 'the same of the standard error; "" for a function',
    }
    untemplated = frozenset({"code", "function", "isolation", "requires", "timeout"})
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
        """Import the function, or parse the code, now: a wrong name or a slip is found before the first item."""
        code, function, inputs = params.get("code"), params.get("function"), params.get("inputs", {})
        if (code is None) == (function is None):
            both = "code or function is missing" if code is None else "code and function are both given; leave one out"
            raise ParamError(both)
        known = inputs if isinstance(inputs, Mapping) else None
        if code is not None:
            require_code(code, known)
        else:
            _require_function(function, known, site.root)

    def actions(self, params: Mapping[str, Any]) -> Collection[str] | None:
        """Any, of code that assigns to ``next``."""
        code = params.get("code")
        return None if isinstance(code, str) and assigns(code, "next") else ("default",)

    def fingerprint(self, params: Mapping[str, Any]) -> str:
        """Give the function's; code is among the params."""
        return "" if params.get("function") is None else known_fingerprint(find_function(params["function"]))

    async def run(self, params: PythonParams, context: Context) -> Mapping[str, Any]:
        """Call the function here, with containers of its own; what it goes on to do with those that it gave is not seen."""
        del context
        function, is_on_loop = _found(str(params.function))
        inputs = fresh(params.inputs)
        made = await function(**inputs) if is_on_loop else await call(function, **inputs)
        try:
            return {"result": fresh(made), "stdout": "", "stderr": ""}
        except RecursionError:  # it holds itself, or is very deep: JSON has the words for that
            require_json(made)
            raise

    def isolation(self, params: Mapping[str, Any]) -> Isolation | None:
        """Run code, and functions on request, in a worker process."""
        return "process" if params.get("code") is not None or params.get("isolation") is not None else None

    def timeout_s(self, params: Mapping[str, Any]) -> float | None:
        """Give the param of that name."""
        return params.get("timeout")

    def call(self, params: PythonParams, context: Context) -> NodeCall:
        """Send code, and functions on request, to a worker process."""
        if params.code is not None:
            return NodeCall(run_code, CodeCall(params.code, params.inputs), "process", params.timeout)
        if params.isolation is not None:
            return NodeCall(call_function, FunctionCall(str(params.function), params.inputs), "process", params.timeout)
        return super().call(params, context)._replace(timeout_s=params.timeout)


class FunctionCall(NamedTuple):
    """What a worker process is sent of a function: where it is found, and its arguments by name."""

    function: str
    inputs: Mapping[str, Any]


def call_function(call: FunctionCall) -> Any:
    """Call a function in this process; give its outputs, or what is to be awaited for them."""
    made = find_function(call.function)(**call.inputs)
    return _awaited(made) if inspect.isawaitable(made) else _outputs(made)


async def _awaited(made: Any) -> Mapping[str, Any]:
    return _outputs(await made)


def _outputs(result: Any) -> dict[str, Any]:
    return {"result": result, "stdout": "", "stderr": ""}


def _require_function(name: str | None, inputs: Mapping[str, Any] | None, root: Path | None) -> None:
    try:
        function = find_function(name, root)
    except ValueError as error:
        raise ParamError(str(error), at=("function",)) from error
    try:
        _require_fit(function, inputs or {})
    except ValueError as error:
        if inputs is not None:
            raise ParamError(str(error), at=("inputs",)) from error


@cache
def _found(name: str) -> tuple[Callable[..., Any], bool]:
    """Find a function, and whether it is async."""
    function = find_function(name)
    return function, is_async(function)


def _require_fit(function: Callable[..., Any], inputs: Mapping[str, Any]) -> None:
    """Refuse inputs that the function does not take, or that it lacks, before the first item."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins do not tell
        return
    try:
        signature.bind(**inputs)
    except TypeError as error:
        raise ValueError(
            f"the inputs do not fit {getattr(function, '__name__', function)}{signature}: {error}"
        ) from error


def find_function(name: object, root: Path | None = None) -> Callable[..., Any]:
    """Import the function ``module:name``, also from the folder ``root`` from now on; ValueError says what was not found."""
    found = find_named(name, root, what="function")
    if not callable(found):
        raise ValueError(f"{name} is not a function but {type(found).__name__}")
    return found  # type: ignore[no-any-return]
