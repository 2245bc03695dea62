"""Reads a workflow's data, block by block, and checks its shape: every key known, every value of its type and in its range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any, TypeVar

from graphmill.graph import grammar, legacy
from graphmill.graph.block import BlockReader
from graphmill.graph.document import Document
from graphmill.graph.grammar import Block
from graphmill.graph.inputs import INPUT_TYPES, is_of_type
from graphmill.graph.kinds import Lookup, Name, shown, tolerance
from graphmill.graph.legacy import Dialect
from graphmill.graph.legacy_params import read_params
from graphmill.graph.places import At
from graphmill.graph.problems import Problems
from graphmill.graph.spec import BatchSpec, EdgeSpec, InputSpec, LoopSpec, NodeSpec, RetrySpec, WorkflowSpec

T = TypeVar("T")


def read_spec(document: Document, at: At = (), *, problems: Problems) -> WorkflowSpec | None:
    """Read the workflow at this part of a document and tell ``problems`` all that is wrong in its shape; never raises.

    What is wrong and can be done without is given as its default, and a part that can not, such as a node without id or type, is
    left out, so that later checks can go on with the rest; None where there is none: no mapping, no nodes.
    """
    found = document.get(at)
    if isinstance(found, Mapping) and isinstance(found.get("ir"), Mapping) and set(found) <= legacy.SAVED:
        found, at, saved = found["ir"], (*at, "ir"), found
    else:
        saved = {}
    if not isinstance(found, Mapping):
        problems.add(at, f"a workflow is a mapping with a list of nodes, not {shown(found)}")
        return None
    return _Reader(document, problems, is_legacy="ir_version" in found).workflow(found, at, saved)


class _Reader:
    """Reads the blocks of one workflow; a block that is left out or wrong is None or its defaults."""

    def __init__(self, document: Document, problems: Problems, *, is_legacy: bool) -> None:
        self._document = document
        self._problems = problems
        self._is_legacy = is_legacy

    def workflow(self, found: Mapping[Any, Any], at: At, saved: Mapping[Any, Any]) -> WorkflowSpec | None:
        block = self._block(found, at, grammar.WORKFLOW, legacy.WORKFLOW)
        inputs = [self._input(name, rule, at=(*at, "inputs", name)) for name, rule in (block["inputs"] or {}).items()]
        nodes = [self._node(node, (*at, "nodes", index)) for index, node in enumerate(block["nodes"] or ())]
        edges = [self._edge(edge, (*at, "edges", index)) for index, edge in enumerate(block["edges"] or ())]
        spec = WorkflowSpec(
            at=at,
            document=self._document,
            name=block["name"] or self._saved_name(saved) or PurePath(self._document.path).stem or "workflow",
            inputs=_without_none(inputs),
            nodes=_without_none(nodes),
            edges=_without_none(edges) if edges else None,
            outputs=self._outputs(block),
            start_node=block["start_node"],
            is_whole=None not in (*nodes, *inputs, *edges),
        )
        self._note_order(spec)
        return spec if nodes else None

    def _saved_name(self, saved: Mapping[Any, Any]) -> str | None:
        name = saved.get("name")
        return name if isinstance(name, str) else None

    def _input(self, name: Any, rule: Any, *, at: At) -> InputSpec | None:
        if not Name().fits(name):
            text = self._document.at_text(at)
            self._problems.add(
                at, f"{text}: a name has letters, digits, _ and -, and begins with a letter or _", is_key=True
            )
            return None
        wanted = (
            f"{{type: {rule}}}" if isinstance(rule, str) and rule in INPUT_TYPES else "{required: true} or {default: …}"
        )
        block = self._part(rule, at, grammar.INPUT, legacy.INPUT, wanted=wanted)
        if block is None:
            return None
        kind = None if block["type"] == "any" else block["type"]
        has_default = block.stands("default")
        if has_default and kind and block["default"] is not None and not is_of_type(block["default"], kind):
            block.wrong(f"the default is {shown(block['default'])}, and the type is {kind}", block.at_key("default"))
        is_required = block["required"] if block.has("required") else self._is_legacy
        if self._is_legacy and has_default and is_required:
            self._problems.note(
                at, f"input {name!r} may be left out, as it has a default; there it was required all the same"
            )
        return InputSpec(
            at=at,
            name=name,
            type=kind,
            is_required=is_required and not has_default,
            default=block["default"],
            description=block["description"],
        )

    def _edge(self, found: Any, at: At) -> EdgeSpec | None:
        block = self._part(found, at, grammar.EDGE, legacy.EDGE, wanted="a mapping with from and to")
        if block is None or not (block.has("from") and block.has("to")):
            return None
        return EdgeSpec(at=at, source=block["from"], target=block["to"], action=block["action"])

    def _outputs(self, workflow: BlockReader) -> Mapping[str, Any] | None:
        at, found = workflow.at_key("outputs"), workflow["outputs"]
        if found is None:
            return None
        for name in found:
            if not isinstance(name, str):
                self._problems.add((*at, name), f"outputs: a name is text, not {shown(name)}", is_key=True)
        read = self._legacy_output if self._is_legacy else self._output
        return {name: read(value, (*at, name)) for name, value in found.items() if isinstance(name, str)}

    def _output(self, value: Any, at: At) -> Any:
        if legacy.is_output_declaration(value):
            text = self._document.at_text(at)
            self._problems.note(
                at,
                f"{text} is a mapping with a source in it; with ir_version: 0.1.0 it would be the source's value alone",
            )
        return value

    def _legacy_output(self, value: Any, at: At) -> Any:
        if not isinstance(value, Mapping):
            return value
        source = self._part(value, at, grammar.OUTPUT, legacy.OUTPUT, wanted="a mapping with source")
        return legacy.output_value(source["source"]) if source and source.has("source") else None

    def _node(self, found: Any, at: At) -> NodeSpec | None:
        block = self._part(found, at, grammar.NODE, legacy.NODE, wanted="a mapping with id, type and params")
        if block is None or not (block.has("id") and block.has("type")):
            return None
        retry = self._retry(block)
        batch = self._batch(block, retry)
        if self._is_legacy and batch and retry.backoff is None:
            retry = replace(retry, backoff=legacy.BATCH_BACKOFF)
        return NodeSpec(
            at=at,
            id=block["id"],
            type=block["type"],
            params=self._params(block),
            retry=retry,
            timeout_s=block["timeout"],
            effect=block["effect"],
            on_ambiguous=block["on_ambiguous"],
            batch=batch,
            loop=self._loop(block),
        )

    def _params(self, node: BlockReader) -> Mapping[str, Any]:
        params: Mapping[str, Any] = node["params"] or {}
        if not self._is_legacy:
            return params
        reading, at = read_params(node["type"], params), node.at_key("params")
        for key, message in reading.problems.items():
            node.wrong(f"{key}: {message}", (*at, key), is_key=True)
        for key, message in reading.notes.items():
            self._problems.note((*at, key), f"{self._document.at_text(node.at)}: {key}: {message}", is_key=True)
        return reading.params

    def _retry(self, node: BlockReader) -> RetrySpec:
        block = self._inner(node, "retry", grammar.RETRY, legacy.RETRY)
        if block is None:
            return RetrySpec()
        if block.has("wait_s") and block.has("cap_s") and block["cap_s"] < block["wait_s"]:
            block.wrong(
                f"cap_s ({block['cap_s']:g}) is less than wait_s ({block['wait_s']:g}); raise the cap or shorten the wait",
                block.at_key("cap_s"),
            )
        return RetrySpec(
            attempts=block["attempts"], wait_s=block["wait_s"], backoff=block["backoff"], cap_s=block["cap_s"]
        )

    def _batch(self, node: BlockReader, retry: RetrySpec) -> BatchSpec | None:
        block = self._inner(node, "batch", grammar.BATCH)
        if block is None:
            return None
        if block.has("max_failures") and block["error_handling"] != "continue":
            block.wrong(
                "max_failures has no meaning without error_handling: continue; add that, or leave max_failures out",
                block.at_key("max_failures"),
            )
        fallback = {**legacy.BATCH_DEFAULTS} if self._is_legacy else {}
        if retry.attempts is not None:
            fallback.pop("max_retries", None)
        if retry.wait_s is not None:
            fallback.pop("retry_wait", None)
        if node.has("timeout"):
            fallback.pop("timeout", None)
        return BatchSpec(
            at=block.at,
            items=block["items"] if block.has("items") else [],
            alias=block["as"],
            error_handling=block["error_handling"],
            is_parallel=block["parallel"],
            max_concurrent=block["max_concurrent"],
            max_retries=_value(block, "max_retries", fallback),
            retry_wait_s=_value(block, "retry_wait", fallback),
            timeout_s=_value(block, "timeout", fallback),
            max_failures=tolerance(block["max_failures"]),
            is_ordered=block["ordered"],
        )

    def _loop(self, node: BlockReader) -> LoopSpec | None:
        block = self._inner(node, "loop", grammar.LOOP, legacy.LOOP)
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

    def _inner(self, node: BlockReader, key: str, block: Block, dialect: Dialect = legacy.OURS) -> BlockReader | None:
        return self._block(node[key], node.at_key(key), block, dialect) if node.has(key) else None

    def _part(self, found: Any, at: At, block: Block, dialect: Dialect, *, wanted: str) -> BlockReader | None:
        if isinstance(found, Mapping):
            return self._block(found, at, block, dialect)
        self._problems.add(at, f"{self._document.at_text(at)}: {wanted} is wanted, not {shown(found)}")
        return None

    def _block(self, found: Mapping[Any, Any], at: At, block: Block, dialect: Dialect) -> BlockReader:
        read_as = dialect if self._is_legacy else legacy.OURS
        return BlockReader(found, at, block=block, problems=self._problems, dialect=read_as, foreign=dialect.renamed)

    def _note_order(self, spec: WorkflowSpec) -> None:
        if self._is_legacy:
            nodes = [(node.at, node.id) for node in spec.nodes]
            edges = [(edge.at, edge.source, edge.target, edge.action) for edge in spec.edges or ()]
            for at, message in legacy.differences(nodes, edges, start_node=spec.start_node):
                self._problems.note(at, message)


def _without_none(parts: Iterable[T | None]) -> tuple[T, ...]:
    return tuple(part for part in parts if part is not None)


def _value(block: BlockReader, key: str, fallback: Mapping[str, Any]) -> Any:
    return block[key] if block.has(key) else fallback.get(key)


def _references(block: BlockReader, key: str) -> Mapping[str, Any]:
    """Give the entries that are one reference each; tell the others."""
    right: dict[str, Any] = {}
    for reason, reference in (block[key] or {}).items():
        if isinstance(reason, str) and Lookup().fits(reference):
            right[reason] = reference
        else:
            block.wrong(
                f"{key}: {reason!r:.80} is {Lookup().wanted}, not {shown(reference)}", (*block.at_key(key), reason)
            )
    return right


def _keep(block: BlockReader) -> tuple[str, Any] | None:
    keep = block["keep"]
    if keep is None:
        return None
    if len(keep) == 1:
        ((which, reference),) = keep.items()
        if which in ("max", "min") and Lookup().fits(reference):
            return which, reference
    block.wrong("keep is {max: reference} or {min: reference}, and one of them", block.at_key("keep"))
    return None
