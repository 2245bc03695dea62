"""A naive interpreter of the workflow language: one thing after the other, in the plainest way, to judge the real one by.

It knows no time, no journal and no concurrency, takes workflows to be valid, and retries nothing: what fails in an attempt would
fail in each, but for functions that say by ``fails_first`` how often they do, and by ``in_the_end`` what they give then.
"""

import asyncio
import importlib
import inspect
import json
import re
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import graphmill as gm
from support.expectation import AtLeast, Containing, Unsaid
from support.naive_template import Missing, as_text, opened, resolve

_PERMANENT = (gm.Permanent, ArithmeticError, TypeError, AttributeError)


@dataclass(frozen=True)
class Outcome:
    """How a job ended; ``error_node`` is the path of the node that failed it."""

    status: str
    outputs: Any = None
    error_node: str | None = None
    flags: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Failed(Exception):  # noqa: N818
    """A failure that has used up its attempts; ``message`` is None where the language does not give its words."""

    kind: str = "permanent"
    message: str | None = None
    attempts: Any = Unsaid()  # noqa: RUF009
    node: str = ""


@dataclass(frozen=True)
class Step:
    """What a node gives: its output, its action, its flags."""

    output: Any
    action: str = "default"
    flags: frozenset[str] = frozenset()


def interpret(workflow, inputs, functions=None, *, attempts=3):
    """Run one job; ``attempts`` is what the policy says, ``functions`` are found before any that could be imported."""
    try:
        step = _Interpreter(functions or {}).workflow(workflow, inputs, attempts)
    except Failed as failure:
        return Outcome("failed", error_node=failure.node)
    return Outcome("succeeded", step.output, flags=step.flags)


class Unclear(Exception):  # noqa: N818
    """What this workflow comes to depends on what happens to be done when something fails."""


