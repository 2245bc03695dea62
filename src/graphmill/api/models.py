"""Check models: what a provider lists, and a test call."""

from __future__ import annotations

import time
from typing import NamedTuple

from graphmill.api.complete import StandaloneContext
from graphmill.core.errors import AttemptError, message_of
from graphmill.core.model_call import Message
from graphmill.engine.bridge import blocking
from graphmill.graph.models.completion import call_model, translate_error
from graphmill.graph.models.models import Models
from graphmill.graph.models.request import request_of
from graphmill.graph.models.target import ModelTarget

_TIMEOUT_S = 30.0
_PROMPT = "Answer with the one word: ready"
_MOST_TOKENS = 512


class ProviderCheck(NamedTuple):
    """The models that a provider lists, or what is wrong."""

    models: tuple[str, ...] = ()
    problem: str = ""


class ModelTest(NamedTuple):
    """The result of a test call."""

    seconds: float
    text: str = ""
    model: str = ""
    tokens: int = 0
    problem: str = ""


async def areach(name: str) -> ProviderCheck:
    """Ask a provider for its list of models."""
    target = Models.here().provider(name)
    async with StandaloneContext("models") as context:
        try:
            access = target.access()
            session = context.shared(("model", target.provider.name), target.provider.open)
            found = await target.provider.models(
                session=session, address=access.address, key=access.key, headers=access.headers, timeout_s=_TIMEOUT_S
            )
        except Exception as error:  # noqa: BLE001  any failure is the answer
            return ProviderCheck(problem=_said(target, error))
    return ProviderCheck(tuple(sorted(found)))


async def atest(name: str) -> ModelTest:
    """Send a model one short prompt."""
    target = Models.here().shown(name)
    request = request_of(
        target, (Message("user", _PROMPT),), {"max_tokens": target.defaults.get("max_tokens", _MOST_TOKENS)}
    )
    began = time.monotonic()
    async with StandaloneContext("test") as context:
        try:
            response = await call_model(target, request, context, timeout_s=_TIMEOUT_S)
            if (error := response.error()) is not None:
                raise error
        except (AttemptError, TimeoutError) as error:
            return ModelTest(time.monotonic() - began, problem=_said(target, error))
    return ModelTest(time.monotonic() - began, response.text.strip(), response.model, response.usage.tokens)


reach = blocking(areach)
test = blocking(atest)


def _said(target: ModelTarget, error: Exception) -> str:
    """Say what is wrong, without naming the model twice."""
    if isinstance(error, TimeoutError):
        return f"timed out after {_TIMEOUT_S:g} s"
    said = message_of(translate_error(target, error))
    return said.removeprefix(f"{target.lane}: ")
