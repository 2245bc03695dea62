"""JSON Schema: compiles a schema once, and checks data against it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphmill.core.errors import UsageError
from graphmill.core.json import MOST_LEVELS, count_levels, is_too_deep
from graphmill.core.suggest import suggestion

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

_MOST_CHARS = 400
_MOST_EXPLAINED = 8  # levels; a recursive schema with alternatives has twice the errors for each more
Path = tuple[str | int, ...]

# Keywords that hold schemas: by name, in a list, or one; then those that hold none.
_BY_NAME = {"$defs", "definitions", "dependentSchemas", "dependencies", "patternProperties", "properties"}
_IN_LIST = {"allOf", "anyOf", "items", "oneOf", "prefixItems"}
# fmt: off
_SINGLE = {
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
}
_PLAIN = {
    "$anchor", "$comment", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef", "$ref",
    "$schema", "$vocabulary", "const", "contentEncoding", "contentMediaType", "default", "dependentRequired",
    "deprecated", "description", "discriminator", "enum", "example", "examples", "exclusiveMaximum",
    "exclusiveMinimum", "format", "id", "maxContains", "maxItems", "maxLength", "maxProperties", "maximum",
    "minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "nullable", "pattern",
    "readOnly", "required", "title", "type", "uniqueItems", "writeOnly",
}
# fmt: on
_KEYWORDS = _BY_NAME | _IN_LIST | _SINGLE | _PLAIN


class JsonSchema:
    """A compiled schema; UsageError if it is not valid. ``format`` is not checked, and no reference is fetched."""

    def __init__(self, schema: dict[str, Any] | bool) -> None:  # noqa: FBT001  a schema may be one
        # Imported late: it takes 35 ms, and most commands and workflows have no schema.
        import jsonschema_rs  # noqa: PLC0415

        if is_too_deep(schema):
            raise UsageError(f"the JSON Schema is nested deeper than {MOST_LEVELS} levels")
        _require_keywords(schema, ())
        try:
            self._validator = jsonschema_rs.validator_for(schema, validate_formats=False, offline=True)
        except jsonschema_rs.ValidationError as error:
            raise _refused(error.instance_path, error.message) from None
        except ValueError as error:  # nested deeper than the library allows, or a key that is not text
            raise _refused((), str(error)) from None

    def problem(self, value: Any) -> str | None:
        """Return the first thing that is wrong with a value, and where; None if the value fits."""
        if is_too_deep(value):  # it would overflow the validator's stack
            return f"the value is nested deeper than {MOST_LEVELS} levels"
        try:
            if self._validator.is_valid(value):
                return None
            if count_levels(value) > _MOST_EXPLAINED:
                return (
                    f"does not match the schema; nested over {_MOST_EXPLAINED} levels, so the place is not searched for"
                )
            error = next(self._validator.iter_errors(value))
        except UnicodeEncodeError:
            return "a text in it is not valid Unicode"
        return _problem(error)


def _require_keywords(schema: Any, path: Path) -> None:
    """Refuse unknown keywords, which JSON Schema ignores: a misspelt one would check nothing."""
    if not isinstance(schema, Mapping):
        return
    for keyword, value in schema.items():
        name = str(keyword)
        if name not in _KEYWORDS and not name.startswith("x-"):
            raise _refused(path, f"unknown keyword {name!r:.60}{suggestion(name, _KEYWORDS)}")
        for below, part in _subschemas(name, value):
            _require_keywords(part, (*path, name, *below))


def _subschemas(keyword: str, value: Any) -> Iterator[tuple[Path, Any]]:
    if keyword in _BY_NAME and isinstance(value, Mapping):
        yield from (((str(name),), part) for name, part in value.items())
    elif keyword in _IN_LIST and isinstance(value, list):
        yield from (((number,), part) for number, part in enumerate(value))
    elif keyword in _SINGLE:
        yield (), value


def _problem(error: ValidationError) -> str:
    message = error.message
    # Where no alternative of anyOf or oneOf fits, the message alone does not say why.
    alternatives = [errors[0] for errors in getattr(error.kind, "context", ()) if errors]
    if alternatives:
        nearest = max(alternatives, key=lambda each: len(each.instance_path))
        message = f"{_shortened(message)}; nearest: {_problem(nearest)}"
    return _with_path(error.instance_path, message)


def _refused(path: Sequence[str | int], message: str) -> UsageError:
    return UsageError(f"the JSON Schema is not valid: {_with_path(path, message)}")


def _with_path(path: Sequence[str | int], message: str) -> str:
    place = "".join(f"[{name}]" if isinstance(name, int) else f".{name}" for name in path).removeprefix(".")
    return ": ".join(filter(None, [place, _shortened(message)]))


def _shortened(message: str) -> str:
    """Cut a long message in the middle: it begins with the value, and what is wrong with it comes last."""
    if len(message) <= _MOST_CHARS:
        return message
    return f"{message[: _MOST_CHARS // 2]} … {message[-_MOST_CHARS // 2 :]}"
