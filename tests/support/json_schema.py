"""A small JSON Schema validator: as much of draft 2020-12 as our schemas use; a keyword that it does not know is an error."""

import re

_IGNORED = {"$schema", "$defs", "title", "description", "default", "examples"}
_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_valid(value, schema, root=None):
    """Tell whether a value is as the schema says."""
    root = schema if root is None else root
    if isinstance(schema, bool):
        return schema
    return all(_KEYWORDS[key](value, schema, root) for key in schema if key not in _IGNORED)


def keywords(schema):
    """List every keyword that stands anywhere in a schema."""
    if isinstance(schema, dict):
        for key, part in schema.items():
            yield key
            yield from keywords(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from keywords(part)


def _type(value, kind):
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "integer":
        return _type(value, "number") and value == int(value)
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _ref(value, schema, root):
    found = root
    for name in schema["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return is_valid(value, found, root)


def _object(value, check):
    return not isinstance(value, dict) or check(value)


def _additional(value, schema, root):
    others = [part for name, part in value.items() if name not in schema.get("properties", {})]
    return all(is_valid(part, schema["additionalProperties"], root) for part in others)


def _number(value, check):
    return not _type(value, "number") or check(value)


def _if(value, schema, root):
    return not is_valid(value, schema["if"], root) or is_valid(value, schema.get("then", True), root)


_KEYWORDS = {
    "$ref": _ref,
    "type": lambda v, s, _: any(_type(v, kind) for kind in ([s["type"]] if isinstance(s["type"], str) else s["type"])),
    "enum": lambda v, s, _: any(v == each and type(v) is type(each) for each in s["enum"]),
    "const": lambda v, s, _: v == s["const"] and type(v) is type(s["const"]),
    "pattern": lambda v, s, _: not isinstance(v, str) or re.search(s["pattern"], v) is not None,
    "minimum": lambda v, s, _: _number(v, lambda n: n >= s["minimum"]),
    "maximum": lambda v, s, _: _number(v, lambda n: n <= s["maximum"]),
    "exclusiveMinimum": lambda v, s, _: _number(v, lambda n: n > s["exclusiveMinimum"]),
    "minItems": lambda v, s, _: not isinstance(v, list) or len(v) >= s["minItems"],
    "items": lambda v, s, r: not isinstance(v, list) or all(is_valid(part, s["items"], r) for part in v),
    "minProperties": lambda v, s, _: _object(v, lambda o: len(o) >= s["minProperties"]),
    "maxProperties": lambda v, s, _: _object(v, lambda o: len(o) <= s["maxProperties"]),
    "required": lambda v, s, _: _object(v, lambda o: all(name in o for name in s["required"])),
    "properties": lambda v, s, r: _object(
        v, lambda o: all(is_valid(o[name], part, r) for name, part in s["properties"].items() if name in o)
    ),
    "additionalProperties": lambda v, s, r: _object(v, lambda o: _additional(o, s, r)),
    "propertyNames": lambda v, s, r: _object(v, lambda o: all(is_valid(name, s["propertyNames"], r) for name in o)),
    "dependentSchemas": lambda v, s, r: _object(
        v, lambda o: all(is_valid(o, part, r) for name, part in s["dependentSchemas"].items() if name in o)
    ),
    "anyOf": lambda v, s, r: any(is_valid(v, part, r) for part in s["anyOf"]),
    "oneOf": lambda v, s, r: sum(is_valid(v, part, r) for part in s["oneOf"]) == 1,
    "allOf": lambda v, s, r: all(is_valid(v, part, r) for part in s["allOf"]),
    "if": _if,
    "then": lambda v, s, r: True,
}
