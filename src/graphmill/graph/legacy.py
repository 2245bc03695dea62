"""Workflows of the older JSON form, marked by ``ir_version``: which of its keys mean what here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graphmill.graph.kinds import MOST_SECONDS
from graphmill.graph.places import At

NO_TIMEOUT_S = MOST_SECONDS
BATCH_DEFAULTS: Mapping[str, Any] = {"max_retries": 1, "retry_wait": 0, "timeout": NO_TIMEOUT_S}
BATCH_BACKOFF = "fixed"


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a block of the older form has beside our keys: renamed ones; ones that do nothing here, and why; refused ones, and why."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


_NO_WORDS = dict.fromkeys(("_source_line", "_source_lines", "_source_files", "_routes_to_end"), "")
WORKFLOW = Dialect(
    ignored={
        "mappings": "mappings do nothing here: a node reads what another wrote by ${node.output}",
        "cache": "a prompt cache is not declared here; it is left to the provider",
        "enable_namespacing": "a node always writes under its own id here; read it by ${node.output}",
        "template_resolution_mode": "a missing reference always fails the job here, as in strict mode",
        "metadata": "",
        "version": "",
    }
)
SAVED = frozenset({"name", "description", "ir", "created_at", "updated_at", "version", "rich_metadata", "metadata"})
INPUT = Dialect(
    ignored={"stdin": "what is piped in is not bound to an input here; give the input a value like any other"}
)
OUTPUT = Dialect(
    ignored={"stdout": "all outputs are printed here, not one of them", "description": "", "type": "", **_NO_WORDS}
)
NODE = Dialect(
    renamed={"parameters": "params"},
    ignored={
        "cache": "finished steps are found in the journal here; a node has no cache of its own",
        "prompt_cache": "a prompt cache is left to the provider here",
        "prewarm": "a prompt cache is left to the provider here",
        **_NO_WORDS,
    },
    refused={
        "approval": "there is no approval by a person here, and without it the node would just run; split the workflow at this node"
    },
)
EDGE = Dialect(renamed={"source": "from", "target": "to"})
RETRY = Dialect(renamed={"max": "attempts", "wait": "wait_s"})
LOOP = Dialect(
    renamed={"max_iterations": "max"},
    refused={
        "while": "here a loop ends when a reference is truthy: until: {reason: ${round.field}}",
        "carry": "here a round reads those before it by the history: ${past[-1].field}",
    },
)
OURS = Dialect()


def output_value(source: str) -> str:
    """Give an output's source as a template; the older form also has it bare."""
    return source if "${" in source else f"${{{source}}}"


def is_output_declaration(value: Any) -> bool:
    """Tell whether an output looks like the older form's: its source, and a word about it."""
    return (
        isinstance(value, Mapping)
        and "source" in value
        and len(value) > 1
        and set(value) <= {"source", *OUTPUT.ignored}
    )


def differences(
    nodes: Sequence[tuple[At, str]], edges: Sequence[tuple[At, str, str, str]], *, start_node: str | None
) -> Iterator[tuple[At, str]]:
    """Tell where the order is another here: what starts, and what runs side by side.

    A node is its place and id, an edge its place, source, target and action.
    """
    if not edges and len(nodes) > 1:
        yield nodes[0][0][:-1], "without edges all nodes run in listed order here; there only the first ran"
    reached = {target for _, _, target, _ in edges}
    for at, name in nodes[1:] if edges and start_node is None else ():
        if name not in reached:
            yield at, f"node {name!r} starts too, as no edge leads to it; there only the first node started"
    seen: set[tuple[str, str]] = set()
    for at, source, _, action in edges:
        if (source, action) in seen:
            yield (
                at,
                f"all edges of node {source!r} with action {action!r} are taken, side by side; there only the last was",
            )
        seen.add((source, action))
