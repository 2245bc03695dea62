"""One step: a node with its params resolved, as something the engine attempts."""

from __future__ import annotations

import json
from collections.abc import Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphmill.core.errors import InternalError
from graphmill.core.json_text import json_of
from graphmill.core.keys import canonical, digest
from graphmill.engine.frame import frame_here
from graphmill.engine.program import Program, Step, StepEnd, StepRules
from graphmill.graph.node_params import read_params
from graphmill.graph.node_type import Context, Output
from graphmill.graph.run.ends import NodeFailed
from graphmill.graph.run.place import Place
from graphmill.graph.secret import Secret, revealed

if TYPE_CHECKING:
    from graphmill.graph.graph import Node


def run_step(node: Node, rules: StepRules, place: Place, path: str) -> Program:
    """Run a node once; give its Output, or raise NodeFailed."""
    params = node.params.resolve(place.scope)
    if not node.type.is_recorded:
        return _now(node.type.run(read_params(node.type, revealed(params)), _no_context(path)))
    end: StepEnd = yield _step(node, rules, params, path, place.root)
    place.meter.add(end)
    if end.failure is not None:
        raise NodeFailed(end.failure, attempts=end.attempts)
    return _output(end.output)


def _output(found: Any) -> Output:
    """Read what an attempt gave, here or in a worker process, now or before a restart."""
    if isinstance(found, Mapping):
        return Output(plain(found))
    values, action, flags = found
    return Output(plain(values), action, frozenset(flags))


def _step(node: Node, rules: StepRules, params: Any, path: str, root: Path | None) -> Step:
    content = partial(_content, node, params)
    if rules.isolation is None:
        return Step(path, partial(_attempt, node, path, root), params, content=content, rules=rules)
    call = node.type.call(read_params(node.type, revealed(params) if node.secrets else params), _no_context(path))
    value = _Sent(node, params, path) if node.secrets else call.value
    return Step(path, call.function, value, content=content, rules=rules)


class _Sent:
    """What a worker process is sent for a node with secrets: it is made anew, with their values of then, whenever it is pickled."""

    def __init__(self, node: Node, params: Any, path: str) -> None:
        self._parts = node, params, path

    def __reduce__(self) -> tuple[Any, ...]:
        node, params, path = self._parts
        return _same, (node.type.call(read_params(node.type, revealed(params)), _no_context(path)).value,)


def _same(value: Any) -> Any:
    return value


async def _attempt(node: Node, path: str, root: Path | None, params: Any) -> tuple[Any, str, list[str]]:
    frame = frame_here()
    if frame is None:
        raise InternalError("a step was attempted outside of a run")
    context = Context(path=path, attempt=frame.attempt, idempotency_key=frame.key(), root=root)
    try:
        made = await node.type.run(read_params(node.type, revealed(params) if node.secrets else params), context)
    finally:
        if context.usage is not None:
            frame.report(context.usage)
    if isinstance(made, Output):
        return plain(made.values), made.action, sorted(made.flags)
    return plain(made), "default", []


def plain(value: Any) -> Any:
    """Give a value as it is if JSON would give it back the same, else what JSON makes of it; Permanent if it can make nothing."""
    return value if _is_plain(value) else json.loads(json_of(value))


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return True
    if kind is dict:
        return all(type(key) is str and _is_plain(entry) for key, entry in value.items())
    return kind is list and all(map(_is_plain, value))


def _content(node: Node, params: Any) -> bytes:
    """Hash what decides a step's outcome; of a secret that is its name."""
    return digest(canonical([node.fingerprint, _named(params) if node.secrets else params]))


def _named(value: Any) -> Any:
    if isinstance(value, Secret):
        return {"env": value.name}
    if isinstance(value, Mapping):
        return {key: _named(entry) for key, entry in value.items()}
    return [_named(entry) for entry in value] if isinstance(value, list) else value


def _now(work: Coroutine[Any, Any, Output | Mapping[str, Any]]) -> Output:
    """Run what only computes."""
    try:
        work.send(None)
    except StopIteration as end:
        made = end.value
        return made if isinstance(made, Output) else Output(plain(made))
    work.close()
    raise InternalError("a node type that is not recorded must not wait for anything")


def _no_context(path: str) -> Context:
    return Context(path=path, attempt=1, idempotency_key="", root=Path())
