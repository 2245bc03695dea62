"""Checks data against a JSON Schema: the validation words of draft 2020-12; one that is not known here is refused, not passed over."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from functools import lru_cache
from typing import Any

from graphmill.core.json import canonical, to_json
from graphmill.core.suggest import suggestion

_MOST_SHOWN = 80
_SAYS_NOTHING = frozenset(
    {
        "$schema",
        "$id",
        "$anchor",
        "$comment",
        "$defs",
        "definitions",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
    }
    | {
        "readOnly",
        "writeOnly",
        "format",
        "contentEncoding",
        "contentMediaType",
        "discriminator",
        "then",
        "else",
        "minContains",
        "maxContains",
    }
)
_WORDS = {"object": "an object", "array": "a list", "string": "text", "number": "a number", "integer": "a whole number"}
At = tuple[str | int, ...]
Found = Iterator[tuple[At, str]]
Keyword = Callable[[Any, Mapping[str, Any], At, "SchemaCheck"], Found]


class SchemaError(ValueError):
    """A JSON Schema that can not be used."""


class SchemaCheck:
    """One schema, looked through once; SchemaError if it holds a word that is not known here, or a reference that leads nowhere."""

    def __init__(self, schema: Mapping[str, Any] | bool) -> None:  # noqa: FBT001  a schema may be one
        self._root = schema
        _require_known(schema, self, ())

    def problem(self, value: Any) -> str | None:
        """Say the first thing that is wrong with a value, and where; None if it fits."""
        try:
            found = next(self.problems(self._root, value, ()), None)
        except RecursionError:
            return "it is nested too deep"
        return None if found is None else f"{_place(found[0])}{found[1]}"

    def problems(self, schema: Any, value: Any, at: At) -> Found:
        """Give all that is wrong with a value by one part of the schema."""
        if isinstance(schema, bool):
            if not schema:
                yield at, "nothing may stand here"
            return
        for word, check in _KEYWORDS.items():
            if word in schema:
                yield from check(value, schema, at, self)

    def fits(self, schema: Any, value: Any) -> bool:
        """Tell whether a value is as one part of the schema says."""
        return next(self.problems(schema, value, ()), None) is None

    def resolved(self, reference: Any) -> Any:
        """Give the part that a reference leads to; SchemaError if there is none in this schema."""
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise SchemaError(f"$ref {reference!r:.80} leads out of the schema; put what it means under $defs")
        found = self._root
        for name in reference.split("/")[1:]:
            name = name.replace("~1", "/").replace("~0", "~")  # noqa: PLW2901
            if isinstance(found, Mapping) and name in found:
                found = found[name]
            elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                raise SchemaError(f"$ref {reference!r:.80} leads nowhere")
        return found


def _require_known(schema: Any, check: SchemaCheck, at: At) -> None:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        raise SchemaError(f"{_place(at)}a schema is a mapping, not {schema!r:.40}")
    for word, part in schema.items():
        if (
            word not in _KEYWORDS
            and word not in _SAYS_NOTHING
            and not (isinstance(word, str) and word.startswith("x-"))
        ):
            raise SchemaError(
                f"{_place(at)}unknown word {word!r:.60}{suggestion(str(word), [*_KEYWORDS, *_SAYS_NOTHING])}"
            )
        if word in _SHAPES and not _SHAPES[word](part):
            raise SchemaError(f"{_place((*at, word))}{to_json(part):.60} can not stand here")
        if word == "$ref":
            check.resolved(part)
        for name, below in _parts(word, part):
            _require_known(below, check, (*at, word, *name))


def _parts(word: str, part: Any) -> Iterator[tuple[At, Any]]:
    if word in _IN_MAPPINGS and isinstance(part, Mapping):
        yield from (((name,), below) for name, below in part.items())
    elif word in _IN_LISTS and isinstance(part, list):
        yield from (((number,), below) for number, below in enumerate(part))
    elif word in _IN_PLACE:
        yield (), part


def _place(at: At) -> str:
    return f"{''.join(f'[{name}]' if isinstance(name, int) else f'.{name}' for name in at).lstrip('.')}: " if at else ""


def _shown(value: Any) -> str:
    text = to_json(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


def _is_type(value: Any, name: str) -> bool:
    if name == "integer":
        return (type(value) is int) or (type(value) is float and value.is_integer())
    if name == "number":
        return type(value) in (int, float)
    return type(value) is {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}.get(name)


def _same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same in JSON, where 1 is 1.0 and not true."""
    return canonical(one) == canonical(other) or (
        _is_type(one, "number") and _is_type(other, "number") and one == other
    )


def _type(value: Any, schema: Mapping[str, Any], at: At, _: SchemaCheck) -> Found:
    names = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if not any(_is_type(value, name) for name in names):
        yield at, f"{' or '.join(_WORDS.get(name, name) for name in names)} is wanted, not {_shown(value)}"


def _enum(value: Any, schema: Mapping[str, Any], at: At, _: SchemaCheck) -> Found:
    if not any(_same(value, each) for each in schema["enum"]):
        yield at, f"one of {', '.join(map(_shown, schema['enum']))} is wanted, not {_shown(value)}"


