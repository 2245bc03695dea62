"""Random workflows that are valid, as data, each with inputs for one job.

Every value has a kind, so that functions mostly get what they can work with, and whatever may not be there is asked for with ``??``.
"""

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

MODULE = "support.workflow_functions"
TYPES = {"text": {"type": "string"}, "ints": {"type": "array"}}

# name -> kinds of its parameters, kind of its result
FUNCTIONS = {
    "add_one": ({"n": "int"}, "int"),
    "double": ({"n": "int"}, "int"),
    "total": ({"numbers": "ints"}, "int"),
    "length": ({"value": "text"}, "int"),
    "concatenate": ({"left": "text", "right": "int"}, "text"),
    "describe": ({"value": "any"}, "text"),
    "count_to": ({"n": "int"}, "ints"),
    "array_text": ({"n": "int"}, "array_text"),
    "object_text": ({"n": "int"}, "object_text"),
    "falsy": ({"n": "int"}, "any"),
    "is_given": ({"value": "opaque"}, "int"),
    "pluck": ({"rows": "rows"}, "any"),
    "spoil": ({"numbers": "some_ints"}, "ints"),
    "critique": ({"n": "int"}, "text"),
    "fail_on_odd": ({"n": "int"}, "int"),
    "fail_on_thirds": ({"n": "int"}, "int"),
    "break_on_thirds": ({"n": "int"}, "int"),
    "flaky": ({"n": "int", "times": "few"}, "int"),
}

# What else may stand where a kind is asked for. `opaque` holds words that the language leaves open: it may be given out, not looked into.
WIDER = {
    "any": ("any", "int", "text", "ints", "array_text", "object_text"),
    "opaque": ("opaque", "rows", "any", "int", "text", "ints"),
    "text": ("text", "array_text"),
}

ints = st.integers(-3, 12)
texts = st.sampled_from(["", "a", "Zoë", "two words", "$${x}", "a $$ b", "{}", "0"])
DATA = {"text": texts | st.sampled_from(["${a}", "${", "$${b}"])}  # what looks like a template and is none
LITERALS = {
    "int": ints,
    "text": texts,
    "ints": st.lists(ints, max_size=5),
    "some_ints": st.lists(ints, min_size=1, max_size=4),
    "any": st.sampled_from([None, True, False, 0, 1.5, "", "x", [], {}, [None], {"k": [1, "é"]}]),
    "opaque": st.none() | ints,
    "rows": st.just([]) | st.lists(st.builds(lambda n: {"result": n}, ints), max_size=3),
    "array_text": st.sampled_from(["[]", "[1, 2]", "[0]\n"]),
    "object_text": st.sampled_from(['{"n": 1, "list": []}', '{"n": -2, "list": [5]}']),
    "few": st.sampled_from([0, 1, 1, 2, 3]),
}
JSON_LITERALS = {
    "int": ("0", "1", "-2"),
    "text": ('""', '"none"', '"a } ?? b"'),
    "ints": ("[]", "[3, 1]"),
    "some_ints": ("[4]",),
    "any": ("null", "false", '{"k": []}'),
    "opaque": ("null",),
    "rows": ("[]",),
    "array_text": ('"[]"', '"[7]"'),
    "object_text": ('"{}"',),
    "few": ("1",),
}


@dataclass(frozen=True)
class Ref:
    """Something that can be looked up; one that is not sure needs an alternative."""

    path: str
    kind: str
    is_sure: bool = True


@dataclass
class Vertex:
    """A node as far as it is made, and what may be read of it where."""

    node: dict
    outputs: dict  # path below its id -> kind
    maybe: frozenset = frozenset()  # those of the outputs that may be missing though the node succeeded
    actions: tuple = ("default",)
    before: dict = field(default_factory=dict)  # id of an ancestor -> how it may have ended: ok, error
    sure: frozenset = frozenset()  # ids of ancestors that have succeeded wherever this runs

    @property
    def id(self):
        return self.node["id"]


