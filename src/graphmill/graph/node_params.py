"""Params of node types: checked as written, and documented."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from graphmill.core.errors import Permanent, UsageError, message_of
from graphmill.core.json import to_json
from graphmill.core.suggest import suggestion
from graphmill.graph.language.places import At
from graphmill.graph.node_type import NodeType, ParamError
from graphmill.graph.secrets import names_secret
from graphmill.graph.template import text_of

_EXPECTED = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_RANGE = re.compile(r"Expected `([^`]*)` (.*)")
_PLACE = re.compile(r" - at (`key` in )?`\$\.?([^`]*)`$")
_WORDS = {
    "object": "a mapping",
    "array": "a list",
    "str": "text",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
}
_TYPE_WORDS = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    dict: "mapping",
    Mapping: "mapping",
    list: "list",
    Any: "any value",
}


def param_problems(node_type: NodeType[Any], params: Mapping[str, Any]) -> list[ParamError]:
    """Return what is wrong with params as written: unknown and missing keys, and values of the wrong type.

    The value of a template or ``{env: NAME}`` is only known at the attempt, so it passes here.
    """
    if node_type.Params is None:
        return []
    return list(_struct_problems(node_type.Params, params, (), as_written=node_type.untemplated))


def given_params(node_type: NodeType[Any], params: Mapping[str, Any], *, of: str) -> dict[str, Any]:
    """Check params of a type that are set outside of a workflow; None means unset. ``of`` begins a UsageError."""
    # NumPy has its own float type, and a Decimal would be sent as text.
    given = {name: value for name, value in params.items() if value is not None}
    for name, value in given.items():
        if isinstance(value, float | Decimal):
            given[name] = float(value)
    if node_type.Params is None:
        return given
    try:
        msgspec.convert(given, node_type.Params)
    except msgspec.ValidationError as error:
        raise UsageError(f"{of}: {describe_misfits(node_type.Params, given, error)}") from None
    return given


def describe_misfits(struct: type[msgspec.Struct], params: Mapping[str, Any], error: msgspec.ValidationError) -> str:
    """Say which params do not fit, in our own words where we have some."""
    problems = _struct_problems(struct, params, (), as_written=frozenset(map(str, params)))
    return "; ".join(map(str, problems)) or str(error)


def misfit(kind: Any, value: Any, at: At, *, is_written: bool = True) -> ParamError | None:
    """Return the first problem of a value that Params only declares as a list or a mapping."""
    return next(_problems(kind, value, at, is_written=is_written), None)


def is_open(value: Any) -> bool:
    """Return whether a value as written is only known at the attempt, in whole or in part."""
    if isinstance(value, str):
        return "${" in value
    if isinstance(value, Mapping):
        return names_secret(value) or any(map(is_open, value.values()))
    return isinstance(value, list) and any(map(is_open, value))


def options(kind: Any) -> tuple[Any, ...]:
    """Return the types that a field may have, without annotations."""
    if get_origin(kind) is Annotated:
        return options(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return tuple(option for part in get_args(kind) for option in options(part))
    return (kind,)


def description(kind: Any) -> str:
    """Return the description of a field, or ""."""
    if get_origin(kind) is not Annotated:
        return ""
    texts = (entry.description for entry in get_args(kind)[1:] if isinstance(entry, msgspec.Meta))
    return next((text for text in texts if text), "")


@cache
def _fields(struct: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(struct)}


def _struct_problems(
    struct: type[msgspec.Struct], found: Mapping[Any, Any], at: At, *, as_written: frozenset[str] = frozenset()
) -> Iterator[ParamError]:
    fields = _fields(struct)
    for key, value in found.items():
        if key in fields:
            yield from _problems(fields[key].type, value, (*at, key), is_written=key in as_written)
        else:
            message = f"unknown key {key!r}{suggestion(str(key), fields)}; known keys: {', '.join(fields)}"
            yield _problem(message, (*at, key), within=at)
    for name, field in fields.items():
        if field.required and name not in found:
            yield _problem(f"{name!r} is missing", at)


def _problems(kind: Any, value: Any, at: At, *, is_written: bool) -> Iterator[ParamError]:
    """Check a value against a type; ``is_written`` says that it contains no templates."""
    if not is_written and _is_unknown(value):
        return
    wanted = options(kind)
    if isinstance(value, Mapping) and (inner := _mapping_type(wanted)):
        yield from _mapping_problems(inner, value, at, is_written=is_written)
    elif isinstance(value, list | tuple) and (item := _item_type(wanted)) is not None:
        for index, entry in enumerate(value):
            yield from _problems(item, entry, (*at, index), is_written=is_written)
    else:
        yield from _value_problems(kind, value, at, is_written=is_written)


def _is_unknown(value: Any) -> bool:
    """Return whether a value is a template or ``{env: NAME}``, so that even its type is unknown."""
    if isinstance(value, Mapping):
        return names_secret(value)
    return isinstance(value, str) and is_open(value)


def _mapping_problems(inner: Any, value: Mapping[Any, Any], at: At, *, is_written: bool) -> Iterator[ParamError]:
    if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
        as_written = frozenset(map(str, value)) if is_written else frozenset[str]()
        yield from _struct_problems(inner, value, at, as_written=as_written)
        return
    key_type, value_type = get_args(inner)
    for key, entry in value.items():
        if key_type is str and not isinstance(key, str):
            yield _problem(f"a key must be text, got {key!r}", at)
        yield from _problems(value_type, entry, (*at, key), is_written=is_written)


def _mapping_type(wanted: Sequence[Any]) -> Any:
    """Return the only type with keys among these, to check a mapping part by part; None if there is no such type."""
    found = [each for each in wanted if _holds_keys(each)]
    if len(found) != 1 or Any in wanted or (found[0] is dict and not get_args(found[0])):
        return None
    return found[0]


def _item_type(wanted: Sequence[Any]) -> Any:
    """Return the only type of a list's entries; None if there is none or more than one."""
    found = [get_args(each)[0] for each in wanted if _holds_entries(each) and len(set(get_args(each)) - {...}) == 1]
    if len(found) != 1 or Any in wanted:
        return None
    return found[0]


