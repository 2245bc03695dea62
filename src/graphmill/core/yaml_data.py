"""YAML as plain data: what JSON can say and nothing more, so that no text turns into a date or a truth by accident."""

from __future__ import annotations

import re
from typing import Any

import yaml

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _DataLoader(_Loader):  # type: ignore[misc]
    """A safe loader whose only booleans are true and false, that keeps dates as text and refuses repeated keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = key_node.value
            if key in seen and key != "<<":
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} stands here twice", key_node.start_mark)
            seen.add(key)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return mapping


_DataLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool")]
    for first, resolvers in _DataLoader.yaml_implicit_resolvers.items()
}
_DataLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))


def from_yaml(text: str | bytes) -> Any:
    """Read one YAML document as plain data; ValueError names line and column of a mistake."""
    try:
        return yaml.load(text, Loader=_DataLoader)  # noqa: S506  a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ValueError(f"{place}{error.problem or error.context}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from error
