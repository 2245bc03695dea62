"""Frozen values that print as the literal that makes them, so that a scenario can be pasted into a test."""

from dataclasses import MISSING, fields


class Plain:
    """A dataclass whose literal names only what differs from the defaults."""

    __slots__ = ()

    def __repr__(self):
        said = ", ".join(
            f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if not _is_default(self, field)
        )
        return f"{type(self).__name__}({said})"


def _is_default(plain, field):
    return field.default is not MISSING and getattr(plain, field.name) == field.default
