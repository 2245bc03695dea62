"""Callbacks of the loop that nobody awaits, and what becomes of a fault in one."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Protocol, TypeVar, TypeVarTuple

Args = TypeVarTuple("Args")


class Crashes(Protocol):
    """Something that can end with an error."""

    def crash(self, error: BaseException) -> None:
        """End with this."""


A = TypeVar("A", bound=Crashes)


def acting(method: Callable[[A, *Args], None]) -> Callable[[A, *Args], None]:
    """Let a fault of ours, in a callback that nobody awaits, end the run with an error instead of hanging it."""

    @wraps(method)
    def act(self: A, /, *args: *Args) -> None:
        try:
            method(self, *args)
        except KeyboardInterrupt as error:  # struck half-way, the run can not go on
            self.crash(error)
            raise
        except BaseException as error:  # noqa: BLE001
            self.crash(error)

    return act
