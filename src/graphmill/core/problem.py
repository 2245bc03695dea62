"""One thing to tell about one place of a file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, or worth knowing, and where; line and column are 0 where there is no text to point into."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        """Give 'file:line:column: message', as editors and terminals make links of it."""
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return f"{place}: {self.message}"
