"""Node types for the reader: the list of them, a page on each, and all of them as Markdown.

``python -m graphmill.report.node_page > docs/nodes.md`` writes the reference.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Any

from graphmill.graph.node_params import ParamDoc, param_docs
from graphmill.graph.node_type import NodeType
from graphmill.graph.registry import NODE_GROUP, node_registry
from graphmill.report.text import align_columns

_WIDTH = 100
_INDENT = "      "
_HEAD = """\
# Node types

Written by `python -m graphmill.report.node_page > docs/nodes.md`; `graphmill nodes TYPE` shows the same for each
installed type.

A param accepts a template, `${name}`, or `{env: NAME}`, unless it says "taken as written". For what every node may have
beside its params (`retry`, `timeout`, `batch`, `loop` …) see [workflows.md](workflows.md).
"""
_TAIL = f"""\
## Write your own type

A node type is one class in one file, and one line in the `pyproject.toml` of its package:

```python
from typing import Annotated

import msgspec

from graphmill.graph.node_type import NodeType


class ShoutParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, msgspec.Meta(description="What to shout.")]
    times: Annotated[int, msgspec.Meta(ge=1, description="How often.")] = 1


class Shout(NodeType[ShoutParams]):
    name = "shout"
    summary = "Shout a text."
    Params = ShoutParams
    outputs = {{"shouted": "the text in capitals"}}

    async def run(self, params, context):
        return {{"shouted": params.text.upper() * params.times}}
```

```toml
[project.entry-points."{NODE_GROUP}"]
shout = "acme_nodes:Shout"
```

Once the package is installed, `type: shout` works, its params are checked before the first item, and
`graphmill nodes shout` shows it.
An entry point with another name is an alias.

- `run` may return `Output(values, action, flags)` to choose edges.
- `context` has the step's path, the attempt's number and its timeout, an idempotency key, the workflow's folder and
  `report_usage`.
- `context.shared(key, make)` gives what all attempts of a run share, such as a connection pool: made at first use,
  closed at the end of the run by its `async def close`.
- The exception it raises decides about retries: `Permanent`, `Transient`, `Throttled`, `Unavailable`, `Ambiguous`.
- If the params decide whether a step may run twice, `effect_of(params)` says so.
"""


def node_lines(types: Iterable[NodeType[Any]]) -> list[str]:
    """List types, one line each."""
    return align_columns([(_title(node_type), node_type.summary) for node_type in types])


def node_page(node_type: NodeType[Any], width: int | None = None) -> list[str]:
    """Show a type in full: its params, its outputs, an example; descriptions are wrapped to the width."""
    outputs = node_type.outputs or {"": _any_outputs(node_type)}
    lines = [
        f"{_title(node_type)}: {node_type.summary}",
        "",
        "params:",
        *_param_lines(node_type, min(width or _WIDTH, _WIDTH)),
        "",
        "outputs:",
        *(f"  {line.lstrip()}" for line in align_columns([(name, _plain(text)) for name, text in outputs.items()])),
    ]
    if node_type.example:
        lines += ["", "example:", *(f"  {line}" for line in node_type.example.splitlines())]
    return lines


def node_record(node_type: NodeType[Any]) -> dict[str, Any]:
    """Return a type as data; docs/cli.md describes the fields."""
    return {
        "name": node_type.name,
        "aliases": list(node_registry().aliases(node_type)),
        "summary": node_type.summary,
        "package": node_type.package,
        "params": None if node_type.Params is None else [_param_record(doc) for doc in param_docs(node_type)],
        "outputs": None if node_type.outputs is None else dict(node_type.outputs),
        "example": node_type.example or None,
    }


def _param_record(doc: ParamDoc) -> dict[str, Any]:
    return {
        "name": doc.name,
        "type": _plain(doc.type),
        "is_required": doc.default is None,
        "default": None if doc.default is None else json.loads(doc.default),
        "is_templated": doc.is_templated,
        "description": doc.description,
    }


def node_markdown(types: Iterable[NodeType[Any]]) -> str:
    """Write the reference of these types as Markdown."""
    return "\n".join([_HEAD, *(line for node_type in types for line in _section(node_type)), _TAIL])


def own_types() -> list[NodeType[Any]]:
    """Return the types that come with Graphmill itself."""
    return [
        node_type
        for node_type in node_registry().types().values()
        if node_type.package.partition(" ")[0] == "graphmill"
    ]


def _title(node_type: NodeType[Any]) -> str:
    aliases = node_registry().aliases(node_type)
    if aliases:
        return f"{node_type.name} (also {', '.join(aliases)})"
    return node_type.name


def _param_lines(node_type: NodeType[Any], width: int) -> Iterator[str]:
    if node_type.Params is None:
        yield "  any"
    for doc in param_docs(node_type):
        yield f"  {doc.name}: {_plain(doc.type)}, {_need(doc)}"
        yield from wrap(_plain(doc.description), width, initial_indent=_INDENT, subsequent_indent=_INDENT)


def _plain(text: str) -> str:
    return text.replace("`", "")


def _need(doc: ParamDoc) -> str:
    """Say whether a param is required, and whether it may hold a template."""
    need = f"default {doc.default}"
    if doc.default is None:
        need = "required"
    elif doc.default == "null":
        need = "optional"
    if doc.is_templated:
        return need
    return f"{need}, taken as written"


def _any_outputs(node_type: NodeType[Any]) -> str:
    if node_type.Params is None:
        return "its params"
    return "whatever it returns"


def _section(node_type: NodeType[Any]) -> Iterator[str]:
    aliases = "".join(f", `{alias}`" for alias in node_registry().aliases(node_type))
    yield from (f"## `{node_type.name}`{aliases}", "", node_type.summary, "")
    if node_type.Params is None:
        yield "Params: any."
    else:
        yield from ("| param | type | | |", "|---|---|---|---|")
        for doc in param_docs(node_type):
            yield f"| `{doc.name}` | {doc.type} | {_need(doc)} | {_cell(doc.description)} |"
    yield ""
    if node_type.outputs is None:
        yield f"Outputs: {_any_outputs(node_type)}."
    else:
        yield from ("| output | |", "|---|---|")
        yield from (f"| `{name}` | {_cell(text)} |" for name, text in node_type.outputs.items())
    yield ""
    if node_type.example:
        yield from ("```yaml", node_type.example.rstrip(), "```", "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(node_markdown(own_types()))
