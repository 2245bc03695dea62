"""What pricing and a budget add to a call: price its usage, bound it, reserve, and settle. Microseconds of CPU."""

from __future__ import annotations

import time

from benchmarks.figure import Figure, Reading, middle
from graphmill.core.model_call import Message, ModelRequest
from graphmill.core.usage import Usage
from graphmill.engine.scheduling.budget import Budget, Claim
from graphmill.graph.models.bounds import most_input_tokens, most_output_tokens
from graphmill.graph.models.prices import ModelPrices

_CALLS = 20_000
_REPETITIONS = 5
_ADDRESS = "https://api.openai.com/v1"
_TEXT = "Say in one sentence what this review is about. " + "The tea was warm and the room was quiet. " * 50


def _once() -> float:
    prices, budget = ModelPrices("openai", "gpt-5-mini"), Budget(10**18)
    request = ModelRequest(model="gpt-5-mini", messages=(Message("user", _TEXT),), max_tokens=500)
    used = Usage(requests=1, unpriced=1, input_tokens=480, output_tokens=120, cached_tokens=100)
    prices.rates(_ADDRESS)
    began = time.process_time()
    for _ in range(_CALLS):
        nano = prices.most_nano(_ADDRESS, most_input_tokens(request), most_output_tokens(request)) or 0
        budget.request(Claim(nano))
        priced = prices.price(used, _ADDRESS, served="gpt-5-mini-2025-08-07", tier="default", extra={})
        budget.settle(nano, priced.cost_nano)
    return (time.process_time() - began) / _CALLS * 1e6


def _measure() -> Reading:
    return middle([_once() for _ in range(_REPETITIONS)])


FIGURE = Figure(
    name="money-cpu",
    title="CPU of pricing a call and of reserving and settling it under a budget, 2 kB prompt",
    bound="at most",
    target=25,
    form="{:.1f} µs",
    measure=_measure,
)