@st.composite
def workflows(draw, depth=2):
    """A workflow and the inputs of one job."""
    kinds = draw(
        st.dictionaries(
            st.sampled_from(["a", "b", "long-name", "_d"]), st.sampled_from(["int", "text", "ints"]), max_size=3
        )
    )
    workflow, _ = draw(_bodies(kinds, depth, most=7))
    given = [name for name in kinds if _is_needed(workflow, name) or draw(st.booleans())]
    return workflow, {name: draw(DATA.get(kinds[name], LITERALS[kinds[name]])) for name in given}


def _is_needed(workflow, name):
    return workflow["inputs"][name].get("required", False)


@st.composite
def _bodies(draw, kinds, depth, most):
    """A workflow with these inputs, and the kinds of its outputs."""
    workflow = {"name": "random"} if draw(st.booleans()) else {}
    workflow["inputs"] = {name: draw(_rules(kind)) for name, kind in kinds.items()}
    count = draw(st.integers(1, most))
    is_chain = count == 1 or draw(st.booleans())
    inputs = [Ref(name, kind) for name, kind in kinds.items()]
    vertices, edges = [], []
    for number in range(count):
        incoming = [] if is_chain else draw(_incoming(vertices))
        before, sure = _ancestry(vertices, incoming, is_chain=is_chain)
        refs = inputs + [
            ref
            for vertex in vertices
            for ref in _readable(vertex, before.get(vertex.id, ()), is_sure=vertex.id in sure)
        ]
        is_last = number == count - 1
        vertex = draw(
            _vertices(
                f"step-{number + 1}" if number % 2 else f"n{number + 1}",
                refs,
                depth,
                can_branch=not is_chain and not is_last,
                can_end=is_chain and is_last,
            )
        )
        vertices.append(replace(vertex, before=before, sure=sure))
        edges += [{"from": source, "to": vertex.id, **action} for source, action in incoming]
    workflow["nodes"] = [vertex.node for vertex in vertices]
    if not is_chain:
        workflow["edges"] = draw(st.permutations(edges))
        starts = [vertex.id for vertex in vertices if not vertex.before]
        if len(starts) == 1 and draw(st.booleans()):
            workflow["start_node"] = starts[0]
        if draw(st.booleans()):
            workflow["nodes"] = draw(st.permutations(workflow["nodes"]))
    if is_chain and vertices[-1].outputs and draw(st.integers(0, 5)) == 0:
        return workflow, {path: kind for path, kind in vertices[-1].outputs.items() if path not in vertices[-1].maybe}
    outputs = draw(_outputs(inputs + _readable_at_the_end(vertices, edges, is_chain=is_chain)))
    workflow["outputs"] = {name: written for name, (written, _) in outputs.items()}
    return workflow, {name: kind for name, (_, kind) in outputs.items()}


@st.composite
def _rules(draw, kind):
    if draw(st.booleans()):
        return {"required": True}
    rule = {"default": draw(LITERALS[kind].filter(lambda value: "$" not in str(value)))}
    return {**rule, **draw(st.sampled_from([{}, TYPES.get(kind, {})]))}


# Which nodes come before which.


@st.composite
def _incoming(draw, vertices):
    """Edges into the next node: from none, one or a few of those before it; into the second always one, so that there are edges."""
    if not vertices or (len(vertices) > 1 and draw(st.integers(0, 9)) == 0):
        return []
    chosen = draw(st.lists(st.sampled_from(range(len(vertices))), min_size=1, max_size=3, unique=True))
    return [(vertices[index].id, action) for index in chosen for action in draw(_actions(vertices[index]))]


@st.composite
def _actions(draw, vertex):
    """One or two actions; a branch handles no errors."""
    weighted = ["default", "default", "error"] if vertex.actions == ("default",) else vertex.actions
    chosen = draw(
        st.lists(st.sampled_from(weighted), min_size=1, max_size=draw(st.sampled_from([1, 1, 1, 2])), unique=True)
    )
    return [{} if action == "default" and draw(st.booleans()) else {"action": action} for action in chosen]


