"""One block of a workflow, such as a node or its batch, read by the table of its keys; every mistake is told, none raised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphmill.core.suggest import suggestion
from graphmill.graph.grammar import Block, Key
from graphmill.graph.kinds import shown
from graphmill.graph.places import At
from graphmill.graph.problems import Problems

_OTHER_NAMES = {"source": "from", "target": "to", "parameters": "params", "max_iterations": "max"}


class BlockReader:
    """Gives the values of a block's keys: those that are right as written, for the others their defaults. Null is left out."""

    def __init__(self, found: Mapping[Any, Any], at: At, *, block: Block, problems: Problems) -> None:
        self.at = at
        self.problems = problems
        self._block = block
        self._written = found
        for key in found:
            self._check_key(key)
        for key, rule in block.items():
            self._check_value(key, rule)

    def __getitem__(self, key: str) -> Any:
        """Give the value as written if it is right, else the default."""
        return self._written[key] if self.has(key) else self._block[key].default

    def has(self, key: str) -> bool:
        """Tell whether the key stands there with a value that is right."""
        return self._written.get(key) is not None and self._block[key].kind.fits(self._written[key])

    def stands(self, key: str) -> bool:
        """Tell whether the key stands there at all, null or not."""
        return key in self._written

    def at_key(self, key: str) -> At:
        """Tell where the value stands."""
        return (*self.at, key)

    def wrong(self, message: str, at: At | None = None, *, is_key: bool = False) -> None:
        """Tell a mistake of the block, or of a part of it."""
        self.problems.add(self.at if at is None else at, f"{self._text}: {message}", is_key=is_key)

    @property
    def _text(self) -> str:
        return self.problems.document.at_text(self.at)

    def _check_value(self, key: str, rule: Key) -> None:
        value = self._written.get(key)
        if value is None:
            if rule.is_required:
                self.wrong(f"{key!r} is missing", self.at_key(key))
        elif not rule.kind.fits(value):
            self.wrong(f"{key} is {rule.kind.wanted}, not {shown(value)}{_hint(value, rule.kind)}", self.at_key(key))

    def _check_key(self, key: Any) -> None:
        at = (*self.at, key)
        if not isinstance(key, str):
            self.wrong(f"a key is text, not {shown(key)}", at, is_key=True)
        elif key not in self._block:
            self.wrong(
                f"unknown key {shown(key)}{self._remedy(key)}; known are {', '.join(self._block)}", at, is_key=True
            )

    def _remedy(self, key: str) -> str:
        """Give the key that is meant, as far as that can be told."""
        if _OTHER_NAMES.get(key) in self._block:
            return f"; write {_OTHER_NAMES[key]!r}"
        near = suggestion(key[:100], self._block)
        return near or ("; what its type takes stands under 'params'" if "params" in self._block else "")


def _hint(value: Any, kind: Any) -> str:
    remedy = getattr(kind, "remedy", None)
    if remedy is not None:
        return str(remedy(value))
    return suggestion(value[:100], getattr(kind, "choices", ())) if isinstance(value, str) else ""
