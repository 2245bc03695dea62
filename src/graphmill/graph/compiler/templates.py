"""The pass of templates: every value with ``${…}`` is compiled, and its mistakes reported."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from graphmill.graph.compiler.checks import Types, tell
from graphmill.graph.language.places import At
from graphmill.graph.language.problems import Problems
from graphmill.graph.language.spec import LoopSpec, NodeSpec, WorkflowSpec
from graphmill.graph.node_type import NodeType
from graphmill.graph.secrets import find_secrets, mark_secrets
from graphmill.graph.template import (
    CompiledValue,
    Placeholder,
    Reference,
    TemplateError,
    compile_params,
    compile_value,
    parse,
)

_BRACES = re.compile(r"\{\{\s*([^\W\d][\w.-]*)\s*\}\}")


@dataclass(frozen=True, slots=True)
class Written:
    """A value as written, its place, and compiled; ``value`` is None if it could not be compiled."""

    at: At
    raw: Any
    value: CompiledValue | None


@dataclass(frozen=True, slots=True)
class LoopValues:
    """The values of a loop block."""

    max: Written
    timeout_s: Written
    budget_usd: Written
    until: Mapping[str, Written]
    repeats: Mapping[str, Written]
    keep: tuple[Written, ...]


@dataclass(frozen=True, slots=True)
class NodeValues:
    """The values of a node; ``items`` may be their number, ``secrets`` are its environment variables."""

    params: Written
    secrets: tuple[str, ...]
    items: Written | None
    loop: LoopValues | None


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a workflow, by the places of its nodes."""

    nodes: Mapping[At, NodeValues]
    outputs: Mapping[str, Written] | None


@dataclass(frozen=True, slots=True)
class _Params:
    """Params, some of them taken as written, even if they look like templates."""

    as_written: Mapping[str, Any]
    rest: CompiledValue

    @property
    def references(self) -> tuple[Reference, ...]:
        return self.rest.references

    @property
    def is_constant(self) -> bool:
        return self.rest.is_constant

    def resolve(self, scope: Mapping[str, Any]) -> Any:
        return {**self.as_written, **self.rest.resolve(scope)}


def compile_values(spec: WorkflowSpec, types: Types, problems: Problems) -> Values:
    """Compile the params, batch and loop of every node, and the outputs; report malformed templates."""
    nodes = {node.at: _node(node, types, problems) for node in spec.nodes}
    if spec.outputs is None:
        return Values(nodes, None)
    return Values(
        nodes, {name: _written(raw, (*spec.at, "outputs", name), problems) for name, raw in spec.outputs.items()}
    )


def texts(raw: Any, at: At, opening: str = "${") -> Iterator[tuple[At, str]]:
    """Yield every text inside a value that contains a template, with its place."""
    if isinstance(raw, str):
        if opening in raw:
            yield at, raw
    elif isinstance(raw, Mapping):
        for key, entry in raw.items():
            yield from texts(entry, (*at, key), opening)
    elif isinstance(raw, list | tuple):
        for number, entry in enumerate(raw):
            yield from texts(entry, (*at, number), opening)


def _node(node: NodeSpec, types: Types, problems: Problems) -> NodeValues:
    untemplated, in_pieces = _special_params(types[node.at])
    as_written = {key: entry for key, entry in node.params.items() if key in untemplated}
    rest = {key: mark_secrets(entry) for key, entry in node.params.items() if key not in untemplated}
    has_secrets = any(entry is not node.params[key] for key, entry in rest.items())
    at = (*node.at, "params")
    items = loop = None
    if node.batch is not None:
        key, written = ("items", node.batch.items) if node.batch.times is None else ("times", node.batch.times)
        items = _whole(written, (*node.batch.at, key), problems)
    if node.loop is not None:
        loop = _loop(node.loop, problems)
    return NodeValues(
        params=_params(as_written, rest, at, problems, in_pieces),
        secrets=_secrets(rest, at, problems) if has_secrets else (),
        items=items,
        loop=loop,
    )


