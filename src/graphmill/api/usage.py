"""``gm.report_usage``: functions that call models by themselves say what that used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from graphmill.core.errors import UsageError
from graphmill.core.money import to_nano
from graphmill.core.usage import Usage
from graphmill.engine.jobs.context import AttemptContext, find_context
from graphmill.graph.models.models import Models


def report_usage(
    model: str,
    *,
    input_tokens: int = 0,
    output_tokens: int = 0,
    cached_tokens: int = 0,
    reasoning_tokens: int = 0,
    requests: int = 1,
    cost_usd: float | None = None,
) -> None:
    """Add what a call of a model used that this function has made by itself, with another client.

    ``model`` is ``provider/model`` or a name in ``graphmill.yaml``; its tokens are priced as those of other calls,
    unless ``cost_usd`` says what they cost. ``input_tokens`` include ``cached_tokens``, ``output_tokens`` the
    reasoning. Outside of a run nothing is added.
    """
    cost_nano = None
    if cost_usd is not None:
        try:
            cost_nano = to_nano(cost_usd)
        except ValueError:
            raise UsageError(f"cost_usd must be a number >= 0, got {cost_usd!r:.80}") from None
    if not isinstance(model, str) or not model:
        raise UsageError(f"model must be a name such as 'openai/gpt-5-mini', got {model!r:.80}")
    try:
        usage = Usage(
            requests=requests,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cached_tokens=cached_tokens,
            reasoning_tokens=reasoning_tokens,
            unpriced=0 if cost_nano is not None else requests,
            reported=0 if cost_nano is None else requests,
            cost_nano=cost_nano or 0,
        )
    except ValueError as error:
        raise UsageError(f"gm.report_usage: {error}") from None
    context = find_context()
    if context is not None:
        lane, priced = Models.here().price(model, usage)
        _on_loop(context, partial(context.report, priced, lane))


def _on_loop(context: AttemptContext, report: Callable[[], None]) -> None:
    try:
        is_there = asyncio.get_running_loop() is context.loop
    except RuntimeError:
        is_there = False
    if is_there:
        report()
    else:
        asyncio.run_coroutine_threadsafe(_call(report), context.loop).result()


async def _call(report: Callable[[], None]) -> None:
    report()
