"""YAML as plain data: JSON's types and no others, so that no text turns into a date or a boolean by accident."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from graphmill.core.json import MOST_LEVELS
from graphmill.core.positions import TextError, place

_MOST_VALUES = 10_000_000
_TAG = "tag:yaml.org,2002:"
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _DataLoader(_Loader):  # type: ignore[misc]
    """A safe loader that refuses what JSON does not have: repeated keys, non-scalar keys, data that contains itself."""

    _level = 0

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()
        if node is not None:
            _require_plain(node, {})
        return node

    def descend_resolver(self, current_node: yaml.Node, current_index: object) -> None:
        """Count the levels while they are composed: the C composer recurses, and thousands of them end the process."""
        del current_index
        self._level += 1
        if self._level > MOST_LEVELS:
            raise yaml.composer.ComposerError(
                None, None, f"nested deeper than {MOST_LEVELS} levels", current_node.start_mark
            )

    def ascend_resolver(self) -> None:
        self._level -= 1


def _placed(make: Any) -> Any:
    """Wrap a constructor: an explicit tag that does not fit its text is reported with its position."""

    def construct(loader: Any, node: yaml.Node) -> Any:
        try:
            return make(loader, node)
        except (LookupError, ValueError) as error:
            problem = f"a value does not fit its tag: {error}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error

    return construct


_DataLoader.yaml_constructors = {
    None: _DataLoader.yaml_constructors[None],
    **{_TAG + name: _DataLoader.yaml_constructors[_TAG + name] for name in ("null", "str", "seq", "map")},
    **{_TAG + name: _placed(_DataLoader.yaml_constructors[_TAG + name]) for name in ("bool", "int", "float")},
}
# YAML 1.1 would read no as false, 12:30 as 750 and the postcode 01234 as 668.
_DataLoader.yaml_implicit_resolvers = {}
for _name, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
):
    _DataLoader.add_implicit_resolver(_TAG + _name, re.compile(rf"(?:{_pattern})\Z"), _first)


class _DataDumper(yaml.SafeDumper):
    """Writes plain data; quotes each text that we, or other readers of YAML, would not read as text."""

    yaml_implicit_resolvers = {  # noqa: RUF012  as PyYAML has it
        first: yaml.SafeDumper.yaml_implicit_resolvers.get(first, [])
        + _DataLoader.yaml_implicit_resolvers.get(first, [])
        for first in {*yaml.SafeDumper.yaml_implicit_resolvers, *_DataLoader.yaml_implicit_resolvers}
    }

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = None
    if any(char in text for char in "\r\x85\u2028\u2029\ufeff"):  # line ends that other styles do not keep apart
        style = '"'
    elif "\n" in text:
        style = "|"
    return dumper.represent_scalar(f"{_TAG}str", text, style)


_DataDumper.add_representer(str, _represent_text)
Constructor = Callable[[yaml.Node], Any]


def to_yaml(data: Any) -> str:
    """Write plain data as YAML that ``from_yaml`` reads; texts of several lines are written as blocks."""
    text: str = yaml.dump(data, Dumper=_DataDumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def from_yaml(text: bytes) -> Any:
    """Read one YAML document as plain data; TextError names the line and column of a mistake."""
    return compose_yaml(text)[0]


def compose_yaml(text: bytes, tags: Mapping[str, Constructor] | None = None) -> tuple[Any, yaml.Node | None]:
    """Read one YAML document; return its data and its nodes, which know their positions.

    ``tags`` are constructors for our own tags. Merges (<<) are worked into the nodes too; of a repeated key the last
    one counts.
    """
    try:
        return _composed(text, tags or {})
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise TextError(
            ", ".join(part for part in (error.context, error.problem) if part), line=line, column=column
        ) from error
    except yaml.reader.ReaderError as error:
        line, column = place(text, error.position)
        raise TextError(str(error.reason), line=line, column=column) from error


def _composed(text: bytes, tags: Mapping[str, Constructor]) -> tuple[Any, yaml.Node | None]:
    loader = _DataLoader(text)
    try:
        loader.yaml_constructors = {**loader.yaml_constructors, **{tag: _by_node(make) for tag, make in tags.items()}}
        node = loader.get_single_node()
        return None if node is None else loader.construct_document(node), node
    finally:
        loader.dispose()


def _by_node(make: Constructor) -> Callable[[Any, yaml.Node], Any]:
    return lambda _, node: make(node)


def _require_plain(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Refuse repeated keys and loops, before merges (<<) are worked in; count the values with aliases expanded."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) in sizes:
        if not sizes[id(node)]:
            raise yaml.constructor.ConstructorError(None, None, "this contains itself", node.start_mark)
        return sizes[id(node)]
    sizes[id(node)] = 0
    if isinstance(node, yaml.MappingNode):
        _require_keys_once(node)
    size = 1 + sum(_require_plain(child[1] if isinstance(child, tuple) else child, sizes) for child in node.value)
    if size > _MOST_VALUES:
        raise yaml.constructor.ConstructorError(
            None, None, f"its aliases expand to more than {_MOST_VALUES:,} values", node.start_mark
        )
    sizes[id(node)] = size
    return size


def _require_keys_once(node: yaml.MappingNode) -> None:
    seen: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.constructor.ConstructorError(
                None, None, "a key must be text, not a list or a mapping", key.start_mark
            )
        if key.value in seen and key.value != "<<":
            raise yaml.constructor.ConstructorError(None, None, f"repeated key {key.value!r}", key.start_mark)
        seen.add(key.value)
