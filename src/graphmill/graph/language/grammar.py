"""The keys of the workflow language with their values: checks, defaults, JSON Schema and docs use these tables."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, get_args

from graphmill.core.errors import cut
from graphmill.core.job import Effect
from graphmill.engine.policy import Backoff

_PLACEHOLDER = re.compile(r"\$\{.+\}\s*", re.DOTALL)
_SHARE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")
MAX_TIMES = 1_000_000
_MAX_SECONDS = 1e9  # thirty years


@dataclass(frozen=True, slots=True)
class ValueKind:
    """The values that a key takes: in words, as in "timeout must be …", as JSON Schema, and as a check.

    ``choices`` are the words it takes, if they are few; ``hint`` returns what to do about a wrong value.
    """

    wanted: str
    schema: Mapping[str, Any]
    fits: Callable[[Any], bool]
    choices: tuple[str, ...] = ()
    hint: Callable[[Any], str] | None = None


def one_of(choices: tuple[str, ...]) -> ValueKind:
    """Take one of a few words."""
    return ValueKind(
        f"one of {', '.join(choices)}",
        {"enum": list(choices)},
        lambda value: isinstance(value, str) and value in choices,
        choices=choices,
    )


def integer(least: int, most: int | None = None) -> ValueKind:
    """Take an integer in a range, not a bool."""
    schema: dict[str, Any] = {"type": "integer", "minimum": least}
    wanted = f"an integer >= {least}"
    if most is not None:
        schema["maximum"] = most
        wanted = f"an integer from {least} to {most}"
    return ValueKind(
        wanted, schema, lambda value: type(value) is int and value >= least and (most is None or value <= most)
    )


def number(
    what: str = "a number", *, least: float = 0, most: float = _MAX_SECONDS, is_above: bool = False
) -> ValueKind:
    """Take a number in a range, or above its lower end; not a bool, NaN or infinity."""
    wanted = f"{what} {'>' if is_above else '>='} {least:g}"
    if most != _MAX_SECONDS:
        wanted = f"{wanted} and <= {most:g}"
    schema = {"type": "number", "exclusiveMinimum" if is_above else "minimum": least, "maximum": most}

    def fits(value: Any) -> bool:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and least <= value <= most and not (is_above and value == least)

    return ValueKind(wanted, schema, fits)


def list_of(wanted: str, *, is_filled: bool = False) -> ValueKind:
    """Take a list, of at least one entry if it ``is_filled``."""
    schema: dict[str, Any] = {"type": "array"}
    if is_filled:
        schema["minItems"] = 1
    return ValueKind(wanted, schema, lambda value: isinstance(value, list | tuple) and (bool(value) or not is_filled))


def mapping(wanted: str = "a mapping") -> ValueKind:
    """Take a mapping."""
    return ValueKind(wanted, {"type": "object"}, lambda value: isinstance(value, Mapping))


def either(one: ValueKind, other: ValueKind, *, hint: Callable[[Any], str] | None = None) -> ValueKind:
    """Take a value of one of two kinds."""
    return ValueKind(
        f"{one.wanted} or {other.wanted}",
        {"anyOf": [one.schema, other.schema]},
        lambda value: one.fits(value) or other.fits(value),
        hint=hint,
    )


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and not value.startswith("-") and value.replace("-", "_").isidentifier()


def _is_identifier(value: Any) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _name_schema(hyphen: str) -> Mapping[str, Any]:
    """Return a pattern of the ASCII characters that are not allowed: no two readers agree on the letters beyond."""
    return {"type": "string", "pattern": rf"^[^\x00-@\[-\^`{{-\x7f][^{hyphen}:-@\[-\^`{{-\x7f]*$"}


def tolerance(value: Any) -> int | float | None:
    """Return a count as int, a share as float; None for anything else."""
    if type(value) is int:
        return value if value >= 0 else None
    if isinstance(value, str) and len(value) < 40 and (percent := _SHARE.fullmatch(value)):
        value = float(percent[1]) / 100
    if type(value) is float and 0 < value <= 1 and math.isfinite(value):
        return value
    return None


def _items_hint(value: Any) -> str:
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return ""
    return "; !file reads only .json and .yaml files as data: save the items as a list in one of these"


TEXT: Final = ValueKind("text", {"type": "string"}, lambda value: isinstance(value, str))
FLAG: Final = ValueKind("true or false", {"type": "boolean"}, lambda value: isinstance(value, bool))
ANYTHING: Final = ValueKind("any value", {}, lambda value: True)  # noqa: ARG005
# A name as templates read it: letters of any script.
NAME: Final = ValueKind(
    "a name of letters, digits, _ and - that starts with a letter or _", _name_schema(r"\x00-,./"), _is_name
)
IDENTIFIER: Final = ValueKind(
    "a name of letters, digits and _ that starts with a letter or _", _name_schema(r"\x00-/"), _is_identifier
)
PLACEHOLDER: Final = ValueKind(
    "one ${…} reference",
    {"type": "string", "pattern": r"^\$\{.+\}\s*$"},
    lambda value: isinstance(value, str) and _PLACEHOLDER.fullmatch(value) is not None,
)
REFERENCES: Final = ValueKind(
    "one ${…} reference, or a list of them",
    {"anyOf": [PLACEHOLDER.schema, {"type": "array", "items": PLACEHOLDER.schema, "minItems": 1}]},
    lambda value: (
        PLACEHOLDER.fits(value)
        or (isinstance(value, list | tuple) and bool(value) and all(map(PLACEHOLDER.fits, value)))
    ),
)
ITEMS: Final = either(PLACEHOLDER, list_of("a list"), hint=_items_hint)
TOLERANCE: Final = ValueKind(
    'an integer >= 0, or a share > 0 and <= 1, such as 0.1 or "10%"',
    {
        "anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
            {"type": "string", "pattern": f"^{_SHARE.pattern}$"},
        ]
    },
    lambda value: tolerance(value) is not None,
)


def shown(value: Any) -> str:
    """Show a value in a message: a short one as it is, a long or nested one by its type."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return repr(cut(value, 60))
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, int):
        return "a very large number" if value.bit_length() > 100 else str(value)
    return type(value).__name__


