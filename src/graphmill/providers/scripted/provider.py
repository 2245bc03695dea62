"""The provider ``scripted``, used by rehearsals: answers by rules or a function, and calls no model."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from graphmill.core.errors import AttemptError, Permanent, Transient, Unavailable, cut
from graphmill.core.json import to_json
from graphmill.core.model_call import FinishReason, ModelRequest, ModelResponse
from graphmill.core.usage import Usage
from graphmill.graph.models.request import CHARS_PER_TOKEN
from graphmill.graph.models.settings import project_file
from graphmill.graph.models.target import current_rehearsal, run_notes
from graphmill.graph.named import find_named
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
    read_script,
    scope_of,
)

ScriptFunction = Callable[[ModelRequest], Any]
_MINUTE_S = 60.0
_ANY = Rule()  # repeats the prompt, or answers with what the schema allows


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
    is_free = True

    def require(self, address: str, model: str = "") -> None:
        """Check a script or find a function before the first item; Unavailable says what is wrong."""
        del model
        _load(address)

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
        self._notes = None if current_rehearsal.get() is None else run_notes.get()

    async def close(self) -> None:
        """Note the rules that were of no use."""
        for server in self._servers.values():
            if isinstance(server, ScriptedServer) and self._notes is not None:
                self._notes += server.unused_rules()

    async def answer(self, request: ModelRequest, address: str, timeout_s: float | None) -> ModelResponse:
        """Answer as the script or the function at this address says."""
        server = self._servers.get(address)
        if server is None:
            server = self._servers[address] = _open(address)
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
        self._matched: set[int] = set()
        self._at_once = 0
        self._started: deque[float] = deque()

    async def answer(self, request: ModelRequest) -> ModelResponse:
        """Answer by the rule that applies, after its latency; or refuse at once what is too much."""
        self._throttle(request)
        rule = self._rule_for(request)
        self._at_once += 1
        try:
            await asyncio.sleep(self._latency_s(request, rule))
            if rule.fault == SILENCE:
                await asyncio.Event().wait()
        finally:
            self._at_once -= 1
        if rule.fault is not None and rule.fault not in ENDS:
            raise build_fault(rule.fault, rule.retry_after_s)
        text = _answer_text(rule, request)
        if rule.fault is None:
            return _build_response(text, request)
        return _build_response(text[: len(text) // 2], request, ENDS[rule.fault])

    def unused_rules(self) -> list[str]:
        """Say which rules matched no request."""
        rules = enumerate(self._script.rules)
        return [f"{rule.place}: this rule never matched" for number, rule in rules if number not in self._matched]

    def _rule_for(self, request: ModelRequest) -> Rule:
        """Return the first rule that matches and whose share this request is in."""
        scope = scope_of(request)
        for number, rule in enumerate(self._script.rules):
            if not rule.matches(request, scope):
                continue
            self._matched.add(number)
            if rule.share == 1.0 or request.chance(f"{self._script.seed} rule {number}") < rule.share:
                return rule
        return _ANY

    def _latency_s(self, request: ModelRequest, rule: Rule) -> float:
        latency = rule.latency
        if latency is None:
            latency = self._script.latency
        if not isinstance(latency, Latency):
            return latency
        return latency.seconds(request.chance(f"{self._script.seed} latency"), self._at_once)

    def _throttle(self, request: ModelRequest) -> None:
        throttle, now = self._script.throttle, asyncio.get_running_loop().time()
        while self._started and self._started[0] <= now - _MINUTE_S:
            self._started.popleft()
        if throttle.share and request.chance(f"{self._script.seed} throttle") < throttle.share:
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
    return -(-chars // CHARS_PER_TOKEN)


def _answer_text(rule: Rule, request: ModelRequest) -> str:
    if rule.answer is not None:
        return _text(rule.answer.resolve(scope_of(request)))
    if request.schema is not None:
        return to_json(sample_value(request.schema))
    return request.messages[-1].text


def _text(answer: Any) -> str:
    if isinstance(answer, str):
        return answer
    try:
        return to_json(answer)
    except (TypeError, ValueError) as error:
        raise Permanent(
            f"scripted: an answer must be text or JSON data, got {answer!r:.80}: {cut(str(error), 200)}"
        ) from None


async def _call(function: ScriptFunction, request: ModelRequest) -> ModelResponse:
    given = function(request)
    if inspect.isawaitable(given):
        given = await given
    if isinstance(given, ModelResponse):
        return given
    return _build_response(_text(given), request)


def _open(address: str) -> ScriptedServer | ScriptFunction:
    found = _load(address)
    return ScriptedServer(found) if isinstance(found, Script) else found


def _load(address: str) -> Script | ScriptFunction:
    """Read the script, or import the function, at an address; Unavailable says what is wrong."""
    if not address:
        rehearsal = current_rehearsal.get()
        return Script() if rehearsal is None or rehearsal.function is None else rehearsal.function
    module, colon, _ = address.partition(":")
    if not colon or "/" in module or address.endswith((".yaml", ".yml", ".json")):
        return read_script(address)
    settings = project_file()
    try:
        found = find_named(address, None if settings is None else settings.parent, what="a script")
    except ValueError as error:
        raise Unavailable(f"scripted: cannot load the function {address}: {error}") from None
    if not callable(found):
        raise Unavailable(f"scripted: {address} is not a function, but {found!r:.80}")
    return found  # type: ignore[no-any-return]
