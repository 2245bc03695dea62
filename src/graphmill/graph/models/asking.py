"""One call of a model: with what it is let in, over what the run shares, and without a secret in what it raises."""

from __future__ import annotations

import asyncio
import os
from functools import partial

from graphmill.core.errors import AttemptError, Permanent, Transient, message_of
from graphmill.core.model_call import ModelRequest, ModelResponse
from graphmill.core.result import Kind
from graphmill.engine.failures import kind_of
from graphmill.graph.models.genai import observed
from graphmill.graph.models.target import Target
from graphmill.graph.node_type import Context
from graphmill.graph.secrets import Redactor

_KEY_REFUSED = "check the key"  # how providers end what they say of one


async def ask(
    target: Target, request: ModelRequest, context: Context, *, timeout_s: float | None = None
) -> ModelResponse:
    """Call a model once. Usage is reported even when the call fails; errors hold no secrets."""
    door = context.shared(("door", target.lane), partial(_Door, target, context))
    access = door.access
    try:
        response = await door.complete(
            request,
            session=door.session,
            address=access.address,
            key=access.key,
            headers=access.headers,
            timeout_s=timeout_s,
        )
    except asyncio.CancelledError as error:
        if (usage := getattr(error, "usage", None)) is not None:  # it was sent, and is no longer waited for
            context.report_usage(usage, target.lane, is_answer=False)
        raise
    except TimeoutError:
        raise TimeoutError(f"{target.lane}: no answer in time") from None
    except Exception as error:  # noqa: BLE001  a provider may be third-party code: its errors are translated
        if isinstance(error, AttemptError) and error.usage is not None:
            context.report_usage(error.usage, target.lane, is_answer=False)
        if isinstance(error, AttemptError) and error.limits is not None:
            context.report_limits(target, error.limits)
        raise translate_error(target, error) from None
    context.report_usage(response.usage, target.lane)
    if response.limits is not None:
        context.report_limits(target, response.limits)
    return response


class _Door:
    """How the calls of one model are let in, and over what, for as long as a run lasts: the environment is not read for each of them."""

    def __init__(self, target: Target, context: Context) -> None:
        self.access = target.access()
        self.session = context.shared(("model", target.provider.name), target.provider.open)
        self.complete = observed(target)

    async def close(self) -> None:
        """Forget the key."""
        del self.access


def translate_error(target: Target, error: Exception) -> AttemptError:
    """Return an error without secrets that names the model and, for a refused key, the variable of the key."""
    said = _named(target, Redactor(target.secrets).text(message_of(error)))
    if isinstance(error, AttemptError):
        error.args, error.__notes__ = (said,), []
        return error
    # A provider's own fault: where it was raised helps whoever mends it.
    kind = Permanent if kind_of(error) is Kind.PERMANENT else Transient
    return kind(f"{type(error).__name__}: {said}").with_traceback(error.__traceback__)


def _named(target: Target, message: str) -> str:
    """Name the model, in the place of the protocol: a server of another name speaks that too."""
    said = message if target.lane in message else f"{target.lane}: {message}"
    protocol = target.provider.name
    if message.startswith((f"{protocol} answered ", f"{protocol}: ")):
        said = f"{target.lane}{message.removeprefix(protocol)}"
    return f"{said}{_key_told(target)}" if said.endswith(_KEY_REFUSED) else said


def _key_told(target: Target) -> str:
    if not target.key_variable:
        return f": none was sent; name its variable, providers: {{{target.name}: {{key: {{env: NAME}}}}}} in graphmill.yaml"
    return (
        f" in {target.key_variable}"
        if os.environ.get(target.key_variable)
        else f": none was sent; set {target.key_variable}"
    )
