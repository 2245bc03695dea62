"""The keys of the workflow language, and the kinds of values they take."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol, get_args

from graphmill.core.job import Effect
from graphmill.engine.policy import Backoff

_LOOKUP = re.compile(r"\$\{.+\}\s*", re.DOTALL)
_SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")
MOST_SECONDS = 1e9  # thirty years


class ValueKind(Protocol):
    """What values a key takes."""

    @property
    def wanted(self) -> str:
        """Say it in words, as in 'timeout is …'."""

    @property
    def schema(self) -> dict[str, Any]:
        """Say it as JSON Schema."""

    def fits(self, value: Any) -> bool:
        """Tell whether a value is one."""


@dataclass(frozen=True, slots=True)
class TextKind:
    """Text."""

    wanted: str = "text"

    @property
    def schema(self) -> dict[str, Any]:
        """Give the type."""
        return {"type": "string"}

    def fits(self, value: Any) -> bool:
        """Tell whether it is text."""
        return isinstance(value, str)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameKind:
    """A name of letters of any script and digits, as templates read it: with hyphens, or without for what only names."""

    has_hyphens: bool = True

    @property
    def wanted(self) -> str:
        """Say how it is made up."""
        marks = "letters, digits, _ and -" if self.has_hyphens else "letters, digits and _"
        return f"a name: {marks}, beginning with a letter or _"

    @property
    def schema(self) -> dict[str, Any]:
        """Give a pattern of what ASCII it must not hold: no two readers agree on the letters beyond."""
        hyphen = r"\x00-,./" if self.has_hyphens else r"\x00-/"
        return {"type": "string", "pattern": rf"^[^\x00-@\[-\^`{{-\x7f][^{hyphen}:-@\[-\^`{{-\x7f]*$"}

    def fits(self, value: Any) -> bool:
        """Tell whether it is one."""
        if not isinstance(value, str) or value.startswith("-"):
            return False
        return (value.replace("-", "_") if self.has_hyphens else value).isidentifier()


@dataclass(frozen=True, slots=True)
class ChoiceKind:
    """One of some words."""

    choices: tuple[str, ...]

    @property
    def wanted(self) -> str:
        """List them."""
        return f"one of {', '.join(self.choices)}"

    @property
    def schema(self) -> dict[str, Any]:
        """Give an enum."""
        return {"enum": list(self.choices)}

    def fits(self, value: Any) -> bool:
        """Tell whether it is one of them."""
        return isinstance(value, str) and value in self.choices


@dataclass(frozen=True, slots=True)
class FlagKind:
    """True or false; no number, no text."""

    wanted: str = "true or false"

    @property
    def schema(self) -> dict[str, Any]:
        """Give the type."""
        return {"type": "boolean"}

    def fits(self, value: Any) -> bool:
        """Tell whether it is one of the two."""
        return isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class CountKind:
    """A whole number in a range; a bool is none."""

    least: int
    most: int | None = None

    @property
    def wanted(self) -> str:
        """Give the range."""
        return f"a whole number {_range(self.least, self.most)}"

    @property
    def schema(self) -> dict[str, Any]:
        """Give the range."""
        return {"type": "integer", "minimum": self.least, **({} if self.most is None else {"maximum": self.most})}

    def fits(self, value: Any) -> bool:
        """Tell whether it is in the range."""
        return type(value) is int and value >= self.least and (self.most is None or value <= self.most)


@dataclass(frozen=True, slots=True)
class NumberKind:
    """A number in a range, or above its lower end; a bool is none, nor are NaN and the infinities."""

    what: str = "a number"
    least: float = 0
    most: float = MOST_SECONDS
    is_above: bool = False

    @property
    def wanted(self) -> str:
        """Give the range."""
        if self.is_above:
            return f"{self.what} above {self.least:g}" + (
                "" if self.most == MOST_SECONDS else f" and up to {self.most:g}"
            )
        return f"{self.what} {_range(self.least, None if self.most == MOST_SECONDS else self.most)}"

    @property
    def schema(self) -> dict[str, Any]:
        """Give the range."""
        return {"type": "number", "exclusiveMinimum" if self.is_above else "minimum": self.least, "maximum": self.most}

    def fits(self, value: Any) -> bool:
        """Tell whether it is in the range."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and self.least <= value <= self.most and not (self.is_above and value == self.least)


@dataclass(frozen=True, slots=True)
class ToleranceKind:
    """How many failures are borne: a count, or a share as a number or in percent."""

    wanted: str = 'a whole number of at least 0, or a share above 0 and up to 1, such as 0.1 or "10%"'

    @property
    def schema(self) -> dict[str, Any]:
        """Give the three forms."""
        share = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
        return {
            "anyOf": [{"type": "integer", "minimum": 0}, share, {"type": "string", "pattern": f"^{_SHARE.pattern}$"}]
        }

    def fits(self, value: Any) -> bool:
        """Tell whether it is one of them."""
        return tolerance(value) is not None