def _ancestry(vertices, incoming, *, is_chain):
    if is_chain:
        ids = [vertex.id for vertex in vertices]
        return {name: {"ok"} for name in ids}, frozenset(ids)
    by_id = {vertex.id: vertex for vertex in vertices}
    before, sure = {}, []
    for source, action in incoming:
        is_error = action.get("action") == "error"
        before.setdefault(source, set()).add("error" if is_error else "ok")
        for name, ends in by_id[source].before.items():
            before.setdefault(name, set()).update(ends)
        sure.append(by_id[source].sure | (set() if is_error else {source}))
    return before, frozenset.intersection(*map(frozenset, sure)) if sure else frozenset()


def _readable(vertex, ends, *, is_sure):
    refs = [Ref(vertex.id, "opaque", is_sure)] if ends and vertex.outputs else []
    if "ok" in ends:
        refs += [
            Ref(f"{vertex.id}.{path}", kind, is_sure and path not in vertex.maybe)
            for path, kind in vertex.outputs.items()
        ]
    if "error" in ends:
        refs.append(Ref(f"{vertex.id}.error", "opaque", is_sure=False))
    return refs


def _readable_at_the_end(vertices, edges, *, is_chain):
    """What outputs may read: anything, but only what always runs and never fails is sure."""
    handled = {edge["from"] for edge in edges if edge.get("action") == "error"}
    refs = []
    for vertex in vertices:
        is_sure = is_chain or (not vertex.before and vertex.id not in handled)
        refs += _readable(vertex, {"ok", "error"} if vertex.id in handled else {"ok"}, is_sure=is_sure)
    return refs


# Values.


@st.composite
def _values(draw, kind, refs, *, least_literal=0):
    """A value of a kind, as written: a literal, or a template."""
    fitting = [ref for ref in refs if ref.kind in WIDER.get(kind, (kind,))]
    paths = _paths_into_text(refs) if kind == "int" else []
    if (fitting or paths) and draw(st.integers(0, 4)) > least_literal:
        ref = draw(st.sampled_from(fitting + paths))
        if kind == "text" and draw(st.booleans()):
            return f"<{draw(_template(ref, fitting, kind))}> {draw(texts)}"
        return draw(_template(ref, fitting, kind))
    return draw(LITERALS[kind])


def _paths_into_text(refs):
    found = []
    for ref in refs:
        if ref.kind == "object_text":
            found += [Ref(f"{ref.path}.n", "int", ref.is_sure), Ref(f"{ref.path}.list[-1]", "int", is_sure=False)]
        if ref.kind in ("ints", "array_text"):
            found += [Ref(f"{ref.path}[{index}]", "int", is_sure=False) for index in (0, -1, 2)]
            found += [
                Ref(f"{ref.path}[${{{other.path}}}]", "int", is_sure=False)
                for other in refs
                if other.kind == "int" and "[" not in other.path
            ]
    return found


@st.composite
def _template(draw, ref, others, kind):
    if ref.is_sure and draw(st.integers(0, 3)) > 0:
        return f"${{{ref.path}}}"
    alternatives = [
        ref.path,
        *(other.path for other in others if other.path != ref.path and draw(st.integers(0, 5)) == 0),
    ][:3]
    return "${" + " ?? ".join([*alternatives, draw(st.sampled_from(JSON_LITERALS[kind]))]) + "}"


@st.composite
def _outputs(draw, refs):
    found = {}
    for index in range(draw(st.integers(1, 5))):
        if not refs or draw(st.integers(0, 9)) == 0:
            kind = draw(st.sampled_from(["int", "text", "ints"]))
            found[f"out{index}"] = (draw(_values(kind, refs)), kind)
        else:
            whole = [ref for ref in refs if "." not in ref.path and ref.kind == "opaque"]
            ref = draw(st.sampled_from(whole if whole and draw(st.booleans()) else refs))
            found[f"out{index}"] = (draw(_template(ref, [], ref.kind)), ref.kind)
    return found


# Nodes.