@dataclass(frozen=True, slots=True)
class Key:
    """One key: the values it takes, what it is for, and its default."""

    kind: ValueKind
    about: str
    default: Any = None
    is_required: bool = False


Block = Mapping[str, Key]

_SECONDS = number("a number of seconds", is_above=True)
_WAIT = number("a number of seconds")
_TYPES = ("string", "number", "integer", "boolean", "array", "object", "any")

WORKFLOW: Final[Block] = MappingProxyType(
    {
        "name": Key(TEXT, "The name of the workflow; by default that of its file."),
        "description": Key(TEXT, "What the workflow is for; only for people."),
        "inputs": Key(
            mapping("a mapping of names to {required: true} or {default: …}"), "The inputs of a job, by name."
        ),
        "nodes": Key(
            list_of("a list of at least one node", is_filled=True),
            "The nodes, in the order in which they run.",
            is_required=True,
        ),
        "edges": Key(
            list_of("a list of {from: …, to: …}"), "The order of nodes; without edges, nodes run in listed order."
        ),
        "start_node": Key(NAME, "The first node; by default all nodes that no edge leads to."),
        "outputs": Key(
            mapping("a mapping of names to values"), "The outputs of a job, by name; by default those of its last node."
        ),
    }
)
INPUT: Final[Block] = MappingProxyType(
    {
        "type": Key(one_of(_TYPES), "The type of the value."),
        "required": Key(FLAG, "Whether a job must have it.", default=False),
        "default": Key(ANYTHING, "The value if a job does not have it; null if omitted."),
        "description": Key(TEXT, "What the input is for.", default=""),
    }
)
EDGE: Final[Block] = MappingProxyType(
    {
        "from": Key(NAME, "The node where the edge starts.", is_required=True),
        "to": Key(NAME, "The node where it ends.", is_required=True),
        "action": Key(
            TEXT,
            "The action of the first node for which the edge is taken; error: when that node failed.",
            default="default",
        ),
    }
)
NODE: Final[Block] = MappingProxyType(
    {
        "id": Key(NAME, "The node's name; its output is ${id.…}.", is_required=True),
        "type": Key(TEXT, "The node's type.", is_required=True),
        "purpose": Key(TEXT, "What the node is for; only for people."),
        "params": Key(mapping(), "The params of the node's type; any text in them may contain ${…} templates."),
        "retry": Key(mapping(), "How often a failed attempt is retried; omitted keys come from the run's policy."),
        "timeout": Key(_SECONDS, "Seconds that one attempt may take; by default as in the run's policy."),
        "effect": Key(
            one_of(get_args(Effect)), "Whether a step may run twice without harm; by default as the type says."
        ),
        "on_ambiguous": Key(
            one_of(("dead_letter", "retry")),
            "What happens to an unsafe step whose outcome is unknown.",
            default="dead_letter",
        ),
        "batch": Key(mapping(), "Runs the node for each item of a list."),
        "loop": Key(mapping(), "Runs the node again until a condition holds."),
    }
)
RETRY: Final[Block] = MappingProxyType(
    {
        "attempts": Key(integer(1), "Attempts in total."),
        "wait_s": Key(_WAIT, "The shortest wait before the next attempt."),
        "backoff": Key(one_of(get_args(Backoff)), "How the wait grows."),
        "cap_s": Key(_WAIT, "The longest wait."),
    }
)
BATCH: Final[Block] = MappingProxyType(
    {
        "items": Key(ITEMS, "The items: one reference to a list, or a list that may contain templates."),
        "times": Key(
            either(integer(0, MAX_TIMES), PLACEHOLDER),
            "In place of items: how often the node runs; the items are 0, 1, 2 and so on.",
        ),
        "as": Key(IDENTIFIER, "The name of the item in the node's params.", default="item"),
        "error_handling": Key(
            one_of(("fail_fast", "continue")),
            "Whether the first failed item ends the batch, or the others continue.",
            default="fail_fast",
        ),
        "parallel": Key(FLAG, "Whether items run at the same time.", default=False),
        "max_concurrent": Key(integer(1, 1000), "The most items that run at the same time.", default=10),
        "max_retries": Key(
            integer(1, 10), "Attempts in total per item; by default as in the node's retry, then the run's policy."
        ),
        "retry_wait": Key(_WAIT, "The shortest wait in seconds before the next attempt; growth and jitter are added."),
        "timeout": Key(_SECONDS, "Seconds that one attempt of an item may take."),
        "max_failures": Key(
            TOLERANCE, "How many items, or which share of them, may fail with error_handling: continue."
        ),
        "ordered": Key(FLAG, "Whether results are in the order of the items.", default=True),
    }
)
LOOP: Final[Block] = MappingProxyType(
    {
        "max": Key(either(integer(1, 1000), PLACEHOLDER), "The maximum number of rounds.", is_required=True),
        "until": Key(
            mapping("a mapping of reasons to references"),
            "Reason → reference into ${round…}; the first truthy one ends the loop.",
        ),
        "repeats": Key(
            mapping("a mapping of reasons to references"), "Reason → reference; the loop ends when its text repeats."
        ),
        "similarity": Key(
            number(most=1, is_above=True), "How similar two texts must be to count as a repeat.", default=0.9
        ),
        "keep": Key(
            mapping("{max: reference} or {min: reference}"),
            "Which round is the best: by a reference, or by several of which the first that differ decide; by default "
            "the last.",
        ),
        "history": Key(IDENTIFIER, "The name of the list of finished rounds.", default="past"),
        "timeout": Key(either(_SECONDS, PLACEHOLDER), "Seconds that the whole loop may take; null is no limit."),
        "budget_usd": Key(
            either(number("an amount", is_above=True), PLACEHOLDER),
            "US dollars that the whole loop may cost; null is no limit.",
        ),
        "on_error": Key(
            one_of(("fail", "keep")),
            "Whether a failed round fails the loop, or ends it with the rounds so far.",
            default="fail",
        ),
    }
)
