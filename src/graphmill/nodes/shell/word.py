"""A word of a shell command as far as it is known before it runs."""

from __future__ import annotations

from dataclasses import dataclass

VALUE = "\0"  # stands for a template: no command as written can hold it
EXPANDED = "\1"  # stands for what the shell will put there


class RefusedError(ValueError):
    """A template stands where the shell, or what it starts, would parse its value."""


@dataclass(frozen=True, slots=True)
class Word:
    """What a word says without its quotes.

    One that ``is_plain`` has none; one that ``is_steady`` will be one word, and neither vanish nor become several. ``name`` is the variable
    that it would assign to, were it to stand before a command. ``written`` is how it stands in the script.
    """

    text: str
    is_plain: bool = True
    is_steady: bool = True
    name: str | None = None
    written: str = ""

    @property
    def has_value(self) -> bool:
        """Whether a template stands in it."""
        return VALUE in self.text

    @property
    def is_literal(self) -> bool:
        """Whether it is known in full."""
        return VALUE not in self.text and EXPANDED not in self.text

    @property
    def is_option(self) -> bool:
        """Whether it begins as options do."""
        return self.text[:1] in ("-", "+") and len(self.text) > 1