def _holds_keys(kind: Any) -> bool:
    return (
        get_origin(kind) in (dict, Mapping)
        or kind is dict
        or (isinstance(kind, type) and issubclass(kind, msgspec.Struct))
    )


def _holds_entries(kind: Any) -> bool:
    return get_origin(kind) in (list, tuple, Sequence) or kind in (list, tuple)


def _value_problems(kind: Any, value: Any, at: At, *, is_written: bool) -> Iterator[ParamError]:
    holds = _holds_keys if isinstance(value, Mapping) else _holds_entries
    if not is_written and is_open(value) and any(option is Any or holds(option) for option in options(kind)):
        return
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        yield _problem(_reworded(str(error), kind, value), at)


def _reworded(message: str, kind: Any, value: Any) -> str:
    """Put msgspec's message into the words of a workflow."""
    choices = _choices(kind)
    if choices and isinstance(value, str):
        return f"must be one of {', '.join(choices)}, got {value!r}{suggestion(value, choices)}"
    place = _PLACE.search(message)
    text, inside = message, ""
    if place:
        text, inside = message[: place.start()], place[2]
    if match := _EXPECTED.fullmatch(text):
        text = f"must be {_in_words(match[1])}, got {_in_words(match[2])}"
        if not place:
            text += _about(kind)
    elif match := _RANGE.fullmatch(text):
        text = f"must be {_in_words(match[1])} {match[2]}"
    return f"{inside}: {text}" if inside else text


def _choices(kind: Any) -> list[str]:
    return [str(choice) for option in options(kind) if get_origin(option) is Literal for choice in get_args(option)]


def _about(kind: Any) -> str:
    """Describe a field by the first sentence of its description."""
    text = description(kind).partition(". ")[0].rstrip(".").replace("`", "")
    return f" ({text})" if text else ""


def _in_words(names: str) -> str:
    return " or ".join(_WORDS.get(name, name) for name in names.split(" | "))


def _problem(message: str, at: At, *, within: At | None = None) -> ParamError:
    where = ".".join(map(str, at if within is None else within))
    return ParamError(f"{where}: {message}" if where else message, at=at)


class Filled(NamedTuple):
    """The value of a template."""

    value: Any

    @property
    def text(self) -> str:
        """The value as text; Permanent if it has none."""
        try:
            return text_of(self.value)
        except (TypeError, ValueError, RecursionError) as error:
            raise Permanent(f"a value cannot be part of a text: {message_of(error)}") from error


class PiecedText(str):
    """A text that still knows its pieces."""

    __slots__ = ("pieces",)
    pieces: tuple[str | Filled, ...]


def join_pieces(resolved: Iterable[str | list[Any]]) -> PiecedText:
    """Join what a template resolves to in pieces: written text, and each value in a list of its own."""
    pieces = tuple([piece if isinstance(piece, str) else Filled(piece[0]) for piece in resolved])
    text = PiecedText("".join([piece if isinstance(piece, str) else piece.text for piece in pieces]))
    text.pieces = pieces
    return text


def pieces_of(text: str) -> tuple[str | Filled, ...]:
    """Return the pieces of a param; a text without templates is a single piece."""
    return text.pieces if isinstance(text, PiecedText) else (text,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamDoc:
    """One param: name, type in words, default as JSON (None: required), whether it is templated, description."""

    name: str
    type: str
    default: str | None
    is_templated: bool
    description: str


def param_docs(node_type: NodeType[Any]) -> list[ParamDoc]:
    """Return the params of a type in order; none for a type that takes any mapping."""
    if node_type.Params is None:
        return []
    return [
        _doc(field, is_templated=field.encode_name not in node_type.untemplated)
        for field in msgspec.structs.fields(node_type.Params)
    ]


def _doc(field: msgspec.structs.FieldInfo, *, is_templated: bool) -> ParamDoc:
    return ParamDoc(
        name=field.encode_name,
        type=_type(field.type),
        default=_default(field),
        is_templated=is_templated,
        description=description(field.type),
    )


def _default(field: msgspec.structs.FieldInfo) -> str | None:
    if field.required:
        return None
    if field.default is msgspec.NODEFAULT:
        return to_json(field.default_factory())
    return to_json(field.default)


def _type(kind: Any) -> str:
    words = [word for option in options(kind) if option is not NoneType for word in _words(option)]
    if len(words) > 1:
        return f"{', '.join(words[:-1])} or {words[-1]}"
    return "".join(words)


def _words(option: Any) -> list[str]:
    if get_origin(option) is Literal:
        return [f"`{choice}`" for choice in get_args(option)]
    if isinstance(option, type) and issubclass(option, msgspec.Struct):
        return [f"mapping of {', '.join(field.encode_name for field in msgspec.structs.fields(option))}"]
    outer = get_origin(option) or option
    inner = [part for part in get_args(option)[-1:] if part is not Any]
    word = _TYPE_WORDS.get(outer, getattr(outer, "__name__", str(outer)))
    if inner and outer is list:
        return [f"{word} of {_type(inner[0])}"]
    return [word]
