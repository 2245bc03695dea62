"""Reads the data of a workflow block by block: every key known, every value of its kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any, TypeVar

from graphmill.core.suggest import suggestion
from graphmill.graph.inputs import INPUT_TYPES, is_of_type
from graphmill.graph.language import grammar
from graphmill.graph.language.document import Document
from graphmill.graph.language.grammar import NAME, PLACEHOLDER, REFERENCES, Block, Key, ValueKind, shown, tolerance
from graphmill.graph.language.places import At
from graphmill.graph.language.problems import Problems
from graphmill.graph.language.spec import BatchSpec, EdgeSpec, InputSpec, LoopSpec, NodeSpec, RetrySpec, WorkflowSpec

T = TypeVar("T")
_OTHER_NAMES = {"source": "from", "target": "to", "parameters": "params", "max_iterations": "max"}


def read_spec(document: Document, at: At = (), *, problems: Problems) -> WorkflowSpec | None:
    """Read the workflow at this part of a document and report everything wrong with its shape; never raises.

    A wrong value is replaced by its default, and a part that is unusable, such as a node without id or type, is left
    out, so that later passes can check the rest. None if it is not a mapping, or has no nodes.
    """
    found = document.get(at)
    if not isinstance(found, Mapping):
        problems.add(at, f"a workflow must be a mapping with a list of nodes, got {shown(found)}")
        return None
    if "ir_version" in found or isinstance(found.get("ir"), Mapping):
        path = "FILE" if document.root is None else document.path
        message = f"this is a workflow of the older JSON form; convert it with: graphmill convert {path}"
        problems.add((*at, "ir_version"), message, is_key=True)
        return None
    return _WorkflowReader(document, problems).workflow(found, at)


class _WorkflowReader:
    """Reads the blocks of one workflow; a missing or wrong block is None or its defaults."""

    def __init__(self, document: Document, problems: Problems) -> None:
        self._document = document
        self._problems = problems

    def workflow(self, found: Mapping[Any, Any], at: At) -> WorkflowSpec | None:
        block = self._block(found, at, grammar.WORKFLOW)
        inputs = [self._input(name, rule, at=(*at, "inputs", name)) for name, rule in (block["inputs"] or {}).items()]
        nodes = [self._node(node, (*at, "nodes", index)) for index, node in enumerate(block["nodes"] or ())]
        edges = [self._edge(edge, (*at, "edges", index)) for index, edge in enumerate(block["edges"] or ())]
        if not nodes:
            return None
        return WorkflowSpec(
            at=at,
            document=self._document,
            name=block["name"] or PurePath(self._document.path).stem or "workflow",
            inputs=_without_none(inputs),
            nodes=_without_none(nodes),
            edges=_without_none(edges) if edges else None,
            outputs=self._outputs(block),
            start_node=block["start_node"],
            is_whole=None not in (*nodes, *inputs, *edges),
        )

    def _input(self, name: Any, rule: Any, *, at: At) -> InputSpec | None:
        if not NAME.fits(name):
            message = f"{self._document.at_text(at)}: must be {NAME.wanted}"
            self._problems.add(at, message, is_key=True)
            return None
        wanted = "{required: true} or {default: …}"
        if isinstance(rule, str) and rule in INPUT_TYPES:
            wanted = f"{{type: {rule}}}"
        block = self._part(rule, at, grammar.INPUT, wanted=wanted)
        if block is None:
            return None
        kind = None if block["type"] == "any" else block["type"]
        has_default = block.is_given("default")
        if has_default and kind and block["default"] is not None and not is_of_type(block["default"], kind):
            block.wrong(f"the default must be of type {kind}, got {shown(block['default'])}", block.at_key("default"))
        return InputSpec(
            at=at,
            name=name,
            type=kind,
            is_required=block["required"] and not has_default,
            default=block["default"],
            description=block["description"],
        )

    def _edge(self, found: Any, at: At) -> EdgeSpec | None:
        block = self._part(found, at, grammar.EDGE, wanted="a mapping with from and to")
        if block is None or not (block.has("from") and block.has("to")):
            return None
        return EdgeSpec(at=at, source=block["from"], target=block["to"], action=block["action"])

    def _outputs(self, workflow: BlockReader) -> Mapping[str, Any] | None:
        at, found = workflow.at_key("outputs"), workflow["outputs"]
        if found is None:
            return None
        for name in found:
            if not isinstance(name, str):
                self._problems.add((*at, name), f"outputs: a name must be text, got {shown(name)}", is_key=True)
        return {name: value for name, value in found.items() if isinstance(name, str)}

    def _node(self, found: Any, at: At) -> NodeSpec | None:
        block = self._part(found, at, grammar.NODE, wanted="a mapping with id, type and params")
        if block is None or not (block.has("id") and block.has("type")):
            return None
        return NodeSpec(
            at=at,
            id=block["id"],
            type=block["type"],
            params=block["params"] or {},
            retry=self._retry(block),
            timeout_s=block["timeout"],
            effect=block["effect"],
            on_ambiguous=block["on_ambiguous"],
            batch=self._batch(block),
            loop=self._loop(block),
        )

    def _retry(self, node: BlockReader) -> RetrySpec:
        block = self._inner(node, "retry", grammar.RETRY)
        if block is None:
            return RetrySpec()
        if block.has("wait_s") and block.has("cap_s") and block["cap_s"] < block["wait_s"]:
            block.wrong(
                f"cap_s ({block['cap_s']:g}) is less than wait_s ({block['wait_s']:g}); raise the cap or shorten the "
                "wait",
                block.at_key("cap_s"),
            )
        return RetrySpec(
            attempts=block["attempts"], wait_s=block["wait_s"], backoff=block["backoff"], cap_s=block["cap_s"]
        )

    def _batch(self, node: BlockReader) -> BatchSpec | None:
        block = self._inner(node, "batch", grammar.BATCH)
        if block is None:
            return None
        if block.has("max_failures") and block["error_handling"] != "continue":
            block.wrong(
                "max_failures needs error_handling: continue; add it, or remove max_failures",
                block.at_key("max_failures"),
            )
        given = [key for key in ("items", "times") if node["batch"].get(key) is not None]
        if not given:
            block.wrong("'items' is missing; to repeat the node, write times", block.at_key("items"))
        elif len(given) == 2:
            block.wrong("a batch has either items or times, not both; remove one", block.at_key("times"))
        return BatchSpec(
            at=block.at,
            items=block["items"] if block.has("items") else [],
            times=block["times"],
            alias=block["as"],
            error_handling=block["error_handling"],
            is_parallel=block["parallel"],
            max_concurrent=block["max_concurrent"],
            max_retries=block["max_retries"],
            retry_wait_s=block["retry_wait"],
            timeout_s=block["timeout"],
            max_failures=tolerance(block["max_failures"]),
            is_ordered=block["ordered"],
        )

    def _loop(self, node: BlockReader) -> LoopSpec | None:
        block = self._inner(node, "loop", grammar.LOOP)
        if block is None:
            return None
        return LoopSpec(
            at=block.at,
            max=block["max"] if block.has("max") else 1,
            until=_references(block, "until"),
            repeats=_references(block, "repeats"),
            similarity=block["similarity"],
            keep=_keep(block),
            history=block["history"],
            timeout_s=block["timeout"],
            budget_usd=block["budget_usd"],
            on_error=block["on_error"],
        )

    def _inner(self, node: BlockReader, key: str, block: Block) -> BlockReader | None:
        if not node.has(key):
            return None
        return self._block(node[key], node.at_key(key), block)

    def _part(self, found: Any, at: At, block: Block, *, wanted: str) -> BlockReader | None:
        if isinstance(found, Mapping):
            return self._block(found, at, block)
        self._problems.add(at, f"{self._document.at_text(at)}: must be {wanted}, got {shown(found)}")
        return None

    def _block(self, found: Mapping[Any, Any], at: At, block: Block) -> BlockReader:
        return BlockReader(found, at, block=block, problems=self._problems)


def _without_none(parts: Iterable[T | None]) -> tuple[T, ...]:
    return tuple(part for part in parts if part is not None)


def _references(block: BlockReader, key: str) -> Mapping[str, Any]:
    """Return the entries that are one reference each; report the others."""
    right: dict[str, Any] = {}
    for reason, reference in (block[key] or {}).items():
        if isinstance(reason, str) and PLACEHOLDER.fits(reference):
            right[reason] = reference
        else:
            message = f"{key}: {reason!r:.80} must be {PLACEHOLDER.wanted}, got {shown(reference)}"
            block.wrong(message, (*block.at_key(key), reason))
    return right


def _keep(block: BlockReader) -> tuple[str, Any] | None:
    keep = block["keep"]
    if keep is None:
        return None
    if len(keep) == 1:
        ((which, reference),) = keep.items()
        if which in ("max", "min") and REFERENCES.fits(reference):
            return which, reference
    block.wrong(
        "keep must be either {max: reference} or {min: reference}, or a list of references", block.at_key("keep")
    )
    return None


class BlockReader:
    """Returns the values of a block's keys, or the default for a wrong or missing one; null counts as missing."""

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
        """Return the value as written if it is valid, else the default."""
        if self.has(key):
            return self._written[key]
        return self._block[key].default

    def has(self, key: str) -> bool:
        """Return whether the key has a valid value."""
        return self._written.get(key) is not None and self._block[key].kind.fits(self._written[key])

    def is_given(self, key: str) -> bool:
        """Return whether the key is written at all, even if it is null."""
        return key in self._written

    def at_key(self, key: str) -> At:
        """Return the place of a key's value."""
        return (*self.at, key)

    def wrong(self, message: str, at: At | None = None, *, is_key: bool = False) -> None:
        """Report a mistake in the block, or in a part of it."""
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
            self.wrong(
                f"{key} must be {rule.kind.wanted}, got {shown(value)}{_hint(value, rule.kind)}", self.at_key(key)
            )

    def _check_key(self, key: Any) -> None:
        at = (*self.at, key)
        if not isinstance(key, str):
            self.wrong(f"a key must be text, got {shown(key)}", at, is_key=True)
        elif key not in self._block:
            message = f"unknown key {shown(key)}{self._remedy(key)}; known keys: {', '.join(self._block)}"
            self.wrong(message, at, is_key=True)

    def _remedy(self, key: str) -> str:
        """Suggest the key that was meant."""
        if _OTHER_NAMES.get(key) in self._block:
            return f"; write {_OTHER_NAMES[key]!r}"
        near = suggestion(key[:100], self._block)
        if not near and "params" in self._block:
            return "; put what the node's type takes under 'params'"
        return near


def _hint(value: Any, kind: ValueKind) -> str:
    if kind.hint is not None:
        return kind.hint(value)
    if isinstance(value, str):
        return suggestion(value[:100], kind.choices)
    return ""
