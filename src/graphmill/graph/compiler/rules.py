"""The rules by which a node's steps run, put together from the node, its batch and its loop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from graphmill.graph.compiled import BatchRule, LoopRule, RetryRule
from graphmill.graph.compiler.templates import LoopValues, NodeValues, Written
from graphmill.graph.spec import NodeSpec
from graphmill.graph.template import Value


def retry_rule(node: NodeSpec, *, is_legacy: bool) -> RetryRule:
    """Give the batch's rule, else the node's, else None for the policy's; a batch of an ``ir_version`` file tries once and waits alike."""
    retry, batch = node.retry, node.batch
    attempts, wait_s, backoff = retry.attempts, retry.wait_s, retry.backoff
    if batch is not None:
        attempts = _first(batch.max_retries, attempts, 1 if is_legacy else None)
        wait_s = _first(batch.retry_wait_s, wait_s, 0.0 if is_legacy else None)
        backoff = _first(backoff, "fixed" if is_legacy else None)
    return RetryRule(attempts=attempts, wait_s=wait_s, backoff=backoff, cap_s=retry.cap_s)


def timeout_s(node: NodeSpec, *, is_legacy: bool) -> float | None:
    """Give the limit of an attempt likewise; a batch of an ``ir_version`` file has none, whatever the policy says."""
    if node.batch is None:
        return node.timeout_s
    return cast("float | None", _first(node.batch.timeout_s, node.timeout_s, math.inf if is_legacy else None))


def batch_rule(node: NodeSpec, values: NodeValues) -> BatchRule | None:
    """Give how the node's items are run."""
    batch = node.batch
    if batch is None or values.items is None:
        return None
    return BatchRule(
        items=_value(values.items),
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


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)
