"""What others ask of a live run through its journal, and how it is done."""

from __future__ import annotations

from typing import Protocol

from graphmill.engine.subscriber import log


class Controls(Protocol):
    """What a run can be asked for."""

    def pause(self) -> bool:
        """Start nothing new."""

    def unpause(self) -> bool:
        """Start jobs again."""

    def cancel(self) -> bool:
        """End it."""

    def cancel_job(self, job_id: str) -> bool:
        """End one job."""

    def set_limit(self, concurrency: int) -> bool:
        """Change how many attempts may run at once."""


def obey(controls: Controls, word: str, argument: str) -> None:
    """Do what is asked; what can not be done is logged."""
    match word:
        case "pause":
            controls.pause()
        case "unpause":
            controls.unpause()
        case "cancel":
            controls.cancel()
        case "cancel_item":
            if not controls.cancel_job(argument):
                log.warning("item %.80s was to be cancelled, and is not under way", argument)
        case "limit":
            _limit(controls, argument)


def _limit(controls: Controls, argument: str) -> None:
    try:
        controls.set_limit(int(argument))
    except ValueError as error:  # a UsageError too
        log.warning("a limit of %.20s was asked for: %s", argument, error)
