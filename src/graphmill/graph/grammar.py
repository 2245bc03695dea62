"""The keys of the workflow language, block by block: checks, defaults, JSON Schema and docs all come from these tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, get_args

from graphmill.core.job import Effect
from graphmill.engine.policy import Backoff
from graphmill.graph.kinds import (
    Anything,
    Choice,
    Count,
    Either,
    Flag,
    Items,
    Kind,
    ListOf,
    Lookup,
    MappingOf,
    Name,
    Number,
    Text,
    Tolerance,
)


@dataclass(frozen=True, slots=True)
class Key:
    """One key: what it takes, what it is for, and what stands in for it where it is left out."""

    kind: Kind
    about: str
    default: Any = None
    is_required: bool = False


Block = Mapping[str, Key]

_NAME = Name()
_IDENTIFIER = Name(has_hyphens=False)
_SECONDS = Number("a number of seconds", is_above=True)
_WAIT = Number("a number of seconds")
_TYPES = ("string", "number", "integer", "boolean", "array", "object", "any")

WORKFLOW: Final[Block] = MappingProxyType(
    {
        "name": Key(Text(), "What the workflow is called; else its file's name."),
        "description": Key(Text(), "What the workflow is for, in words; read by people only."),
        "inputs": Key(
            MappingOf("a mapping from names to {required: true} or {default: …}"),
            "The values that a job is given, by name.",
        ),
        "nodes": Key(
            ListOf("a list of at least one node", is_filled=True),
            "The nodes, in the order in which they run.",
            is_required=True,
        ),
        "edges": Key(
            ListOf("a list of {from: …, to: …}"), "What runs after what; without edges, nodes run in listed order."
        ),
        "start_node": Key(_NAME, "The node to begin with; else all that no edge leads to."),
        "outputs": Key(
            MappingOf("a mapping from names to values"), "What a job gives, by name; else what its last node gives."
        ),
    }
)
INPUT: Final[Block] = MappingProxyType(
    {
        "type": Key(Choice(_TYPES), "The type of the value."),
        "required": Key(Flag(), "Whether a job has to be given it.", default=False),
        "default": Key(Anything(), "What it is where a job is not given it; without one, null."),
        "description": Key(Text(), "What it is, in words.", default=""),
    }
)
EDGE: Final[Block] = MappingProxyType(
    {
        "from": Key(_NAME, "The node that the edge leaves.", is_required=True),
        "to": Key(_NAME, "The node that it leads to.", is_required=True),
        "action": Key(
            Text(),
            "The action of the first node on which the edge fires; error: when it has failed.",
            default="default",
        ),
    }
)
NODE: Final[Block] = MappingProxyType(
    {
        "id": Key(_NAME, "The node's name, under which its output is read: ${id.…}.", is_required=True),
        "type": Key(Text(), "The node's type.", is_required=True),
        "purpose": Key(Text(), "What the node is for, in words; read by people only."),
        "params": Key(MappingOf(), "The params of the node's type; any text in them may hold ${…} templates."),
        "retry": Key(
            MappingOf(), "How often a failed attempt is tried again; what is left out comes from the run's policy."
        ),
        "timeout": Key(_SECONDS, "Seconds that one attempt may take; else the run's policy says."),
        "effect": Key(Choice(get_args(Effect)), "Whether a step may be run twice without harm; else the type says."),
        "on_ambiguous": Key(
            Choice(("dead_letter", "retry")),
            "What becomes of an unsafe step of which nobody knows how it ended.",
            default="dead_letter",
        ),
        "batch": Key(MappingOf(), "Runs the node for each of some items."),
        "loop": Key(MappingOf(), "Runs the node again until a condition holds."),
    }
)
RETRY: Final[Block] = MappingProxyType(
    {
        "attempts": Key(Count(1), "Attempts in all."),
        "wait_s": Key(_WAIT, "The least wait before the next attempt."),
        "backoff": Key(Choice(get_args(Backoff)), "How the wait grows."),
        "cap_s": Key(_WAIT, "The longest wait."),
    }
)
BATCH: Final[Block] = MappingProxyType(
    {
        "items": Key(
            Items(),
            "The items: one reference to a list, or a list that may hold templates.",
            is_required=True,
        ),
        "as": Key(_IDENTIFIER, "The name by which the node's params read the item.", default="item"),
        "error_handling": Key(
            Choice(("fail_fast", "continue")),
            "Whether the first failed item ends the batch or the others go on.",
            default="fail_fast",
        ),
        "parallel": Key(Flag(), "Whether items run at the same time.", default=False),
        "max_concurrent": Key(Count(1, 1000), "How many items run at the same time, at most.", default=10),
        "max_retries": Key(Count(1, 10), "Attempts in all per item; else the node's retry, then the run's policy."),
        "retry_wait": Key(_WAIT, "The least wait in seconds before the next attempt; growth and jitter come on top."),
        "timeout": Key(_SECONDS, "Seconds that one attempt of an item may take."),
        "max_failures": Key(
            Tolerance(), "How many failed items, or which share of them, the step bears under error_handling: continue."
        ),
        "ordered": Key(Flag(), "Whether results stand in the order of the items.", default=True),
    }
)
LOOP: Final[Block] = MappingProxyType(
    {
        "max": Key(Either(Count(1, 1000), Lookup()), "The most rounds.", is_required=True),
        "until": Key(
            MappingOf("a mapping from reasons to references"),
            "Reason → reference into ${round…}; the first truthy one ends the loop.",
        ),
        "repeats": Key(
            MappingOf("a mapping from reasons to references"),
            "Reason → reference; ends the loop when its text was there before.",
        ),
        "similarity": Key(Number(most=1, is_above=True), "How alike two texts are to count as a repeat.", default=0.9),
        "keep": Key(MappingOf("{max: reference} or {min: reference}"), "Which round is the best; else the last."),
        "history": Key(_IDENTIFIER, "The name of the list of finished rounds.", default="past"),
        "timeout": Key(_SECONDS, "Seconds that the whole loop may take."),
        "budget_usd": Key(Number("an amount", is_above=True), "US dollars that the whole loop may cost."),
        "on_error": Key(
            Choice(("fail", "keep")),
            "Whether a failed round fails the loop, or ends it with the rounds so far.",
            default="fail",
        ),
    }
)
