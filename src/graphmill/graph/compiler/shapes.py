"""Which fields values have, as far as the workflow says: outputs of nodes, loops, batches, children, schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill.graph.compiler.checks import Types, is_vague
from graphmill.graph.language.spec import NodeSpec, WorkflowSpec
from graphmill.graph.node_params import is_open
from graphmill.graph.secrets import names_secret
from graphmill.graph.template import Placeholder, Reference, Segment, TemplateError, parse

if TYPE_CHECKING:
    from graphmill.graph.compiler.children import Children

BATCH_OUTPUTS = (
    "results",
    "errors",
    "outcomes",
    "count",
    "success_count",
    "error_count",
    "cancelled_count",
    "batch_metadata",
)
LOOP_OUTPUTS = ("best", "best_round", "rounds", "round_count", "stop", "error")
_MOST_LEVELS = 50
_OPEN_WORDS = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas")


class Shape(NamedTuple):
    """What is known of a value: its ``fields`` if it is an object without others, its ``entries`` if a list."""

    fields: Mapping[str, Shape] | None = None
    entries: Shape | None = None


ANY = Shape()


class Misnamed(NamedTuple):
    """A field that is not there: its name, the path that leads to it, and the fields that are there."""

    name: str
    owner: str
    fields: tuple[str, ...]


class Shapes:
    """The shapes of a workflow's nodes."""

    def __init__(self, spec: WorkflowSpec, types: Types, children: Children) -> None:
        self._types = types
        self._children = children
        self._nodes = {node.id: node for node in spec.nodes if not is_vague(node, spec)}
        self._known: dict[str, Shape] = {}

    def of_node(self, node: NodeSpec) -> Shape:
        """Return the shape of all outputs of a node."""
        if node.id not in self._known:
            self._known[node.id] = ANY  # while it is looked at: a mistaken workflow may lead back to it
            self._known[node.id] = self._of_node(node)
        return self._known[node.id]

    def of_round(self, node: NodeSpec) -> Shape:
        """Return the shape of the outputs of one round, or of one item: those of the type, or of its child."""
        if (child := self._children.get(node.at)) is not None:
            return child.outputs
        node_type = self._types[node.at]
        names = None if node_type is None else node_type.output_names(node.params)
        if node_type is None or names is None:
            return ANY
        schemas = node_type.output_schemas(node.params)
        return Shape({name: self._of_output(name, node, schemas) for name in names})

    def of_outputs(self, outputs: Mapping[str, Any] | None) -> Shape:
        """Return the shape of a workflow's outputs as written; unknown if none are."""
        return ANY if outputs is None else Shape({name: self.of_written(raw) for name, raw in outputs.items()})

    def of_written(self, raw: Any) -> Shape:
        """Return the shape of a value as written: what a single reference leads to, or the fields of a mapping."""
        if isinstance(raw, Mapping):
            if names_secret(raw):
                return ANY
            return Shape({str(name): self.of_written(entry) for name, entry in raw.items()})
        reference = _sole_reference(raw)
        node = None if reference is None else self._nodes.get(reference.root)
        if reference is None or node is None:
            return ANY
        found = follow(self.of_node(node), reference.segments)
        return ANY if isinstance(found, Misnamed) else found

    def _of_node(self, node: NodeSpec) -> Shape:
        each = self.of_round(node)
        if node.loop is not None:
            each = _with(LOOP_OUTPUTS, best=each, rounds=Shape(entries=each))
        if node.batch is None:
            return each
        result = each
        if each.fields is not None:
            result = Shape({**each.fields, "item": ANY, "original_index": ANY})
        return _with(BATCH_OUTPUTS, results=Shape(entries=result))

    def _of_output(self, name: str, node: NodeSpec, schemas: Mapping[str, Any]) -> Shape:
        if name in schemas:
            return shape_of_schema(schemas[name])
        node_type = self._types[node.at]
        is_param = node_type is not None and node_type.name == "value"
        return self.of_written(node.params[name]) if is_param else ANY


def follow(shape: Shape, segments: Iterable[Segment]) -> Shape | Misnamed:
    """Follow the path of a reference, whose first segment is the value itself, as far as the shape is known."""
    path = ""
    for number, segment in enumerate(segments):
        if number:
            if shape.fields is None:
                return ANY
            if segment.name not in shape.fields:
                return Misnamed(segment.name, path, tuple(shape.fields))
            shape = shape.fields[segment.name]
        path = f"{path}.{segment}" if path else str(segment)
        for _ in segment.indices:
            shape = shape.entries or ANY
    return shape


def shape_of_schema(schema: Any, level: int = 0) -> Shape:
    """Return what a JSON Schema says for certain of the values that fit it."""
    if not isinstance(schema, Mapping) or level == _MOST_LEVELS or any(word in schema for word in _OPEN_WORDS):
        return ANY
    entries = None
    if isinstance(schema.get("items"), Mapping) and "prefixItems" not in schema:
        entries = shape_of_schema(schema["items"], level + 1)
    properties = schema.get("properties", {})
    if schema.get("additionalProperties") is not False or not isinstance(properties, Mapping):
        return Shape(entries=entries)
    fields = {str(name): shape_of_schema(each, level + 1) for name, each in properties.items()}
    return Shape(fields, entries)


def _with(names: Iterable[str], **known: Shape) -> Shape:
    return Shape({name: known.get(name, ANY) for name in names})


def _sole_reference(raw: Any) -> Reference | None:
    """Return the reference that a text consists of; None if it has a default or is anything else."""
    if not isinstance(raw, str) or not is_open(raw):
        return None
    try:
        sole = parse(raw.strip()).sole
    except TemplateError:
        return None
    if not isinstance(sole, Placeholder) or len(sole.alternatives) != 1:
        return None
    found = sole.alternatives[0]
    return found if isinstance(found, Reference) else None
