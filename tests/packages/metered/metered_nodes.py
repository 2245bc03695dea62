"""Node types of a stranger's that tell what they use, with params that our own types have other plans for."""

import asyncio
from collections import Counter
from typing import Any, ClassVar

import msgspec

import graphmill as gm
from graphmill.core.usage import Usage, to_nano
from graphmill.graph.node_type import NodeType

calls = []
_tries = Counter()


class MeteredParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    n: Any = None
    cost: float | None = 0.5
    fails: int = 0
    seconds: float = 0
    key: str = ""


class Metered(NodeType[MeteredParams]):
    name = "metered"
    summary = "Uses two tokens of input and one of output, and what it is told to cost."
    Params = MeteredParams
    outputs: ClassVar = {"n": "what was given", "attempt": "which one it was"}

    async def run(self, params, context):
        calls.append(params.n)
        _tries[context.idempotency_key] += 1
        context.report_usage(Usage(requests=1, input_tokens=2))
        await asyncio.sleep(params.seconds)
        cost = Usage(unpriced=1) if params.cost is None else Usage(cost_nano=to_nano(params.cost))
        context.report_usage(Usage(output_tokens=1) + cost)
        if _tries[context.idempotency_key] <= params.fails:
            raise gm.Transient(f"{params.n} fails")
        return {"n": params.n, "attempt": context.attempt}


class CompilerParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    code: str
    isolation: str = "none"


class Compiler(NodeType[CompilerParams]):
    name = "compiler"
    summary = "Has params that are called as those of the python node."
    Params = CompilerParams
    outputs: ClassVar = {"size": "how long the code is", "root": "the folder of the workflow"}

    async def run(self, params, context):
        return {"size": len(params.code), "root": str(context.root)}


class CuriousParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    question: Any


class Curious(NodeType[CuriousParams]):
    name = "curious"
    summary = "Uses two tokens, and then asks."
    Params = CuriousParams
    outputs: ClassVar = {"answer": "what was answered", "attempt": "which one it was"}

    async def run(self, params, context):
        calls.append(params.question)
        context.report_usage(Usage(requests=1, input_tokens=2, cost_nano=500_000_000))
        return {"answer": await context.ask(params.question), "attempt": context.attempt}