def _special_params(node_type: NodeType[Any] | None) -> tuple[frozenset[str], frozenset[str]]:
    """Return the params that are taken as written, and those that are resolved in pieces."""
    if node_type is None:
        return frozenset(), frozenset()
    return node_type.untemplated, node_type.in_pieces


def _secrets(params: Mapping[str, Any], at: At, problems: Problems) -> tuple[str, ...]:
    found = list(find_secrets(params, at))
    for place, secret in found:
        if not secret.is_valid:
            message = f"{{env: {secret.name!r:.80}}}: an environment variable's name consists of letters, digits and _"
            tell(problems, place, message)
    return tuple(dict.fromkeys(secret.name for _, secret in found))


def _params(
    as_written: Mapping[str, Any], rest: Mapping[str, Any], at: At, problems: Problems, in_pieces: Collection[str] = ()
) -> Written:
    if next(texts(as_written, at), None) is None:
        return _written({**as_written, **rest}, at, problems, in_pieces)
    found = _written(rest, at, problems, in_pieces)
    if found.value is None:
        return found
    return Written(at, rest, _Params(as_written, found.value))


def _whole(raw: Any, at: At, problems: Problems) -> Written:
    """Compile what must be one ``${…}``, or not text at all; a YAML block may end in a newline."""
    whole = raw.rstrip() if isinstance(raw, str) else raw
    written = _written(whole, at, problems)
    if written.value is None or not isinstance(whole, str) or _is_one_lookup(whole):
        return written
    tell(problems, at, "must be a single ${…} without text around it")
    return Written(at, raw, None)


def _is_one_lookup(text: str) -> bool:
    parts = parse(text).parts
    return len(parts) == 1 and isinstance(parts[0], Placeholder)


def _loop(loop: LoopSpec, problems: Problems) -> LoopValues:
    return LoopValues(
        max=_whole(loop.max, (*loop.at, "max"), problems),
        timeout_s=_whole(loop.timeout_s, (*loop.at, "timeout"), problems),
        budget_usd=_whole(loop.budget_usd, (*loop.at, "budget_usd"), problems),
        until={name: _whole(raw, (*loop.at, "until", name), problems) for name, raw in loop.until.items()},
        repeats={name: _whole(raw, (*loop.at, "repeats", name), problems) for name, raw in loop.repeats.items()},
        keep=_keep(loop, problems),
    )


def _keep(loop: LoopSpec, problems: Problems) -> tuple[Written, ...]:
    if loop.keep is None:
        return ()
    which, keys = loop.keep
    at = (*loop.at, "keep", which)
    if isinstance(keys, list | tuple):
        return tuple(_whole(key, (*at, number), problems) for number, key in enumerate(keys))
    return (_whole(keys, at, problems),)


def _written(raw: Any, at: At, problems: Problems, in_pieces: Collection[str] = ()) -> Written:
    try:
        value = compile_params(raw, in_pieces) if in_pieces else compile_value(raw)
        return Written(at, raw, value)
    except TemplateError:
        for place, text in texts(raw, at):
            _tell(place, text, problems)
        return Written(at, raw, None)


def _tell(at: At, text: str, problems: Problems) -> None:
    try:
        parse(text)
    except TemplateError as error:
        tell(problems, at, str(error), offset=error.position)


def note_braces(spec: WorkflowSpec, types: Types, problems: Problems) -> None:
    """Note each ``{{ name }}`` in a text, if there is something of that name."""
    roots = {*(each.name for each in spec.inputs), *(node.id for node in spec.nodes)}
    for node in spec.nodes:
        own = {*roots, node.batch.alias} if node.batch is not None else roots
        for at, text in texts(_templated(node, types), (*node.at, "params"), "{{"):
            for found in _BRACES.finditer(text):
                if found[1].partition(".")[0] in own:
                    where = problems.document.at_text(at)
                    problems.note(at, f"{where}: {found[0]} is plain text; write a template as ${{{found[1]}}}")


def _templated(node: NodeSpec, types: Types) -> Mapping[str, Any]:
    untemplated, _ = _special_params(types[node.at])
    return {key: entry for key, entry in node.params.items() if key not in untemplated}