def _const(value: Any, schema: Mapping[str, Any], at: At, _: SchemaCheck) -> Found:
    if not _same(value, schema["const"]):
        yield at, f"{_shown(schema['const'])} is wanted, not {_shown(value)}"


def _required(value: Any, schema: Mapping[str, Any], at: At, _: SchemaCheck) -> Found:
    if type(value) is dict:
        yield from ((at, f"{name!r} is missing") for name in schema["required"] if name not in value)


def _properties(value: Any, schema: Mapping[str, Any], at: At, check: SchemaCheck) -> Found:
    if type(value) is dict:
        for name, part in schema["properties"].items():
            if name in value:
                yield from check.problems(part, value[name], (*at, name))


def _patterns(value: Any, schema: Mapping[str, Any], at: At, check: SchemaCheck) -> Found:
    if type(value) is dict:
        for pattern, part in schema["patternProperties"].items():
            for name in value:
                if _pattern_of(pattern).search(name):
                    yield from check.problems(part, value[name], (*at, name))


def _additional(value: Any, schema: Mapping[str, Any], at: At, check: SchemaCheck) -> Found:
    if type(value) is dict:
        patterns = [_pattern_of(each) for each in schema.get("patternProperties", ())]
        for name, entry in value.items():
            if name not in schema.get("properties", ()) and not any(each.search(name) for each in patterns):
                if schema["additionalProperties"] is False:
                    yield at, f"unknown key {name!r:.60}{suggestion(name, schema.get('properties', ()))}"
                else:
                    yield from check.problems(schema["additionalProperties"], entry, (*at, name))


def _names(value: Any, schema: Mapping[str, Any], at: At, check: SchemaCheck) -> Found:
    if type(value) is dict:
        for name in value:
            yield from (
                (at, f"the key {name!r:.60}: {said}") for _, said in check.problems(schema["propertyNames"], name, ())
            )


def _dependent_required(value: Any, schema: Mapping[str, Any], at: At, _: SchemaCheck) -> Found:
    if type(value) is dict:
        for name, wanted in schema["dependentRequired"].items():
            if name in value:
                yield from ((at, f"{each!r} is missing beside {name!r}") for each in wanted if each not in value)


def _dependent_schemas(value: Any, schema: Mapping[str, Any], at: At, check: SchemaCheck) -> Found:
    if type(value) is dict:
        for name, part in schema["dependentSchemas"].items():
            if name in value:
                yield from check.problems(part, value, at)


def _prefix(value: Any, schema: Mapping[str, Any], at: At, check: SchemaCheck) -> Found:
    if type(value) is list:
        for number, (part, entry) in enumerate(zip(schema["prefixItems"], value, strict=False)):
            yield from check.problems(part, entry, (*at, number))


def _items(value: Any, schema: Mapping[str, Any], at: At, check: SchemaCheck) -> Found:
    if type(value) is list:
        for number in range(len(schema.get("prefixItems", ())), len(value)):
            yield from check.problems(schema["items"], value[number], (*at, number))


def _contains(value: Any, schema: Mapping[str, Any], at: At, check: SchemaCheck) -> Found:
    if type(value) is list:
        count = sum(check.fits(schema["contains"], entry) for entry in value)
        least, most = schema.get("minContains", 1), schema.get("maxContains", math.inf)
        if not least <= count <= most:
            yield (
                at,
                f"{count} entries are of the kind that is wanted {least} times{'' if most == math.inf else f' to {most} times'}",
            )


def _unique(value: Any, schema: Mapping[str, Any], at: At, _: SchemaCheck) -> Found:
    if type(value) is list and schema["uniqueItems"] and len(set(map(canonical, value))) < len(value):
        yield at, "an entry stands there twice"


def _pattern(value: Any, schema: Mapping[str, Any], at: At, _: SchemaCheck) -> Found:
    if type(value) is str and not _pattern_of(schema["pattern"]).search(value):
        yield at, f"text that fits {schema['pattern']!r:.60} is wanted, not {_shown(value)}"


def _bound(word: str, is_in: Callable[[Any, Any], bool], said: str) -> Keyword:
    def check(value: Any, schema: Mapping[str, Any], at: At, _: SchemaCheck) -> Found:
        if type(value) in (int, float) and not is_in(value, schema[word]):
            yield at, f"a number {said} {schema[word]} is wanted, not {value}"

    return check


def _size(word: str, kind: type[Sized], is_in: Callable[[int, int], bool], said: str) -> Keyword:
    def check(value: Any, schema: Mapping[str, Any], at: At, _: SchemaCheck) -> Found:
        if isinstance(value, kind) and not is_in(len(value), schema[word]):
            yield at, f"{said} {schema[word]} is wanted, not {len(value)}"

    return check


def _multiple(value: Any, schema: Mapping[str, Any], at: At, _: SchemaCheck) -> Found:
    step = schema["multipleOf"]
    if type(value) in (int, float) and abs(value / step - round(value / step)) > 1e-9:
        yield at, f"a multiple of {step} is wanted, not {value}"


