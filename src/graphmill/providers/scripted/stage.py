"""The stage: what the calls of one run share of a server that does not exist; how many are under way, and when each began."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections import deque
from collections.abc import Callable
from importlib import import_module
from typing import Any

from graphmill.core.errors import Transient, Unavailable, described
from graphmill.core.json import to_json
from graphmill.core.model_call import FinishReason, ModelRequest, ModelResponse
from graphmill.core.usage import Usage
from graphmill.providers.scripted.faults import ENDS, SILENCE, fault_error
from graphmill.providers.scripted.sample import sample_of
from graphmill.providers.scripted.script import Latency, Rule, Script, chance, read_script

Function = Callable[[ModelRequest], Any]
_MINUTE_S = 60.0
_CHARS_PER_TOKEN = 4
_PLACE = re.compile(r"\$\{(item|path|round|sample|attempt|prompt)\}")


class Stage:
    """Plays scripts and functions; each address is read once, and is a server of its own."""

    def __init__(self) -> None:
        self._plays: dict[str, Play | Function] = {}

    async def close(self) -> None:
        """Let go of nothing."""

    async def answer(self, request: ModelRequest, address: str, timeout_s: float | None) -> ModelResponse:
        """Answer as the script or the function at this address says."""
        play = self._plays.get(address)
        if play is None:
            play = self._plays[address] = _play(address)
        try:
            async with asyncio.timeout(timeout_s):
                return await (play.answer(request) if isinstance(play, Play) else _called(request, play))
        except TimeoutError:
            error = Transient(
                f"scripted: no whole answer within {timeout_s:g} s" if timeout_s else "scripted: no answer in time"
            )
            error.usage = Usage(requests=1, cost_usd=0.0)
            raise error from None


class Play:
    """One script while it is played."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._at_once = 0
        self._begun: deque[float] = deque()

    async def answer(self, request: ModelRequest) -> ModelResponse:
        """Answer by the rule that counts, after its time; or refuse at once what is too much."""
        self._throttle(request)
        rule = self._script.rule_for(request)
        self._at_once += 1
        try:
            await asyncio.sleep(self._seconds(request, rule))
            if rule.fault == SILENCE:
                await asyncio.Event().wait()
        finally:
            self._at_once -= 1
        if rule.fault is not None and rule.fault not in ENDS:
            raise fault_error(rule.fault, rule.retry_after_s)
        text = _text(rule.answer, request)
        if rule.fault is None:
            return response_of(text, request)
        return response_of(text[: len(text) // 2], request, ENDS[rule.fault])

    def _seconds(self, request: ModelRequest, rule: Rule) -> float:
        latency = self._script.latency if rule.latency is None else rule.latency
        if not isinstance(latency, Latency):
            return latency
        return latency.seconds(chance(request, f"{self._script.seed} latency"), self._at_once)

    def _throttle(self, request: ModelRequest) -> None:
        throttle, now = self._script.throttle, asyncio.get_running_loop().time()
        while self._begun and self._begun[0] <= now - _MINUTE_S:
            self._begun.popleft()
        if throttle.share and chance(request, f"{self._script.seed} throttle") < throttle.share:
            raise fault_error("throttled", throttle.retry_after_s)
        if throttle.at_once is not None and self._at_once >= throttle.at_once:
            raise fault_error("throttled", throttle.retry_after_s)
        if throttle.per_minute is not None:
            if len(self._begun) >= throttle.per_minute:
                raise fault_error("throttled", self._begun[0] + _MINUTE_S - now)
            self._begun.append(now)


def response_of(text: str, request: ModelRequest, reason: FinishReason = FinishReason.STOP) -> ModelResponse:
    """Make an answer; its tokens are counted as four characters each, and cost nothing."""
    read = sum(len(message.text) for message in request.messages)
    usage = Usage(requests=1, input_tokens=_tokens(read), output_tokens=_tokens(len(text)), cost_usd=0.0)
    return ModelResponse(text=text, usage=usage, finish_reason=reason, model=request.model)


def _tokens(chars: int) -> int:
    return -(-chars // _CHARS_PER_TOKEN)


def _text(answer: Any, request: ModelRequest) -> str:
    if answer is None:
        return request.messages[-1].text if request.schema is None else to_json(sample_of(request.schema))
    origin, prompt = request.origin, request.messages[-1].text
    known = {name: str(getattr(origin, name)) for name in ("item", "path", "round", "sample", "attempt")} | {
        "prompt": prompt
    }
    return _PLACE.sub(lambda found: known[found[1]], answer) if isinstance(answer, str) else to_json(answer)


async def _called(request: ModelRequest, function: Function) -> ModelResponse:
    given = function(request)
    if inspect.isawaitable(given):
        given = await given
    return (
        given
        if isinstance(given, ModelResponse)
        else response_of(given if isinstance(given, str) else to_json(given), request)
    )


def script_at(address: str) -> Script | None:
    """Read the script at an address; None where a function is meant. Unavailable says what is wrong with it."""
    if not address:
        return Script()
    module, colon, _ = address.partition(":")
    return read_script(address) if not colon or "/" in module or address.endswith((".yaml", ".yml", ".json")) else None


def _play(address: str) -> Play | Function:
    if (script := script_at(address)) is not None:
        return Play(script)
    module, _, name = address.partition(":")
    try:
        function: Function = getattr(import_module(module), name)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a module is a stranger's code
        raise Unavailable(f"scripted: the function {address} can not be loaded: {described(error)}") from None
    return function
