"""A value that a JSON Schema allows: what a rehearsal answers where structured output is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_MAX_LEVELS = 20


def sample_value(schema: Any, root: Any = None, *, levels: int = _MAX_LEVELS) -> Any:
    """Return a value for a schema, as far as types, enums and bounds determine it; a ``pattern`` is not followed."""
    if root is None:
        root = schema
    if not isinstance(schema, Mapping) or not levels:
        return None
    for name in ("const", "default"):
        if name in schema:
            return schema[name]
    if schema.get("enum"):
        return schema["enum"][0]
    other = _other_schema(schema, root)
    if other is not None:
        return sample_value(other, root, levels=levels - 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list) and kind:
        kind = kind[0]
    return _MAKERS.get(kind, _nothing)(schema, root, levels - 1)


def _other_schema(schema: Mapping[str, Any], root: Any) -> Any:
    """Return the schema to use instead: the one it refers to, its merged parts, or its first choice."""
    if isinstance(way := schema.get("$ref"), str):
        return _found(root, way) or {"type": "null"}
    if schema.get("allOf"):
        return _merged(schema, root)
    choices = schema.get("anyOf") or schema.get("oneOf")
    return choices[0] if choices else None


def _found(root: Any, way: str) -> Any:
    for part in way.removeprefix("#").split("/")[1:]:
        root = root.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(root, Mapping) else None
    return root


def _merged(schema: Mapping[str, Any], root: Any) -> dict[str, Any]:
    """Merge the parts of ``allOf`` into the schema."""
    merged: dict[str, Any] = {name: value for name, value in schema.items() if name != "allOf"}
    for part in schema["allOf"]:
        found = _found(root, part["$ref"]) if isinstance(part, Mapping) and isinstance(part.get("$ref"), str) else part
        if isinstance(found, Mapping):
            properties = {**merged.get("properties", {}), **found.get("properties", {})}
            merged |= {**found, "properties": properties} if properties else found
    return merged


def _object(schema: Mapping[str, Any], root: Any, levels: int) -> Any:
    return {name: sample_value(each, root, levels=levels) for name, each in schema.get("properties", {}).items()}


def _array(schema: Mapping[str, Any], root: Any, levels: int) -> Any:
    first = [sample_value(each, root, levels=levels) for each in schema.get("prefixItems", ())]
    missing = max(0 if first or schema.get("maxItems") == 0 else 1, schema.get("minItems", 0) - len(first))
    return [*first, *(sample_value(schema.get("items"), root, levels=levels) for _ in range(missing))]


def _text(schema: Mapping[str, Any], root: Any, levels: int) -> Any:
    del root, levels
    return "text".ljust(schema.get("minLength", 0), "t")[: schema.get("maxLength", 1000)]


def _number(schema: Mapping[str, Any], root: Any, levels: int) -> Any:
    del root, levels
    low, high = (schema.get(name, schema.get(f"exclusive{name.title()}")) for name in ("minimum", "maximum"))
    step = schema.get("multipleOf", 1)
    candidates = [low, 0, high]
    candidates += [(low // step + 1) * step] if low is not None else []
    candidates += [(high // step - 1) * step] if high is not None else []
    candidates += [(low + high) / 2] if low is not None and high is not None else []
    return next((value for value in candidates if value is not None and _fits(value, schema)), low or 0)


def _fits(value: float, schema: Mapping[str, Any]) -> bool:
    """Whether a number is within the bounds of its schema."""
    return (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
        and ("exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"])
        and ("exclusiveMaximum" not in schema or value < schema["exclusiveMaximum"])
        and (schema.get("type") != "integer" or value == int(value))
        and value % schema.get("multipleOf", value or 1) == 0
    )


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
