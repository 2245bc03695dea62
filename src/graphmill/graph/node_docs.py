"""What a node type's own declarations say about its params, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import msgspec

from graphmill.core.json import to_json
from graphmill.graph.node_params import description, options
from graphmill.graph.node_type import NodeType

_WORDS = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    dict: "mapping",
    Mapping: "mapping",
    list: "list",
    Any: "any value",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamDoc:
    """One param: its name, its type in words, its default as JSON (None: it is required), whether it may hold templates, what it means."""

    name: str
    type: str
    default: str | None
    is_templated: bool
    description: str


def param_docs(node_type: NodeType[Any]) -> list[ParamDoc]:
    """List the params of a type in their order; none for a type that takes any mapping."""
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
    return to_json(field.default if field.default is not msgspec.NODEFAULT else field.default_factory())


def _type(kind: Any) -> str:
    words = [word for option in options(kind) if option is not NoneType for word in _words(option)]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _words(option: Any) -> list[str]:
    if get_origin(option) is Literal:
        return [f"`{choice}`" for choice in get_args(option)]
    if isinstance(option, type) and issubclass(option, msgspec.Struct):
        return [f"mapping of {', '.join(field.encode_name for field in msgspec.structs.fields(option))}"]
    outer = get_origin(option) or option
    inner = [part for part in get_args(option)[-1:] if part is not Any]
    word = _WORDS.get(outer, getattr(outer, "__name__", str(outer)))
    return [f"{word} of {_type(inner[0])}" if inner and outer is list else word]
