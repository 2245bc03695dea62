"""What is run in place of an item's own function when that must not be run: each fails at once and says why."""

from __future__ import annotations

from typing import Any, NoReturn

from graphmill.core.errors import Ambiguous
from graphmill.engine.failures import Reported, crashed


async def ambiguous(_item: Any) -> NoReturn:
    """Fail for an item that was under way when the process died, and must not happen twice."""
    raise Ambiguous("it was under way when the process died, and may have happened; look, then retry it if it has not")


async def poisoned(_item: Any) -> NoReturn:
    """Fail for an item that has killed the whole process again and again while nothing else ran."""
    raise Reported(crashed("the whole process died three times while this ran alone"))
