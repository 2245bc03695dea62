"""The provider ``scripted``: answers by rules or by a function and calls nobody, to rehearse or test a run."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections import deque
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from graphmill.core.errors import AttemptError, Transient, Unavailable, describe_error
from graphmill.core.json import to_json
from graphmill.core.model_call import FinishReason, ModelRequest, ModelResponse
from graphmill.core.usage import Usage
from graphmill.http.failures import kind_of_status
from graphmill.providers.http_provider import ErrorDetails, build_error
from graphmill.providers.scripted.sample import sample_value
from graphmill.providers.scripted.script import (
    ENDS,
    SILENCE,
    Latency,
    Rule,
    Script,
    build_fault,
    draw_chance,
    read_script,
)

ScriptFunction = Callable[[ModelRequest], Any]
_MINUTE_S = 60.0
_CHARS_PER_TOKEN = 4
_PLACEHOLDER = re.compile(r"\$\{(item|path|round|sample|attempt|prompt)\}")


class Scripted:
    """Its address is a script's file or ``module:function``; without one each prompt is its own answer.

    Its answers depend on more than the request, and cost nothing: they are never cached.
    """

    name = "scripted"
    default_address = ""
    address_variable = ""
    key_variable = ""
    supports_schema = True
    is_cached = False

    def require(self, address: str) -> None:
        """Check a script before the first item; Unavailable says why it cannot be played."""
        _load_script(address)

    def open(self) -> ScriptedServers:
        """Make what the calls of a run share."""
        return ScriptedServers()

    async def complete(
        self,
        request: ModelRequest,
        *,
        session: ScriptedServers,
        address: str,
        key: str | None,
        headers: Mapping[str, str],
        timeout_s: float | None,
    ) -> ModelResponse:
        """Answer by the script."""
        del key, headers
        return await session.answer(request, address, timeout_s)

    async def models(
        self,
        *,
        session: ScriptedServers,
        address: str,
        key: str | None,
        headers: Mapping[str, str],
        timeout_s: float | None,
    ) -> list[str]:
        """Name one model; any other name works as well."""
        del session, address, key, headers, timeout_s
        return ["echo"]

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> AttemptError:
        """Say what a status means where no provider knows better."""
        del headers, body
        return build_error(self.name, status, ErrorDetails(), kind=kind_of_status(status))


class ScriptedServers:
    """What the calls of a run share: one pretended server for each address, whose script is read once."""

    def __init__(self) -> None:
        self._servers: dict[str, ScriptedServer | ScriptFunction] = {}

    async def close(self) -> None:
        """Close nothing."""

    async def answer(self, request: ModelRequest, address: str, timeout_s: float | None) -> ModelResponse:
        """Answer as the script or the function at this address says."""
        server = self._servers.get(address)
        if server is None:
            server = self._servers[address] = _open_server(address)
        try:
            async with asyncio.timeout(timeout_s):
                if isinstance(server, ScriptedServer):
                    return await server.answer(request)
                return await _call(server, request)
        except TimeoutError:
            error = Transient(f"scripted: no complete response within {timeout_s:g} s")
            error.usage = Usage(requests=1)
            raise error from None


class ScriptedServer:
    """A pretended server that plays one script: how many requests it is handling, and when each one came."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._at_once = 0
        self._started: deque[float] = deque()

    async def answer(self, request: ModelRequest) -> ModelResponse:
        """Answer by the rule that applies, after its latency; or refuse at once what is too much."""
        self._throttle(request)
        rule = self._script.rule_for(request)
        self._at_once += 1
        try:
            await asyncio.sleep(self._latency_s(request, rule))
            if rule.fault == SILENCE:
                await asyncio.Event().wait()
        finally:
            self._at_once -= 1
        if rule.fault is not None and rule.fault not in ENDS:
            raise build_fault(rule.fault, rule.retry_after_s)
        text = _answer_text(rule.answer, request)
        if rule.fault is None:
            return _build_response(text, request)
        return _build_response(text[: len(text) // 2], request, ENDS[rule.fault])

    def _latency_s(self, request: ModelRequest, rule: Rule) -> float:
        latency = rule.latency
        if latency is None:
            latency = self._script.latency
        if not isinstance(latency, Latency):
            return latency
        return latency.seconds(draw_chance(request, f"{self._script.seed} latency"), self._at_once)

    def _throttle(self, request: ModelRequest) -> None:
        throttle, now = self._script.throttle, asyncio.get_running_loop().time()
        while self._started and self._started[0] <= now - _MINUTE_S:
            self._started.popleft()
        if throttle.share and draw_chance(request, f"{self._script.seed} throttle") < throttle.share:
            raise build_fault("throttled", throttle.retry_after_s)
        if throttle.at_once is not None and self._at_once >= throttle.at_once:
            raise build_fault("throttled", throttle.retry_after_s)
        if throttle.per_minute is not None:
            if len(self._started) >= throttle.per_minute:
                raise build_fault("throttled", self._started[0] + _MINUTE_S - now)
            self._started.append(now)


def _build_response(text: str, request: ModelRequest, reason: FinishReason = FinishReason.STOP) -> ModelResponse:
    """Build an answer whose tokens are four characters each, and cost nothing."""
    read = sum(len(message.text) for message in request.messages)
    usage = Usage(requests=1, input_tokens=_count_tokens(read), output_tokens=_count_tokens(len(text)))
    return ModelResponse(text=text, usage=usage, finish_reason=reason, model=request.model)


def _count_tokens(chars: int) -> int:
    return -(-chars // _CHARS_PER_TOKEN)


def _answer_text(answer: Any, request: ModelRequest) -> str:
    prompt = request.messages[-1].text
    if answer is None and request.schema is not None:
        return to_json(sample_value(request.schema))
    if answer is None:
        return prompt
    if not isinstance(answer, str):
        return to_json(answer)
    known = {name: str(getattr(request.origin, name)) for name in ("item", "path", "round", "sample", "attempt")}
    known["prompt"] = prompt
    return _PLACEHOLDER.sub(lambda found: known[found[1]], answer)


async def _call(function: ScriptFunction, request: ModelRequest) -> ModelResponse:
    given = function(request)
    if inspect.isawaitable(given):
        given = await given
    if isinstance(given, ModelResponse):
        return given
    if not isinstance(given, str):
        given = to_json(given)
    return _build_response(given, request)


def _load_script(address: str) -> Script | None:
    """Read the script at an address; None if the address is a function. Unavailable says what is wrong."""
    if not address:
        return Script()
    module, colon, _ = address.partition(":")
    if not colon or "/" in module or address.endswith((".yaml", ".yml", ".json")):
        return read_script(address)
    return None


def _open_server(address: str) -> ScriptedServer | ScriptFunction:
    if (script := _load_script(address)) is not None:
        return ScriptedServer(script)
    module, _, name = address.partition(":")
    try:
        function: ScriptFunction = getattr(import_module(module), name)
    except (Exception, SystemExit) as error:  # noqa: BLE001  a module is a user's code
        raise Unavailable(f"scripted: cannot load the function {address}: {describe_error(error)}") from None
    return function
