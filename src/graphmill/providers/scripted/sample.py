"""A value that a JSON Schema allows: what a rehearsal answers where structured output is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_MAX_LEVELS = 20


def sample_value(schema: Any, root: Any = None, *, levels: int = _MAX_LEVELS) -> Any:
    """Return a value for a schema, as far as types, enums and bounds determine it."""
    if root is None:
        root = schema
    if not isinstance(schema, Mapping) or not levels:
        return None
    for name in ("const", "default"):
        if name in schema:
            return schema[name]
    if schema.get("enum"):
        return schema["enum"][0]
    if isinstance(way := schema.get("$ref"), str):
        return sample_value(_found(root, way), root, levels=levels - 1)
    for name in ("anyOf", "oneOf", "allOf"):
        if schema.get(name):
            return sample_value(schema[name][0], root, levels=levels - 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list) and kind:
        kind = kind[0]
    return _MAKERS.get(kind, _nothing)(schema, root, levels - 1)


def _found(root: Any, way: str) -> Any:
    for part in way.removeprefix("#").split("/")[1:]:
        root = root.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(root, Mapping) else None
    return root


def _object(schema: Mapping[str, Any], root: Any, levels: int) -> Any:
    return {name: sample_value(each, root, levels=levels) for name, each in schema.get("properties", {}).items()}


def _array(schema: Mapping[str, Any], root: Any, levels: int) -> Any:
    return [sample_value(schema.get("items"), root, levels=levels) for _ in range(max(1, schema.get("minItems", 1)))]


def _text(schema: Mapping[str, Any], root: Any, levels: int) -> Any:
    del root, levels
    return "text".ljust(schema.get("minLength", 0), "t")[: schema.get("maxLength", 1000)]


def _number(schema: Mapping[str, Any], root: Any, levels: int) -> Any:
    del root, levels
    return schema.get("minimum", min(0, schema.get("maximum", 0)))


def _truth(schema: Mapping[str, Any], root: Any, levels: int) -> Any:
    del schema, root, levels
    return True


def _nothing(schema: Mapping[str, Any], root: Any, levels: int) -> Any:
    del schema, root, levels


_MAKERS: Mapping[str, Callable[[Mapping[str, Any], Any, int], Any]] = {
    "object": _object,
    "array": _array,
    "string": _text,
    "number": _number,
    "integer": _number,
    "boolean": _truth,
}
