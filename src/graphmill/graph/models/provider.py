"""A provider: what speaks one model protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from graphmill.core.errors import AttemptError
from graphmill.core.model_call import ModelRequest, ModelResponse


class Provider(Protocol):
    """Speaks one model protocol; made once, it holds no state and never tries a second time: each call is one request.

    ``address`` is where it is served; ``key_variable`` names the variable of the environment that holds the key, ""
    where none is wanted, ``address_variable`` one that may hold another address. ``supports_schema`` says whether
    answers are held to a JSON Schema. Optional: ``is_free = True`` if calls cost nothing, ``is_cached = False`` if
    answers must not be cached, ``require(address, model)``, which raises Unavailable where it can tell before the first
    item that it will not be reached, and ``slots``, how many calls of a model may run at once where the settings give
    no ``limits``.
    """

    name: str
    default_address: str
    address_variable: str
    key_variable: str
    supports_schema: bool

    def open(self) -> Any:
        """Make the session of a run's calls, on its loop: ``context.shared(("model", name), provider.open)``."""

    async def complete(
        self,
        request: ModelRequest,
        *,
        session: Any,
        address: str,
        key: str | None,
        headers: Mapping[str, str],
        timeout_s: float | None,
    ) -> ModelResponse:
        """Ask once and give the answer, also one that is no success: ask ``response.error()``.

        Throttled, Unavailable, Transient and Permanent say that there is none; they have ``usage`` and
        ``limits``, where they are known, and repeats neither key, headers nor prompt.
        """

    async def models(
        self, *, session: Any, address: str, key: str | None, headers: Mapping[str, str], timeout_s: float | None
    ) -> list[str]:
        """List the models that the key may use, by the provider's own names; raises what ``complete`` does."""

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> AttemptError:
        """Say what an answer that is an error means; ``headers`` by names in lower case."""
