"""What a run has used of each model, failed attempts and all: in memory, or, where it is recorded, what its journal holds."""

from __future__ import annotations

from collections.abc import Mapping

from graphmill.core.job import Job
from graphmill.core.usage import Usage, with_more
from graphmill.engine.recorder import Recorder


class Spending:
    """That of one run; of a recorded one it holds what earlier processes have used too, and nothing that is not durable."""

    def __init__(self, recorder: Recorder | None) -> None:
        self._recorder = recorder
        self._usage: Mapping[str, Usage] = {}

    def add(self, job: Job, model: str, usage: Usage) -> None:
        """Count what a call of a job has used."""
        if self._recorder is None:
            self._usage = with_more(self._usage, {model: usage})
        else:
            self._recorder.spend(job, model, usage)

    @property
    def usage(self) -> Mapping[str, Usage]:
        """All of it, by model."""
        return self._usage if self._recorder is None else self._recorder.usage
