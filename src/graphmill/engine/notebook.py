"""What programs have noted: found again where it is known, else remembered and written down."""

from __future__ import annotations

import json
from typing import Any

from graphmill.engine.delivery import Delivery
from graphmill.engine.program import Note
from graphmill.engine.recorder import Recorder, StepOutcome, no_recall
from graphmill.engine.ticket import Ticket

_NEW = -1


class Notebook:
    """The notes of one run's jobs."""

    def __init__(self, delivery: Delivery, recorder: Recorder | None) -> None:
        self._delivery = delivery
        self._recorder = recorder

    def look_up(self, ticket: Ticket, note: Note) -> tuple[Any, int | None]:
        """Give what a note of a job says; if it is recorded, and not only asked for, also its place among what is."""
        ticket.recall = ticket.recall or no_recall()
        key = note.path, b"" if note.content is None or self._recorder is None else note.content()
        known = ticket.recall.outcomes.get(key)
        if known is not None:
            is_at_once = note.body is None or known.order == _NEW
            return json.loads(known.body or b"null"), None if is_at_once else known.order
        if note.body is not None:
            ticket.recall.outcomes[key] = StepOutcome(note.body, None, attempts=0, order=_NEW)
            if self._recorder is not None and not self._delivery.is_forgotten:
                self._recorder.remember(ticket.job, *key, note.body, is_passing=note.is_passing)
        return note.value, None