@st.composite
def _vertices(draw, name, refs, depth, *, can_branch, can_end):
    kinds = ["python"] * 4 + ["value"] + ["workflow"] * (2 if depth > 0 else 0) + ["branch"] * (2 if can_branch else 0)
    kind = draw(st.sampled_from(kinds))
    if can_end and draw(st.integers(0, 11)) == 0:
        return Vertex({"id": name, "type": "end", "params": draw(_ends(refs))}, {}, actions=())
    if kind == "branch":
        params, actions = draw(_branches(refs))
        return Vertex({"id": name, "type": "branch", "params": params}, {}, actions=actions)
    node = {"id": name, "type": kind}
    if draw(st.integers(0, 4)) == 0:
        node["retry"] = {"attempts": draw(st.integers(1, 4)), "wait_s": 0}
    return draw(_blocks(node, refs, depth))


@st.composite
def _branches(draw, refs):
    on = draw(_values("int", refs, least_literal=-1))
    cases = {
        str(number): draw(st.sampled_from(["low", "high"]))
        for number in draw(st.lists(st.integers(-1, 4), min_size=1, unique=True))
    }
    default = draw(st.sampled_from(["low", "other", "default"]))
    return {"on": on, "cases": cases, "default": default}, tuple(sorted({*cases.values(), default}))


@st.composite
def _ends(draw, refs):
    endings = [
        {"status": "failed", "reason": "so it is"},
        {"status": "succeeded", "flag": "partial"},
        "failed",
        "succeeded",
    ]
    cases = {str(number): draw(st.sampled_from(endings)) for number in range(3)}
    return {"on": draw(_values("int", refs)), "cases": cases, "default": "succeeded"}


@st.composite
def _blocks(draw, node, refs, depth):
    """A node with or without a batch and a loop around what its type does."""
    has_batch, has_loop = draw(
        st.sampled_from([(False, False)] * 3 + [(True, False)] * 3 + [(False, True)] * 2 + [(True, True)])
    )
    inner = list(refs)
    batch = loop = None
    if has_batch:
        batch, more = draw(_batches(refs))
        inner += more * 3
    if has_loop:
        history = draw(
            st.sampled_from(["rounds_so_far"] if any(ref.path == "past" for ref in refs) else ["past", "rounds_so_far"])
        )
        inner += [
            Ref("__round__", "int"),
            Ref(history, "rows" if node["type"] == "python" else "opaque"),
            Ref(history, "opaque"),
        ]
        inner += [Ref(f"{history}[-1].result", "int", is_sure=False)] if node["type"] == "python" else []
    params, outputs = draw(PARAMS[node["type"]](inner, depth))
    vertex = Vertex({**node, "params": params}, outputs)
    if has_loop:
        loop, vertex = draw(_loops(vertex, refs + (more if has_batch else []), history))
        vertex.node["loop"] = loop
    if has_batch:
        vertex = _batched(vertex, batch)
    return vertex


@st.composite
def _pythons(draw, refs, depth):
    name = draw(st.sampled_from(sorted(FUNCTIONS)))
    parameters, result = FUNCTIONS[name]
    inputs = {parameter: draw(_values(kind, refs)) for parameter, kind in parameters.items()}
    return {"function": f"{MODULE}:{name}", "inputs": inputs}, {"result": result}


@st.composite
def _plain_values(draw, refs, depth):
    kinds = draw(
        st.dictionaries(
            st.sampled_from(["x", "y", "result"]), st.sampled_from(["int", "text", "ints"]), min_size=1, max_size=3
        )
    )
    return {name: draw(_values(kind, refs)) for name, kind in kinds.items()}, kinds


@st.composite
def _children(draw, refs, depth):
    kinds = draw(
        st.dictionaries(st.sampled_from(["a", "c", "past"]), st.sampled_from(["int", "text", "ints"]), max_size=2)
    )
    workflow, outputs = draw(_bodies(kinds, depth - 1, most=3))
    workflow.pop("name", None)
    inputs = {
        name: draw(_values(kind, refs))
        for name, kind in kinds.items()
        if _is_needed(workflow, name) or draw(st.booleans())
    }
    return {"workflow": workflow, "inputs": inputs}, outputs


PARAMS = {"python": _pythons, "value": _plain_values, "workflow": _children}


# Batch and loop.