class _Interpreter:
    def __init__(self, functions):
        self.functions = functions

    def workflow(self, workflow, inputs, attempts):
        self.text = json.dumps(workflow)
        store = {name: rule.get("default") for name, rule in workflow.get("inputs", {}).items()}
        store.update({name: inputs[name] for name in store if name in inputs})
        flags = set()
        edges = workflow.get("edges")
        fired = []
        for node in _ordered(workflow["nodes"], edges):
            if not _is_due(node, workflow, fired):
                continue
            is_handled = any(edge["from"] == node["id"] and edge.get("action") == "error" for edge in edges or [])
            step = self.handled(node, store, attempts) if is_handled else self.named(node, store, attempts)
            store[node["id"]] = step.output
            flags |= step.flags
            fired += [
                edge
                for edge in edges or []
                if edge["from"] == node["id"] and edge.get("action", "default") == step.action
            ]
        return Step(self.outputs(workflow, store), flags=frozenset(flags))

    def outputs(self, workflow, store):
        try:
            return resolve(workflow["outputs"], store) if "outputs" in workflow else store[workflow["nodes"][-1]["id"]]
        except Missing as missing:
            raise Failed(node="outputs") from missing

    def handled(self, node, store, attempts):
        """Run a node that has an error edge."""
        try:
            return self.named(node, store, attempts)
        except _Ended:
            raise
        except Failed:
            if "batch" in node and re.search(
                r'(?<![\w"-])' + re.escape(node["id"]) + r'(?!\.error(?![\w-])|[\w"-])', self.text
            ):
                raise Unclear from None  # what its other items have come to can be read too
            return Step(AtLeast(error=Unsaid()), "error")

    def named(self, node, store, attempts):
        """Run a node; say of a failure where it was."""
        try:
            return self.node(node, store, attempts)
        except Missing as missing:
            raise Failed(node=node["id"]) from missing
        except Failed as failure:
            raise replace(failure, node="/".join(filter(None, [node["id"], failure.node]))) from failure

    def node(self, node, store, attempts):
        attempts = node.get("retry", {}).get("attempts") or attempts
        if "batch" in node:
            return self.batch(node, store, node["batch"].get("max_retries") or attempts)
        return self.repeated(node, store, attempts)

    def repeated(self, node, store, attempts):
        return self.loop(node, store, attempts) if "loop" in node else self.once(node, store, attempts)

    # What a node's type does.

    def once(self, node, scope, attempts):
        run = getattr(self, f"run_{node['type']}")
        return run(node.get("params", {}), scope, attempts)

    def run_value(self, params, scope, attempts):
        return Step(resolve(params, scope))

    def run_workflow(self, params, scope, attempts):
        text = self.text
        try:
            return self.workflow(params["workflow"], resolve(params.get("inputs", {}), scope), attempts)
        except Failed as failure:
            raise Failed(failure.kind, failure.message, Unsaid(), failure.node) from failure
        finally:
            self.text = text

    def run_branch(self, params, scope, attempts):
        return Step({}, _chosen(params, scope))

    def run_end(self, params, scope, attempts):
        case = _chosen(params, scope)
        case = {"status": case} if isinstance(case, str) else case
        if case.get("status") == "failed":
            raise _Ended("permanent", case.get("reason"))
        return Step({}, flags=frozenset([case["flag"]] if "flag" in case else []))

    def run_python(self, params, scope, attempts):
        function = self.functions.get(params["function"]) or _imported(params["function"])
        inputs = deepcopy(resolve(params.get("inputs", {}), scope))
        if hasattr(function, "fails_first"):
            if function.fails_first(**inputs) >= attempts:
                raise Failed("transient", None, attempts)
            function = function.in_the_end
        return Step({"result": _called(function, inputs, attempts)})

    run_code = run_python

    # For each.

    def batch(self, node, store, attempts):
        rule = node["batch"]
        items = _items(rule["items"], store)
        tolerated = _tolerated(rule, len(items))
        ends, failures, flags = [], [], set()
        for index, written in enumerate(items):
            if len(failures) > tolerated:
                ends.append("cancelled")
                continue
            items[index] = None
            try:
                if isinstance(rule["items"], list):
                    items[index] = _named(written, store)
                else:
                    items[index] = written
                scope = {**store, rule.get("as", "item"): items[index], "__index__": index}
                step = self.named_item(node, scope, attempts)
            except Failed as failure:
                failures.append(failure)
                ends.append(failure)
            else:
                flags |= step.flags
                ends.append(step.output)
        if len(failures) > tolerated or (failures and len(failures) == len(items)):
            raise replace(failures[0], message=None, attempts=Unsaid())
        return Step(_batch_output(rule, items, ends), flags=frozenset(flags | ({"degraded"} if failures else set())))

    def named_item(self, node, scope, attempts):
        try:
            return self.repeated(node, scope, attempts)
        except Missing as missing:
            raise Failed from missing

    # Again until.

    def loop(self, node, store, attempts):
        rule = node["loop"]
        most = resolve(rule["max"], store)
        if type(most) is not int or not 1 <= most <= 1000:
            raise Failed
        rounds, flags, stop = [], set(), None
        while stop is None:
            scope = {**store, rule.get("history", "past"): list(rounds), "__round__": len(rounds) + 1}
            try:
                step = self.once(node, scope, attempts)
            except (Failed, Missing):
                if rule.get("on_error", "fail") == "fail" or not rounds:
                    raise
                stop = "error"
            else:
                rounds.append(step.output)
                flags |= step.flags
                stop = _stop(rule, store, rounds, most)
        best = _best(rule, store, rounds)
        output = {
            "best": rounds[best],
            "best_round": best + 1,
            "rounds": rounds,
            "round_count": len(rounds),
            "stop": stop,
            "error": Unsaid() if stop == "error" else None,
        }
        return Step(output, flags=frozenset(flags))


class _Ended(Failed):
    """An ``end`` node says that the workflow has failed."""


def _ordered(nodes, edges):
    """Give the nodes so that each comes after all before it; without edges, as they are listed."""
    left, ordered = list(nodes), []
    while left:
        waiting = {node["id"] for node in left}
        ready = next(
            node
            for node in left
            if not any(edge["to"] == node["id"] and edge["from"] in waiting for edge in edges or [])
        )
        left.remove(ready)
        ordered.append(ready)
    return ordered


