"""One step: a node with its params resolved, as the engine attempts it."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from graphmill.core.errors import GraphmillError, InternalError, Permanent
from graphmill.core.fingerprint import value_fingerprint
from graphmill.core.json import canonical, digest, json_of
from graphmill.engine.jobs.context import current_context
from graphmill.engine.jobs.program import Program, Step, StepEnd, StepRules
from graphmill.graph.models.request import tokens_of
from graphmill.graph.node_params import describe_misfits, join_pieces
from graphmill.graph.node_type import Context, NodeType, Output
from graphmill.graph.run.outcomes import BatchSequence, load_sequences
from graphmill.graph.run.scope import NodeFailed, Scope
from graphmill.graph.secrets import Redactor, Secret, reveal_secrets

if TYPE_CHECKING:
    from graphmill.graph.graph import Node
    from graphmill.graph.models.target import ModelTarget


def read_params(node_type: NodeType[Any], params: Mapping[str, Any]) -> Any:
    """Make the type's Params from resolved values; Permanent names the field that does not fit."""
    if node_type.Params is None:
        return params
    for name in node_type.in_pieces:
        if isinstance(params.get(name), list):
            params = {**params, name: join_pieces(params[name])}
    try:
        return msgspec.convert(params, node_type.Params)
    except msgspec.ValidationError as error:
        reason = describe_misfits(node_type.Params, params, error)
        raise Permanent(f"invalid params for {node_type.name}: {reason}") from error


def run_step(node: Node, rules: StepRules, scope: Scope, path: str) -> Program:
    """Run a node once; return its Output, or raise NodeFailed."""
    try:
        params = node.params.resolve(scope.names)
        if scope.spill.is_used:
            params = load_sequences(params, but=node.type.streamed)
        if not node.type.is_recorded:
            return _compute(node.type.run(read_params(node.type, reveal_secrets(params)), Context(path)))
        step = _make_step(node, rules, scope, path, params)
    except GraphmillError as error:  # such as a name that a template does not find
        raise NodeFailed.of(error, rules.redact) from error
    end: StepEnd = yield step
    if scope.meter is not None:
        scope.meter.add(end)
    if end.failure is not None:
        raise NodeFailed(end.failure, attempts=end.attempts)
    output = _output(end.output)
    if output.action == "error":
        raise NodeFailed.of(Permanent("the action 'error' is reserved for failures; return another action"))
    return output


def _make_step(node: Node, rules: StepRules, scope: Scope, path: str, params: Any) -> _NodeStep:
    if node.type.asks_model:
        return _make_model_step(node, rules, scope, path, params)
    if rules.isolation is not None:
        return _ProcessStep(path, rules, node, params, scope.root)
    return _NodeStep(path, rules, node, params, scope.root)


def _make_model_step(node: Node, rules: StepRules, scope: Scope, path: str, params: Any) -> _ModelStep:
    """Make the step of a node that calls a model, in the lane of all calls of that model."""
    if scope.models is None:
        raise InternalError(f"node {node.id!r} calls a model, and its graph was planned without any")
    asked = id(rules), params.get("model"), params.get("role")
    try:
        target, known = scope.models.called[asked]
    except (KeyError, TypeError):  # not yet, or it is no name
        target = scope.models.of(params)
        known = replace(rules, lane=target.lane, limits=target.limits)
        scope.models.called[asked] = target, known
    return _ModelStep(path, known, node, params, scope.root, target)


def _output(found: Any) -> Output:
    """Read the output of an attempt, made here or in a worker process, now or before a restart."""
    if type(found) is tuple or type(found) is list:
        values, action, flags = found
        return Output(values, action, frozenset(flags))
    if isinstance(found, Output):
        return found._replace(values=plain(found.values))
    return Output(plain(found))


class _NodeStep(Step):
    """A node with its resolved params."""

    __slots__ = ("_node", "_params", "_root")

    def __init__(self, path: str, rules: StepRules, node: Node, params: Any, root: Path | None) -> None:
        self.path = path
        self.rules = rules
        self._node = node
        self._params = params
        self._root = root

    def content(self) -> bytes:
        """Hash the node and its params, a secret by its name."""
        return content_of(self._node, self._params)

    async def act(self) -> tuple[Any, str, list[str]]:
        """Run the node; return values, action and flags as JSON."""
        node = self._node
        params = read_params(node.type, _revealed(node, self._params))
        made = await node.type.run(params, self._context())
        if node.type.redacts_outputs and isinstance(self.rules.redact, Redactor):
            made = _without_secrets(made, self.rules.redact)
        if isinstance(made, Output):
            return plain(made.values), made.action, sorted(made.flags)
        return plain(made), "default", []

    def _context(self) -> Context:
        return Context(self.path, current_context.get(), root=self._root)