def tolerance(value: Any) -> int | float | None:
    """Give a count as int, a share as float; None if it is neither."""
    if type(value) is int:
        return value if value >= 0 else None
    percent = _SHARE.fullmatch(value) if isinstance(value, str) and len(value) < 40 else None
    share = float(percent[1]) / 100 if percent else value
    return share if type(share) is float and 0 < share <= 1 and math.isfinite(share) else None


@dataclass(frozen=True, slots=True)
class PlaceholderKind:
    """Exactly one ``${…}``; whether what stands in it is right is for the compiler to tell."""

    wanted: str = "one ${…} reference"

    @property
    def schema(self) -> dict[str, Any]:
        """Give the pattern."""
        return {"type": "string", "pattern": r"^\$\{.+\}\s*$"}

    def fits(self, value: Any) -> bool:
        """Tell whether it begins and ends like one."""
        return isinstance(value, str) and _LOOKUP.fullmatch(value) is not None


@dataclass(frozen=True, slots=True)
class ListKind:
    """A list; of at least one entry, if so said."""

    wanted: str
    is_filled: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """Give the type; what the entries are is said beside it."""
        return {"type": "array", **({"minItems": 1} if self.is_filled else {})}

    def fits(self, value: Any) -> bool:
        """Tell whether it is one."""
        return isinstance(value, list | tuple) and (bool(value) or not self.is_filled)


@dataclass(frozen=True, slots=True)
class MappingKind:
    """A mapping."""

    wanted: str = "a mapping"

    @property
    def schema(self) -> dict[str, Any]:
        """Give the type; what the entries are is said beside it."""
        return {"type": "object"}

    def fits(self, value: Any) -> bool:
        """Tell whether it is one."""
        return isinstance(value, Mapping)


@dataclass(frozen=True, slots=True)
class EitherKind:
    """One of two kinds."""

    one: ValueKind
    other: ValueKind

    @property
    def wanted(self) -> str:
        """Name both."""
        return f"{self.one.wanted} or {self.other.wanted}"

    @property
    def schema(self) -> dict[str, Any]:
        """Give both."""
        return {"anyOf": [self.one.schema, self.other.schema]}

    def fits(self, value: Any) -> bool:
        """Tell whether it is one of either."""
        return self.one.fits(value) or self.other.fits(value)


@dataclass(frozen=True, slots=True)
class ItemsKind:
    """What a batch is over: one ``${…}``, or a list."""

    kind: EitherKind = EitherKind(PlaceholderKind(), ListKind("a list"))

    @property
    def wanted(self) -> str:
        """Name both."""
        return self.kind.wanted

    @property
    def schema(self) -> dict[str, Any]:
        """Give both."""
        return self.kind.schema

    def fits(self, value: Any) -> bool:
        """Tell whether it is one of them."""
        return self.kind.fits(value)

    @staticmethod
    def remedy(value: Any) -> str:
        """Say how the items of a file are given, where what is given looks like JSON Lines."""
        if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
            return ""
        return "; !file gives the data of a .json or .yaml file, and the text of any other: save the items as a list in one of these"


@dataclass(frozen=True, slots=True)
class AnyKind:
    """Any value."""

    wanted: str = "any value"

    @property
    def schema(self) -> dict[str, Any]:
        """Ask for nothing."""
        return {}

    def fits(self, value: Any) -> bool:
        """Take it."""
        del value
        return True