def _ref(value: Any, schema: Mapping[str, Any], at: At, check: SchemaCheck) -> Found:
    yield from check.problems(check.resolved(schema["$ref"]), value, at)


def _all_of(value: Any, schema: Mapping[str, Any], at: At, check: SchemaCheck) -> Found:
    for part in schema["allOf"]:
        yield from check.problems(part, value, at)


def _any_of(value: Any, schema: Mapping[str, Any], at: At, check: SchemaCheck) -> Found:
    found = [next(check.problems(part, value, at), None) for part in schema["anyOf"]]
    if None not in found:
        yield at, f"none of {len(found)} forms fits ({_nearest(found)})"


def _one_of(value: Any, schema: Mapping[str, Any], at: At, check: SchemaCheck) -> Found:
    found = [next(check.problems(part, value, at), None) for part in schema["oneOf"]]
    if found.count(None) != 1:
        said = (
            f"{found.count(None)} of {len(found)} forms fit"
            if None in found
            else f"none of {len(found)} forms fits ({_nearest(found)})"
        )
        yield at, said


def _nearest(found: Sequence[tuple[At, str] | None]) -> str:
    at, said = max((each for each in found if each is not None), key=lambda each: len(each[0]))
    return f"{_place(at)}{said}"


def _not(value: Any, schema: Mapping[str, Any], at: At, check: SchemaCheck) -> Found:
    if check.fits(schema["not"], value):
        yield at, f"{_shown(value)} is what must not stand here"


def _if(value: Any, schema: Mapping[str, Any], at: At, check: SchemaCheck) -> Found:
    word = "then" if check.fits(schema["if"], value) else "else"
    if word in schema:
        yield from check.problems(schema[word], value, at)


@lru_cache(maxsize=200)
def _pattern_of(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _is_pattern(value: Any) -> bool:
    try:
        return isinstance(value, str) and _pattern_of(value) is not None
    except re.error:
        return False


_KEYWORDS: Mapping[str, Keyword] = {
    "$ref": _ref,
    "type": _type,
    "enum": _enum,
    "const": _const,
    "required": _required,
    "properties": _properties,
    "patternProperties": _patterns,
    "additionalProperties": _additional,
    "propertyNames": _names,
    "minProperties": _size("minProperties", dict, lambda size, least: size >= least, "at least so many keys:"),
    "maxProperties": _size("maxProperties", dict, lambda size, most: size <= most, "at most so many keys:"),
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
    "prefixItems": _prefix,
    "items": _items,
    "contains": _contains,
    "minItems": _size("minItems", list, lambda size, least: size >= least, "a list of at least"),
    "maxItems": _size("maxItems", list, lambda size, most: size <= most, "a list of at most"),
    "uniqueItems": _unique,
    "minLength": _size("minLength", str, lambda size, least: size >= least, "text with a length of at least"),
    "maxLength": _size("maxLength", str, lambda size, most: size <= most, "text with a length of at most"),
    "pattern": _pattern,
    "minimum": _bound("minimum", lambda value, least: value >= least, "of at least"),
    "maximum": _bound("maximum", lambda value, most: value <= most, "of at most"),
    "exclusiveMinimum": _bound("exclusiveMinimum", lambda value, least: value > least, "above"),
    "exclusiveMaximum": _bound("exclusiveMaximum", lambda value, most: value < most, "below"),
    "multipleOf": _multiple,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
}
_IN_MAPPINGS = frozenset({"$defs", "definitions", "properties", "patternProperties", "dependentSchemas"})
_IN_LISTS = frozenset({"prefixItems", "allOf", "anyOf", "oneOf"})
_IN_PLACE = frozenset({"additionalProperties", "propertyNames", "items", "contains", "not", "if", "then", "else"})


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_type_name(value: Any) -> bool:
    names = [value] if isinstance(value, str) else value
    return isinstance(names, list) and bool(names) and all(name in (*_WORDS, "boolean", "null") for name in names)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


_SHAPES: Mapping[str, Callable[[Any], bool]] = {
    "type": _is_type_name,
    "enum": lambda value: isinstance(value, list) and bool(value),
    "required": _is_texts,
    "pattern": _is_pattern,
    "patternProperties": lambda value: isinstance(value, Mapping) and all(map(_is_pattern, value)),
    "dependentRequired": lambda value: isinstance(value, Mapping) and all(map(_is_texts, value.values())),
    "uniqueItems": lambda value: isinstance(value, bool),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(
        ("properties", "dependentSchemas", "$defs", "definitions"), lambda value: isinstance(value, Mapping)
    ),
    **dict.fromkeys(("prefixItems", "allOf", "anyOf", "oneOf"), lambda value: isinstance(value, list) and bool(value)),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minProperties", "maxProperties", "minItems", "maxItems", "minLength", "maxLength"), _is_count),
    **dict.fromkeys(("minContains", "maxContains"), _is_count),
}