def _without_secrets(made: Output | Mapping[str, Any], redact: Redactor) -> Output | Mapping[str, Any]:
    if isinstance(made, Output):
        return made._replace(values=redact.data(made.values))
    return redact.data(made)  # type: ignore[no-any-return]


class _ModelStep(_NodeStep):
    """A node that calls a model."""

    __slots__ = ("_target",)

    def __init__(
        self, path: str, rules: StepRules, node: Node, params: Any, root: Path | None, target: ModelTarget
    ) -> None:
        super().__init__(path, rules, node, params, root)
        self._target = target

    def estimate_tokens(self) -> int:
        """Estimate the tokens of the request and of the answer."""
        return tokens_of(self._target, self._params)

    def content(self) -> bytes:
        """Hash also the model that a name, a role or the run's choice leads to."""
        return digest(content_of(self._node, self._params) + self._target.mark)

    def _context(self) -> Context:
        return Context(self.path, current_context.get(), root=self._root, target=self._target)


class _ProcessStep(_NodeStep):
    """A node that runs in a worker process."""

    __slots__ = ("_call",)

    def __init__(self, path: str, rules: StepRules, node: Node, params: Any, root: Path | None) -> None:
        super().__init__(path, rules, node, params, root)
        call = node.type.call(read_params(node.type, _revealed(node, params)), Context(path))
        self._call = call.function, call.value
        if node.secrets:
            self._call = call.function, _SecretCall(node, params, path)

    def call(self) -> tuple[Callable[[Any], Any], Any]:
        """Return what is sent to the worker process."""
        return self._call


class _SecretCall:
    """What is sent to a worker process for a node with secrets: each time it is pickled, their values are read anew."""

    def __init__(self, node: Node, params: Any, path: str) -> None:
        self._parts = node, params, path

    def __reduce__(self) -> tuple[Any, ...]:
        node, params, path = self._parts
        return _same, (node.type.call(read_params(node.type, reveal_secrets(params)), Context(path)).value,)


def _same(value: Any) -> Any:
    return value


def _revealed(node: Node, params: Any) -> Any:
    return reveal_secrets(params) if node.secrets else params


def plain(value: Any) -> Any:
    """Return a value as JSON would return it, the same object where nothing changes; Permanent if it is not JSON.

    A sequence of a large batch stays one.
    """
    try:
        is_plain = _is_plain(value)
    except RecursionError:  # it holds itself, or is very deep: the JSON encoder's message says so
        is_plain = False
    return value if is_plain else json.loads(json_of(value))


_SCALARS = frozenset({str, int, bool, type(None)})


def _is_plain(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        for key, entry in value.items():  # half the cost of all()
            if type(key) is not str or (type(entry) not in _SCALARS and not _is_plain(entry)):
                return False
        return True
    if kind is list:
        return all(type(entry) in _SCALARS or _is_plain(entry) for entry in value)
    return kind in _SCALARS or (kind is float and isfinite(value)) or kind is BatchSequence


def content_of(node: Node, params: Any) -> bytes:
    """Hash what decides a step's outcome: a secret by its name, a sequence by its key, what is not data by its type."""
    for name in node.type.streamed:
        if isinstance(sequence := params.get(name), BatchSequence):
            params = {**params, name: {"sequence": sequence.key().hex()}}
    if node.type.incidental and not node.type.incidental.isdisjoint(params):
        params = {name: value for name, value in params.items() if name not in node.type.incidental}
    named = _with_secret_names(params) if node.secrets else params
    try:
        return digest(canonical([node.fingerprint, named]))
    except (TypeError, ValueError, RecursionError):
        return digest(canonical([node.fingerprint, value_fingerprint(named)]))


def _with_secret_names(value: Any) -> Any:
    if isinstance(value, Secret):
        return {"env": value.name}
    if isinstance(value, Mapping):
        return {key: _with_secret_names(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_with_secret_names(entry) for entry in value]
    return value


def _compute(work: Coroutine[Any, Any, Output | Mapping[str, Any]]) -> Output:
    """Run a coroutine that only computes."""
    try:
        work.send(None)
    except StopIteration as end:
        made = end.value
        return made if isinstance(made, Output) else Output(plain(made))
    work.close()
    raise InternalError("a node type that is not recorded must not wait for anything")