def _is_due(node, workflow, fired):
    if workflow.get("edges") is None:
        return True
    if "start_node" in workflow:
        is_start = workflow["start_node"] == node["id"]
    else:
        is_start = not any(edge["to"] == node["id"] for edge in workflow["edges"])
    return is_start or any(edge["to"] == node["id"] for edge in fired)


def _imported(name):
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def _called(function, inputs, attempts):
    try:
        value = function(**inputs)
        return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value
    except Exception as error:
        is_permanent = isinstance(error, _PERMANENT)
        raise Failed(
            "permanent" if is_permanent else "transient", str(error), 1 if is_permanent else attempts
        ) from error


async def _awaited(value):
    return await value


def _chosen(params, scope):
    """Give the case of a value, by its text; a value that has none is a failure, unless there is a default."""
    value = resolve(params["on"], scope)
    case = params["cases"].get("null" if value is None else as_text(value), params.get("default"))
    if case is None:
        raise Failed
    return case


def _items(written, store):
    """Give the items, or, of an array that is written out, what is to be resolved when an item begins."""
    items = written if isinstance(written, list) else opened(resolve(written, store))
    if not isinstance(items, list):
        raise Failed
    return list(items)


def _named(written, store):
    try:
        return resolve(written, store)
    except Missing as missing:
        raise Failed from missing


def _tolerated(rule, count):
    """Tell how many items may fail without an end to the batch."""
    if rule.get("error_handling", "fail_fast") == "fail_fast":
        return 0
    most = rule.get("max_failures")
    if most is None:
        return count
    return most if isinstance(most, int) else most * count


def _batch_output(rule, items, ends):
    results, errors, outcomes = [], [], []
    for index, (item, end) in enumerate(zip(items, ends, strict=True)):
        if isinstance(end, Failed):
            said = Unsaid() if end.message is None else Containing(end.message)
            errors.append({"index": index, "item": item, "error": said, "kind": end.kind, "attempts": end.attempts})
            outcomes.append(AtLeast(status="failed", error=Unsaid()))
        else:
            results.append({**end, "item": item, "original_index": index})
            outcomes.append(AtLeast(status="succeeded", result=AtLeast(end)))
    return {
        "results": results,
        "errors": errors,
        "outcomes": outcomes,
        "count": len(items),
        "success_count": len(results),
        "error_count": len(errors),
        "cancelled_count": 0,
        "batch_metadata": _metadata(rule),
    }


def _metadata(rule):
    is_parallel = rule.get("parallel", False)
    return AtLeast(
        parallel=is_parallel,
        max_concurrent=rule.get("max_concurrent", 10) if is_parallel else Unsaid(),
        max_retries=rule.get("max_retries", Unsaid()),
        retry_wait=rule.get("retry_wait", Unsaid()),
        execution_mode="parallel" if is_parallel else "sequential",
        timing=Unsaid(),
    )


def _stop(rule, store, rounds, most):
    """Say why a loop ends after this round; None if it goes on."""
    now = {**store, "round": rounds[-1]}
    for reason, reference in rule.get("until", {}).items():
        value = resolve(reference, now)
        if value and not (isinstance(value, str) and value.strip().lower() == "false"):
            return reason
    for reason, reference in rule.get("repeats", {}).items():
        text = as_text(resolve(reference, now))
        earlier = [as_text(resolve(reference, {**store, "round": output})) for output in rounds[:-1]]
        if any(_is_alike(text, other, rule.get("similarity", 0.9)) for other in earlier):
            return reason
    return "max_rounds" if len(rounds) == most else None


def _is_alike(text, other, similarity):
    one, two = Counter(_pairs(text)), Counter(_pairs(other))
    return text == other or 2 * (one & two).total() >= similarity * (one.total() + two.total())


def _pairs(text):
    words = ["", *re.findall(r"\w+|[^\w\s]", text), ""]
    return [tuple(words[number : number + 2]) for number in range(len(words) - 1)]


def _best(rule, store, rounds):
    """Give the position of the best round: the first of those that are equally good, the last where nothing says what is good."""
    if "keep" not in rule:
        return len(rounds) - 1
    ((wanted, keys),) = rule["keep"].items()
    values = [resolve(keys, {**store, "round": output}) for output in rounds]
    return values.index(max(values) if wanted == "max" else min(values))
