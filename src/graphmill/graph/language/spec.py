"""A workflow as written: frozen values with the place of each part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphmill.graph.language.document import Document
from graphmill.graph.language.places import At


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """A declared input; without a default, and not required, it is null."""

    at: At
    name: str
    type: str | None
    is_required: bool
    default: Any
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSpec:
    """An edge from node to node, which fires on its action."""

    at: At
    source: str
    target: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec:
    """A batch block with either ``items`` or ``times``; None is what the node or the run's policy says."""

    at: At
    items: Any
    times: Any
    alias: str
    error_handling: str
    is_parallel: bool
    max_concurrent: int
    max_retries: int | None
    retry_wait_s: float | None
    timeout_s: float | None
    max_failures: int | float | None
    is_ordered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSpec:
    """A loop block."""

    at: At
    max: Any
    until: Mapping[str, Any]
    repeats: Mapping[str, Any]
    similarity: float
    keep: tuple[str, Any] | None
    history: str
    timeout_s: Any
    budget_usd: Any
    on_error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySpec:
    """A retry block; None is what the run's policy says."""

    attempts: int | None = None
    wait_s: float | None = None
    backoff: str | None = None
    cap_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """A node, its params as written."""

    at: At
    id: str
    type: str
    params: Mapping[str, Any]
    retry: RetrySpec
    timeout_s: float | None
    effect: str | None
    on_ambiguous: str
    batch: BatchSpec | None
    loop: LoopSpec | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowSpec:
    """A workflow; ``edges`` None is listed order, ``outputs`` None the last node's.

    It is not ``is_whole`` if a node, an input or an edge could not be read; references to these are not checked then.
    """

    at: At
    document: Document
    name: str
    inputs: tuple[InputSpec, ...]
    nodes: tuple[NodeSpec, ...]
    edges: tuple[EdgeSpec, ...] | None
    outputs: Mapping[str, Any] | None
    start_node: str | None
    is_whole: bool
