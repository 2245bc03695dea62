"""Converts workflows of the older JSON form, marked by ``ir_version``, for ``graphmill convert``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from graphmill.core.positions import FileProblem
from graphmill.graph.language.document import Document
from graphmill.graph.language.grammar import shown
from graphmill.graph.language.places import At
from graphmill.graph.language.problems import Problems


@dataclass(frozen=True, slots=True)
class _Keys:
    """How the keys of one block differ: new names; dropped ones, with a note or none; refused ones, with the reason."""

    renamed: Mapping[str, str] = field(default_factory=dict)
    dropped: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


_INTERNAL = dict.fromkeys(("_source_line", "_source_lines", "_source_files", "_routes_to_end"), "")
_SAVED = {"name", "description", "ir", "created_at", "updated_at", "version", "rich_metadata", "metadata"}
_WORKFLOW = _Keys(
    dropped={
        "ir_version": "",
        "mappings": "dropped: a node reads another node's output with ${node.output}",
        "cache": "dropped: prompt caching is left to the provider",
        "enable_namespacing": "dropped: a node always writes under its own id; read it with ${node.output}",
        "template_resolution_mode": "dropped: a missing reference always fails the job, as in strict mode",
        "metadata": "",
        "version": "",
    }
)
_INPUT = _Keys(dropped={"stdin": "dropped: standard input is not bound to an input; give the input a value"})
_NODE = _Keys(
    renamed={"parameters": "params"},
    dropped={
        "cache": "dropped: finished steps are found in the journal",
        "prompt_cache": "dropped: prompt caching is left to the provider",
        "prewarm": "dropped: prompt caching is left to the provider",
        **_INTERNAL,
    },
    refused={"approval": "a node cannot wait for approval; ask with an 'ask' node before it"},
)
_EDGE = _Keys(renamed={"source": "from", "target": "to"})
_RETRY = _Keys(renamed={"max": "attempts", "wait": "wait_s"})
_LOOP = _Keys(
    renamed={"max_iterations": "max"},
    refused={
        "while": "it has no counterpart; write the opposite condition: until: {reason: ${round.field}}",
        "carry": "a round reads earlier rounds from the history: ${past[-1].field}",
    },
)
_ALL_EXIT_CODES = tuple(range(256))
# Commands that fail when they find nothing, and their exit codes.
_FINDS_NOTHING = re.compile(r"(?:^|[\s|])(grep|rg) |^\s*(which|type) |(command -v) |^\s*(ls) .*[*?\[\]]", re.DOTALL)
_EXIT_CODES = {"grep": 1, "rg": 1, "which": 1, "type": 127, "command -v": 127, "ls": 2}


def convert_workflow(document: Document) -> tuple[dict[str, Any], list[FileProblem]]:
    """Return a workflow in today's form, and notes on what behaves differently.

    WorkflowError lists what has no counterpart. A file without ``ir_version`` is read as the older form too. What is
    wrong in both forms stays, for ``graphmill validate``.
    """
    problems = Problems(document)
    converted: dict[str, Any] = {}
    if isinstance(document.data, Mapping):
        converted = _Converter(problems).workflow(document.data, ())
    else:
        problems.add((), f"a workflow must be a mapping with a list of nodes, got {shown(document.data)}")
    problems.raise_if_any()
    return converted, problems.notes


class _Converter:
    """Converts block by block; ``at`` is a block's position in the document."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems

    def workflow(self, found: Mapping[str, Any], at: At) -> dict[str, Any]:
        if isinstance(found.get("ir"), Mapping) and set(found) <= _SAVED:
            inner = self.workflow(found["ir"], (*at, "ir"))
            return {**{key: found[key] for key in ("name", "description") if found.get(key)}, **inner}
        workflow = self._keys(found, at, _WORKFLOW)
        if isinstance(inputs := workflow.get("inputs"), Mapping):
            workflow["inputs"] = {name: self._input(rule, (*at, "inputs", name)) for name, rule in inputs.items()}
        if isinstance(nodes := workflow.get("nodes"), list):
            workflow["nodes"] = [self._node(node, (*at, "nodes", index)) for index, node in enumerate(nodes)]
        if isinstance(edges := workflow.get("edges"), list):
            workflow["edges"] = [self._block(edge, (*at, "edges", index), _EDGE) for index, edge in enumerate(edges)]
        if isinstance(outputs := workflow.get("outputs"), Mapping):
            workflow["outputs"] = {name: self._output(value, (*at, "outputs", name)) for name, value in outputs.items()}
        self._note_order(workflow, at)
        return workflow

    def _input(self, found: Any, at: At) -> Any:
        rule = self._block(found, at, _INPUT)
        if not isinstance(rule, dict):
            return rule
        if "default" not in rule:
            return {"required": True, **rule}  # required unless it says otherwise
        if rule.pop("required", True):
            self._note(at, "it has a default, so it may be left out; it was required before")
        return rule

    def _output(self, found: Any, at: At) -> Any:
        if not isinstance(found, Mapping):
            return found
        if found.get("stdout"):
            self._note((*at, "stdout"), "dropped: all outputs are printed")
        source = found.get("source")
        if not isinstance(source, str):
            self._problems.add(at, f"{self._name(at)}: 'source' must be text, got {shown(source)}")
            return None
        return source if "${" in source else f"${{{source}}}"

    def _node(self, found: Any, at: At) -> Any:
        node = self._block(found, at, _NODE)
        if not isinstance(node, dict):
            return node
        for key, keys in (("retry", _RETRY), ("loop", _LOOP)):
            if key in node:
                node[key] = self._block(node[key], (*at, key), keys)
        if isinstance(node.get("batch"), Mapping):
            _add_batch_defaults(node)
        if isinstance(node.get("params"), Mapping):
            written_as = "params" if "params" in found else "parameters"
            node["params"] = self._params(node.get("type"), dict(node["params"]), (*at, written_as))
        return node

    def _params(self, node_type: Any, params: dict[str, Any], at: At) -> dict[str, Any]:
        if node_type == "shell":
            self._convert_shell(params, at)
        elif node_type == "http":
            self._convert_http(params, at)
        elif node_type == "workflow" and isinstance(params.get("workflow"), Mapping):
            params["workflow"] = self.workflow(params["workflow"], (*at, "workflow"))
        return params

    def _convert_shell(self, params: dict[str, Any], at: At) -> None:
        ignores_errors = params.pop("ignore_errors", None)
        params.setdefault("strip_newline", True)
        if ignores_errors is True:
            params["ok_codes"] = list(_ALL_EXIT_CODES)
            self._note((*at, "ignore_errors"), "now ok_codes lists every exit code; a command killed by a signal fails")
        elif ignores_errors not in (None, False):
            self._refuse((*at, "ignore_errors"), f"must be true or false, got {shown(ignores_errors)}")
        elif "ok_codes" not in params and (found := _FINDS_NOTHING.search(str(params.get("command")))):
            name = next(filter(None, found.groups()))
            remedy = f"ok_codes: [0, {_EXIT_CODES[name]}] lets it pass"
            self._note((*at, "command"), f"now fails when {name!r} finds nothing; {remedy}")

    def _convert_http(self, params: dict[str, Any], at: At) -> None:
        token, key = params.pop("auth_token", None), params.pop("api_key", None)
        header = params.pop("api_key_header", None) or "X-API-Key"
        headers = params.get("headers") or {}
        if (token or key) and not isinstance(headers, Mapping):
            self._refuse((*at, "headers"), "must be a mapping, since a header with a credential is added")
        elif token and (key or params.get("auth") is not None):
            self._refuse((*at, "auth_token"), "there is a second credential; leave one of them out")
        elif token:
            params["auth"] = {"bearer": token}
            params["headers"] = _without(headers, "authorization")
        elif key and (not isinstance(header, str) or "${" in header):
            self._refuse((*at, "api_key_header"), f"must be the name of a header, got {shown(header)}")
        elif key:
            params["headers"] = {**_without(headers, header), header: key}

    def _note_order(self, workflow: Mapping[str, Any], at: At) -> None:
        """Note where other nodes run, or in another order, than before."""
        nodes = [node for node in workflow.get("nodes") or () if isinstance(node, Mapping)]
        edges = [edge for edge in workflow.get("edges") or () if isinstance(edge, Mapping)]
        if not edges and len(nodes) > 1:
            self._note((*at, "nodes"), "without edges all nodes run, in listed order; before, only the first did")
        reached = [edge.get("to") for edge in edges]
        if edges and workflow.get("start_node") is None:
            for index, node in enumerate(nodes):
                if index and node.get("id") not in reached:
                    self._note((*at, "nodes", index), "starts too, as no edge leads to it; before, only the first did")
        taken: list[tuple[Any, Any]] = []
        for index, edge in enumerate(edges):
            if (way := (edge.get("from"), edge.get("action") or "default")) in taken:
                message = f"all edges of node {way[0]!r} for {way[1]!r} are taken; before, only the last was"
                self._note((*at, "edges", index), message)
            taken.append(way)

    def _block(self, found: Any, at: At, keys: _Keys) -> Any:
        return self._keys(found, at, keys) if isinstance(found, Mapping) else found

    def _keys(self, found: Mapping[str, Any], at: At, keys: _Keys) -> dict[str, Any]:
        block: dict[str, Any] = {}
        for key, value in found.items():
            if key in keys.refused:
                self._refuse((*at, key), keys.refused[key])
            elif key in keys.dropped:
                if keys.dropped[key]:
                    self._note((*at, key), keys.dropped[key])
            elif (name := keys.renamed.get(key, key)) == key or name not in found:
                block[name] = value
        return block

    def _note(self, at: At, message: str) -> None:
        self._problems.note(at, f"{self._name(at)}: {message}", is_key=True)

    def _refuse(self, at: At, message: str) -> None:
        self._problems.add(at, f"{self._name(at)}: {message}", is_key=True)

    def _name(self, at: At) -> str:
        return self._problems.document.at_text(at)


def _add_batch_defaults(node: dict[str, Any]) -> None:
    """Write out what a batch did where nothing was said: one attempt, and always the same wait."""
    batch, retry = dict(node["batch"]), node.get("retry") or {}
    if not isinstance(retry, Mapping):
        return
    if "max_retries" not in batch and "attempts" not in retry:
        batch["max_retries"] = 1
    else:
        if "retry_wait" not in batch and "wait_s" not in retry:
            batch["retry_wait"] = 0
        node["retry"] = {"backoff": "fixed", **retry}
    node["batch"] = batch


def _without(headers: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {each: value for each, value in headers.items() if str(each).lower() != name.lower()}
