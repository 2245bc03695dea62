"""The workflow language as JSON Schema (2020-12) for editors, made from the tables that check workflows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from graphmill.graph.language import grammar
from graphmill.graph.language.grammar import NAME, PLACEHOLDER, REFERENCES, Block, Key

Schema = dict[str, Any]
_REFERENCE = "#/$defs/{name}"
_TEMPLATE: Schema = {
    "type": "string",
    "pattern": r"\$\{|^\S+\.(json|yaml|yml)$",
    "description": "A text with ${…} templates in it; in YAML also !file and the name of a file with data.",
}
_ENV: Schema = {
    "type": "object",
    "properties": {
        "env": {
            "type": "string",
            "description": "The name of an environment variable, read at each attempt, never stored.",
        }
    },
    "required": ["env"],
    "additionalProperties": False,
}
_ANY: Schema = {"type": "object"}
_CONTINUES: Schema = {"properties": {"error_handling": {"const": "continue"}}, "required": ["error_handling"]}
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_INNER = ("items", "additionalProperties")


class DescribedType(Protocol):
    """What the schema needs of a node type."""

    @property
    def name(self) -> str:
        """Its name in workflows."""

    @property
    def Params(self) -> type[msgspec.Struct] | None:  # noqa: N802  a class
        """Its params; None: any."""


def workflow_schema(node_types: Iterable[DescribedType], *, aliases: Mapping[str, str] | None = None) -> Schema:
    """Return the schema of a workflow file; node params are those of its type, ``aliases`` other names of types."""
    types = sorted(node_types, key=lambda node_type: node_type.name)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Graphmill workflow",
        "$ref": _ref("workflow"),
        "$defs": {
            "workflow": _workflow(),
            "input": _block(grammar.INPUT),
            "edge": _block(grammar.EDGE),
            "retry": _block(grammar.RETRY),
            "batch": _batch(),
            "loop": _loop(),
            "node": _node([node_type.name for node_type in types], aliases or {}),
            "template": _TEMPLATE,
            "env": _ENV,
            **_params(types),
        },
    }


def _workflow() -> Schema:
    schema = _block(grammar.WORKFLOW)
    parts = schema["properties"]
    parts["inputs"] |= {"additionalProperties": {"$ref": _ref("input")}, "propertyNames": NAME.schema}
    parts["nodes"] |= {"items": {"$ref": _ref("node")}}
    parts["edges"] |= {"items": {"$ref": _ref("edge")}}
    return schema


def _batch() -> Schema:
    schema = _block(grammar.BATCH) | {"dependentSchemas": {"max_failures": _CONTINUES}}
    return schema | {"oneOf": [{"required": ["items"]}, {"required": ["times"]}]}


def _loop() -> Schema:
    schema = _block(grammar.LOOP)
    for key in ("until", "repeats"):
        schema["properties"][key] |= {"additionalProperties": PLACEHOLDER.schema}
    schema["properties"]["keep"] |= {
        "properties": {"max": REFERENCES.schema, "min": REFERENCES.schema},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
    return schema


def _node(types: list[str], aliases: Mapping[str, str]) -> Schema:
    schema = _block(grammar.NODE)
    for key in ("retry", "batch", "loop"):
        schema["properties"][key] = {"$ref": _ref(key), "description": grammar.NODE[key].about}
    names = {name: [name, *(alias for alias, known in aliases.items() if known == name)] for name in types}
    schema["properties"]["type"] |= {"enum": [name for known in names.values() for name in known]}
    schema["allOf"] = [
        {
            "if": {"properties": {"type": {"enum": known}}, "required": ["type"]},
            "then": {"properties": {"params": {"$ref": _ref(f"params.{name}")}}},
        }
        for name, known in names.items()
    ]
    return schema


def _params(types: list[DescribedType]) -> Schema:
    """Return the schemas of each type's params, and of their parts."""
    models = {node_type.name: node_type.Params for node_type in types if node_type.Params is not None}
    schemas, parts = msgspec.json.schema_components(models.values(), ref_template=_REFERENCE)
    names = {name: schema["$ref"].rpartition("/")[2] for name, schema in zip(models, schemas, strict=True)}
    params: Schema = {}
    for entry in types:
        schema = parts[names[entry.name]] if entry.name in names else _ANY
        params[f"params.{entry.name}"] = _type_params(entry, schema)
    return params | {name: _inside(part) for name, part in parts.items() if name not in names.values()}


def _type_params(node_type: DescribedType, schema: Schema) -> Schema:
    untemplated: frozenset[str] = getattr(node_type, "untemplated", frozenset())
    properties: Schema = dict(schema.get("properties", {}))
    for name, part in properties.items():
        if name not in untemplated:
            properties[name] = _templated(part)
    if node_type.name == "workflow" and "workflow" in properties:
        child: Schema = {"anyOf": [{"type": "string"}, {"$ref": _ref("workflow")}]}
        if text := properties["workflow"].get("description"):
            child["description"] = text
        properties["workflow"] = child
    made = {**schema, "title": node_type.name}
    if hasattr(node_type, "summary"):
        made["description"] = node_type.summary
    if properties:
        made["properties"] = properties
    return made


def _templated(schema: Schema) -> Schema:
    """Return a schema that also accepts templates and {env: NAME}, at every level."""
    about: Schema = {key: schema[key] for key in ("description", "default", "title") if key in schema}
    own = _inside({key: part for key, part in schema.items() if key not in about})
    if not own:
        return about
    return {**about, "anyOf": [own, {"$ref": _ref("template")}, {"$ref": _ref("env")}]}


def _inside(schema: Schema) -> Schema:
    found = dict(schema)
    for key in _LISTS:
        if key in found:
            found[key] = [_inside(part) for part in found[key]]
    for key in _INNER:
        if isinstance(found.get(key), Mapping):
            found[key] = _templated(found[key])
    if "properties" in found:
        found["properties"] = {name: _templated(part) for name, part in found["properties"].items()}
    return found


def _block(block: Block) -> Schema:
    required = [name for name, key in block.items() if key.is_required]
    schema: Schema = {"type": "object", "properties": {name: _key(key) for name, key in block.items()}}
    if required:
        schema["required"] = required
    return schema | {"additionalProperties": False}


def _key(key: Key) -> Schema:
    schema = {**key.kind.schema, "description": key.about}
    if key.default is not None:
        schema["default"] = key.default
    return schema


def _ref(name: str) -> str:
    return _REFERENCE.format(name=name)
