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
    """A value as it is written, where, and compiled; ``value`` is None where that was not possible."""

    at: At
    raw: Any
    value: CompiledValue | None


@dataclass(frozen=True, slots=True)
class LoopValues:
    """What a loop block looks up."""

    max: Written
    until: Mapping[str, Written]
    repeats: Mapping[str, Written]
    keep: Written | None


@dataclass(frozen=True, slots=True)
class NodeValues:
    """What a node looks up; ``secrets`` are the variables of the environment that its params name."""

    params: Written
    secrets: tuple[str, ...]
    items: Written | None
    loop: LoopValues | None


@dataclass(frozen=True, slots=True)
class Values:
    """What a workflow looks up; nodes by where they stand."""

    nodes: Mapping[At, NodeValues]
    outputs: Mapping[str, Written] | None


@dataclass(frozen=True, slots=True)
class _Params:
    """Params of which some are taken as written, although they hold what would be a template elsewhere."""

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
    """Compile the params, batch and loop of every node, and the outputs; tell each template that is none."""
    nodes = {node.at: _node(node, types, problems) for node in spec.nodes}
    if spec.outputs is None:
        return Values(nodes, None)
    return Values(
        nodes, {name: _written(raw, (*spec.at, "outputs", name), problems) for name, raw in spec.outputs.items()}
    )


def texts(raw: Any, at: At, opening: str = "${") -> Iterator[tuple[At, str]]:
    """Give every text inside a value that holds a template or what looks like one, with its place."""
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
    node_type = types[node.at]
    untemplated = frozenset() if node_type is None else node_type.untemplated
    as_written = {key: entry for key, entry in node.params.items() if key in untemplated}
    rest = {key: mark_secrets(entry) for key, entry in node.params.items() if key not in untemplated}
    has_secrets = any(entry is not node.params[key] for key, entry in rest.items())
    return NodeValues(
        params=_params(
            as_written, rest, (*node.at, "params"), problems, () if node_type is None else node_type.in_pieces
        ),
        secrets=_secrets(rest, (*node.at, "params"), problems) if has_secrets else (),
        items=None if node.batch is None else _whole(node.batch.items, (*node.batch.at, "items"), problems),
        loop=None if node.loop is None else _loop(node.loop, problems),
    )


def _secrets(params: Mapping[str, Any], at: At, problems: Problems) -> tuple[str, ...]:
    found = list(find_secrets(params, at))
    for place, secret in found:
        if not secret.is_valid:
            tell(
                problems,
                place,
                f"{{env: {secret.name!r:.80}}} reads a variable of the environment, whose name has letters, digits and _",
            )
    return tuple(dict.fromkeys(secret.name for _, secret in found))


def _params(
    as_written: Mapping[str, Any], rest: Mapping[str, Any], at: At, problems: Problems, in_pieces: Collection[str] = ()
) -> Written:
    if next(texts(as_written, at), None) is None:
        return _written({**as_written, **rest}, at, problems, in_pieces)
    found = _written(rest, at, problems, in_pieces)
    return found if found.value is None else Written(at, rest, _Params(as_written, found.value))


def _whole(raw: Any, at: At, problems: Problems) -> Written:
    """Compile what is one ``${…}`` or no text at all; a block of YAML may leave a line's end behind it."""
    whole = raw.rstrip() if isinstance(raw, str) else raw
    written = _written(whole, at, problems)
    if written.value is None or not isinstance(whole, str) or _is_one_lookup(whole):
        return written
    tell(problems, at, "one ${…} by itself is wanted, with no text around it and no other beside it")
    return Written(at, raw, None)


def _is_one_lookup(text: str) -> bool:
    parts = parse(text).parts
    return len(parts) == 1 and isinstance(parts[0], Placeholder)


def _loop(loop: LoopSpec, problems: Problems) -> LoopValues:
    keep = None if loop.keep is None else _whole(loop.keep[1], (*loop.at, "keep", loop.keep[0]), problems)
    return LoopValues(
        max=_whole(loop.max, (*loop.at, "max"), problems),
        until={name: _whole(raw, (*loop.at, "until", name), problems) for name, raw in loop.until.items()},
        repeats={name: _whole(raw, (*loop.at, "repeats", name), problems) for name, raw in loop.repeats.items()},
        keep=keep,
    )


def _written(raw: Any, at: At, problems: Problems, in_pieces: Collection[str] = ()) -> Written:
    try:
        return Written(at, raw, compile_params(raw, in_pieces) if in_pieces else compile_value(raw))
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
    """Note each ``{{ name }}`` in a text that may hold templates, where something has that name."""
    roots = {*(each.name for each in spec.inputs), *(node.id for node in spec.nodes)}
    for node in spec.nodes:
        own = roots if node.batch is None else {*roots, node.batch.alias}
        for at, text in texts(_templated(node, types), (*node.at, "params"), "{{"):
            for found in _BRACES.finditer(text):
                if found[1].partition(".")[0] in own:
                    where = problems.document.at_text(at)
                    problems.note(at, f"{where}: {found[0]} is plain text; templates are written ${{{found[1]}}}")


def _templated(node: NodeSpec, types: Types) -> Mapping[str, Any]:
    node_type = types[node.at]
    untemplated = frozenset[str]() if node_type is None else node_type.untemplated
    return {key: entry for key, entry in node.params.items() if key not in untemplated}