def shown(value: Any) -> str:
    """Show a value in a message: short ones as they are, long and nested ones by what they are."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:59] + "…")
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if isinstance(value, bool):
        return str(value).lower()
    return _number(value) if isinstance(value, int | float) else type(value).__name__


def _number(value: float) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return "a very large number" if value.bit_length() > 100 else str(value)


def _range(least: float, most: float | None) -> str:
    return f"of at least {least:g}" if most is None else f"from {least:g} to {most:g}"


@dataclass(frozen=True, slots=True)
class Key:
    """One key: what it takes, what it is for, and what stands in for it where it is left out."""

    kind: ValueKind
    about: str
    default: Any = None
    is_required: bool = False


Block = Mapping[str, Key]

_NAME = NameKind()
_IDENTIFIER = NameKind(has_hyphens=False)
_SECONDS = NumberKind("a number of seconds", is_above=True)
_WAIT = NumberKind("a number of seconds")
_TYPES = ("string", "number", "integer", "boolean", "array", "object", "any")

WORKFLOW: Final[Block] = MappingProxyType(
    {
        "name": Key(TextKind(), "What the workflow is called; else its file's name."),
        "description": Key(TextKind(), "What the workflow is for, in words; read by people only."),
        "inputs": Key(
            MappingKind("a mapping from names to {required: true} or {default: …}"),
            "The values that a job is given, by name.",
        ),
        "nodes": Key(
            ListKind("a list of at least one node", is_filled=True),
            "The nodes, in the order in which they run.",
            is_required=True,
        ),
        "edges": Key(
            ListKind("a list of {from: …, to: …}"), "What runs after what; without edges, nodes run in listed order."
        ),
        "start_node": Key(_NAME, "The node to begin with; else all that no edge leads to."),
        "outputs": Key(
            MappingKind("a mapping from names to values"), "What a job gives, by name; else what its last node gives."
        ),
    }
)
INPUT: Final[Block] = MappingProxyType(
    {
        "type": Key(ChoiceKind(_TYPES), "The type of the value."),
        "required": Key(FlagKind(), "Whether a job has to be given it.", default=False),
        "default": Key(AnyKind(), "What it is where a job is not given it; without one, null."),
        "description": Key(TextKind(), "What it is, in words.", default=""),
    }
)
EDGE: Final[Block] = MappingProxyType(
    {
        "from": Key(_NAME, "The node that the edge leaves.", is_required=True),
        "to": Key(_NAME, "The node that it leads to.", is_required=True),
        "action": Key(
            TextKind(),
            "The action of the first node on which the edge fires; error: when it has failed.",
            default="default",
        ),
    }
)
NODE: Final[Block] = MappingProxyType(
    {
        "id": Key(_NAME, "The node's name, under which its output is read: ${id.…}.", is_required=True),
        "type": Key(TextKind(), "The node's type.", is_required=True),
        "purpose": Key(TextKind(), "What the node is for, in words; read by people only."),
        "params": Key(MappingKind(), "The params of the node's type; any text in them may hold ${…} templates."),
        "retry": Key(
            MappingKind(), "How often a failed attempt is tried again; what is left out comes from the run's policy."
        ),
        "timeout": Key(_SECONDS, "Seconds that one attempt may take; else the run's policy says."),
        "effect": Key(
            ChoiceKind(get_args(Effect)), "Whether a step may be run twice without harm; else the type says."
        ),
        "on_ambiguous": Key(
            ChoiceKind(("dead_letter", "retry")),
            "What becomes of an unsafe step of which nobody knows how it ended.",
            default="dead_letter",
        ),
        "batch": Key(MappingKind(), "Runs the node for each of some items."),
        "loop": Key(MappingKind(), "Runs the node again until a condition holds."),
    }
)
RETRY: Final[Block] = MappingProxyType(
    {
        "attempts": Key(CountKind(1), "Attempts in all."),
        "wait_s": Key(_WAIT, "The least wait before the next attempt."),
        "backoff": Key(ChoiceKind(get_args(Backoff)), "How the wait grows."),
        "cap_s": Key(_WAIT, "The longest wait."),
    }
)
BATCH: Final[Block] = MappingProxyType(
    {
        "items": Key(
            ItemsKind(),
            "The items: one reference to a list, or a list that may hold templates.",
            is_required=True,
        ),
        "as": Key(_IDENTIFIER, "The name by which the node's params read the item.", default="item"),
        "error_handling": Key(
            ChoiceKind(("fail_fast", "continue")),
            "Whether the first failed item ends the batch or the others go on.",
            default="fail_fast",
        ),
        "parallel": Key(FlagKind(), "Whether items run at the same time.", default=False),
        "max_concurrent": Key(CountKind(1, 1000), "How many items run at the same time, at most.", default=10),
        "max_retries": Key(CountKind(1, 10), "Attempts in all per item; else the node's retry, then the run's policy."),
        "retry_wait": Key(_WAIT, "The least wait in seconds before the next attempt; growth and jitter come on top."),
        "timeout": Key(_SECONDS, "Seconds that one attempt of an item may take."),
        "max_failures": Key(
            ToleranceKind(),
            "How many failed items, or which share of them, the step bears under error_handling: continue.",
        ),
        "ordered": Key(FlagKind(), "Whether results stand in the order of the items.", default=True),
    }
)
LOOP: Final[Block] = MappingProxyType(
    {
        "max": Key(EitherKind(CountKind(1, 1000), PlaceholderKind()), "The most rounds.", is_required=True),
        "until": Key(
            MappingKind("a mapping from reasons to references"),
            "Reason → reference into ${round…}; the first truthy one ends the loop.",
        ),
        "repeats": Key(
            MappingKind("a mapping from reasons to references"),
            "Reason → reference; ends the loop when its text was there before.",
        ),
        "similarity": Key(
            NumberKind(most=1, is_above=True), "How alike two texts are to count as a repeat.", default=0.9
        ),
        "keep": Key(MappingKind("{max: reference} or {min: reference}"), "Which round is the best; else the last."),
        "history": Key(_IDENTIFIER, "The name of the list of finished rounds.", default="past"),
        "timeout": Key(_SECONDS, "Seconds that the whole loop may take."),
        "budget_usd": Key(NumberKind("an amount", is_above=True), "US dollars that the whole loop may cost."),
        "on_error": Key(
            ChoiceKind(("fail", "keep")),
            "Whether a failed round fails the loop, or ends it with the rounds so far.",
            default="fail",
        ),
    }
)