@st.composite
def _batches(draw, refs):
    """A batch block, and what its items' scope has more."""
    kind = draw(st.sampled_from(["ints", "ints", "array_text", "inline", "falsy"]))
    if kind == "inline":
        items, item = draw(st.lists(_values("int", refs), max_size=5)), "int"
    elif kind == "falsy":
        items, item = draw(st.permutations([0, "", False, None, []])), "any"
    else:
        items, item = draw(_reference(kind, refs)), "int"
    alias = draw(st.sampled_from(["item", "item", "thing"]))
    batch = {"items": items} if alias == "item" else {"items": items, "as": alias}
    if draw(st.booleans()):
        batch |= {"error_handling": "continue"}
        if draw(st.integers(0, 3)) == 0:
            batch["max_failures"] = draw(st.integers(0, 3))
    if draw(st.booleans()):
        batch |= {"parallel": True, "max_concurrent": draw(st.sampled_from([1, 2, 10]))}
    if draw(st.integers(0, 3)) == 0:
        batch |= {"max_retries": draw(st.integers(1, 4)), "retry_wait": 0}
    more = [Ref(alias, item), Ref("__index__", "int")]
    return batch, more + ([Ref(f"{alias}.n", "int", is_sure=False)] if item == "any" else [])


@st.composite
def _reference(draw, kind, refs):
    """Items that are one reference; a list as it is, where there is none."""
    fitting = [ref for ref in refs if ref.kind == kind]
    return draw(_template(draw(st.sampled_from(fitting)), [], kind)) if fitting else draw(LITERALS["ints"])


def _batched(vertex, batch):
    is_plain = vertex.node["type"] != "python" and "loop" not in vertex.node and "opaque" not in vertex.outputs.values()
    has_result = "result" in vertex.outputs
    outputs = {
        "results": "rows"
        if has_result and "opaque" not in vertex.outputs.values()
        else "any"
        if is_plain
        else "opaque",
        "count": "int",
        "success_count": "int",
        "error_count": "int",
        "cancelled_count": "int",
        "errors": "opaque",
        "outcomes": "opaque",
        "batch_metadata": "opaque",
        "outcomes[0].status": "text",
    }
    for path, kind in vertex.outputs.items():
        outputs[f"outcomes[-1].result.{path}"] = kind
        if batch.get("error_handling") != "continue":
            outputs[f"results[0].{path}"] = kind
    maybe = frozenset(path for path in outputs if "[" in path)
    return Vertex({**vertex.node, "batch": batch}, outputs, maybe)


@st.composite
def _loops(draw, vertex, refs, history):
    """A loop block around a node; its references reach into the round only where it is sure that something is there."""
    found = {path: kind for path, kind in vertex.outputs.items() if path not in vertex.maybe}
    numbers = [f"${{round.{path}}}" for path, kind in found.items() if kind == "int"]
    words = [f"${{round.{path}}}" for path, kind in found.items() if kind in ("text", "int")]
    loop = {"max": draw(st.integers(1, 4))}
    if draw(st.booleans()) and (limits := [ref for ref in refs if ref.path.startswith("__")]):
        loop["max"] = draw(_template(limits[0], [], "few"))  # 0 at the first item, which is refused at run time
    if history != "past":
        loop["history"] = history
    if words and draw(st.booleans()):
        loop["until"] = {draw(st.sampled_from(["passed", "done"])): draw(st.sampled_from(words))}
    if words and draw(st.booleans()):
        loop["repeats"] = {"circular": draw(st.sampled_from(words))}
    if numbers and draw(st.booleans()):
        keys = draw(st.sampled_from(numbers) | st.lists(st.sampled_from(numbers), min_size=1, max_size=2))
        loop["keep"] = {draw(st.sampled_from(["max", "min"])): keys}
    if draw(st.booleans()):
        loop["on_error"] = draw(st.sampled_from(["keep", "fail"]))
    is_python = vertex.node["type"] == "python"
    outputs = {f"best.{path}": kind for path, kind in vertex.outputs.items()}
    outputs |= {"best_round": "int", "round_count": "int", "stop": "text", "rounds": "rows" if is_python else "opaque"}
    return loop, Vertex(vertex.node, outputs)
