"""The provider `scripted`: answers by rules or a function, and asks nobody; to rehearse a run, and to test one."""

from __future__ import annotations

from collections.abc import Mapping

from graphmill.core.errors import AttemptError
from graphmill.core.model_call import ModelRequest, ModelResponse
from graphmill.providers.scripted.stage import Stage, script_at
from graphmill.providers.verdict import Said, error_of, kind_of_status


class Scripted:
    """Its address is a script's file or ``module:function``; without one each prompt is its own answer.

    Its answers hang on more than what is asked, and cost nothing: none is used again.
    """

    name = "scripted"
    default_address = ""
    address_variable = ""
    key_variable = ""
    supports_schema = True
    is_cached = False

    def require(self, address: str) -> None:
        """Refuse, before the first item, a script that can not be played: Unavailable says why."""
        script_at(address)

    def open(self) -> Stage:
        """Make the stage that calls share."""
        return Stage()

    async def complete(
        self,
        request: ModelRequest,
        *,
        session: Stage,
        address: str,
        key: str | None,
        headers: Mapping[str, str],
        timeout_s: float | None,
    ) -> ModelResponse:
        """Answer by the script."""
        del key, headers
        return await session.answer(request, address, timeout_s)

    async def models(
        self, *, session: Stage, address: str, key: str | None, headers: Mapping[str, str], timeout_s: float | None
    ) -> list[str]:
        """Name a model; any other name does as well."""
        del session, address, key, headers, timeout_s
        return ["echo"]

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> AttemptError:
        """Say what a status means where no provider knows better."""
        del headers, body
        return error_of(self.name, status, Said(), kind=kind_of_status(status))
