"""The rules by which a node's steps run, put together from the node, its batch and its loop."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from graphmill.graph.compiler.templates import LoopValues, NodeValues, Written
from graphmill.graph.graph import BatchRule, LoopRule, RetryRule
from graphmill.graph.spec import NodeSpec
from graphmill.graph.template import Value, entries_of


def retry_rule(node: NodeSpec) -> RetryRule:
    """Give the batch's rule, else the node's, else None for the policy's."""
    retry, batch = node.retry, node.batch
    attempts = retry.attempts if batch is None or batch.max_retries is None else batch.max_retries
    wait_s = retry.wait_s if batch is None or batch.retry_wait_s is None else batch.retry_wait_s
    return RetryRule(attempts=attempts, wait_s=wait_s, backoff=retry.backoff, cap_s=retry.cap_s)


def timeout_s(node: NodeSpec) -> float | None:
    """Give the limit of an attempt likewise."""
    return node.timeout_s if node.batch is None or node.batch.timeout_s is None else node.batch.timeout_s


def batch_rule(node: NodeSpec, values: NodeValues) -> BatchRule | None:
    """Give how the node's items are run."""
    batch = node.batch
    if batch is None or values.items is None:
        return None
    return BatchRule(
        items=_value(values.items),
        entries=entries_of(_value(values.items)),
        alias=batch.alias,
        error_handling=cast("Any", batch.error_handling),
        is_parallel=batch.is_parallel,
        max_concurrent=batch.max_concurrent,
        max_failures=batch.max_failures,
        is_ordered=batch.is_ordered,
    )


def loop_rule(node: NodeSpec, values: LoopValues | None) -> LoopRule | None:
    """Give how the node's rounds are run."""
    loop = node.loop
    if loop is None or values is None:
        return None
    return LoopRule(
        max=loop.max if isinstance(loop.max, int) else _value(values.max),
        until=_values(values.until),
        repeats=_values(values.repeats),
        similarity=loop.similarity,
        keep=None if loop.keep is None or values.keep is None else (cast("Any", loop.keep[0]), _value(values.keep)),
        history=loop.history,
        timeout_s=loop.timeout_s,
        budget_usd=loop.budget_usd,
        on_error=cast("Any", loop.on_error),
    )


def _values(written: Mapping[str, Written]) -> Mapping[str, Value]:
    return MappingProxyType({name: _value(each) for name, each in written.items()})


def _value(written: Written) -> Value:
    return cast("Value", written.value)
