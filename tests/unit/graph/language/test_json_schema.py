import json
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.core.yaml import from_yaml
from graphmill.graph.language import grammar
from graphmill.graph.language.document import Document
from graphmill.graph.language.json_schema import workflow_schema
from graphmill.graph.language.problems import Problems
from graphmill.graph.language.reader import read_spec
from support.json_schema import is_valid

EXAMPLES = Path(__file__).parents[4] / "examples"


class Part(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    weight: float = 1.0


class Params(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    prompt: Annotated[str, msgspec.Meta(description="What is asked.")]
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] = 1.0
    effort: Literal["low", "high"] | None = None
    parts: list[Part] = []
    headers: dict[str, int] = {}
    extra: Any = None


class WorkflowParams(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    workflow: Annotated[str | dict[str, Any], msgspec.Meta(description="The child.")]
    inputs: dict[str, Any] = {}


class CodeParams(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    code: str | None = None
    function: str | None = None
    inputs: dict[str, Any] = {}
    limit: int = 1


class Other:
    class Params(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        x: int


LLM = SimpleNamespace(name="llm", Params=Params, summary="Asks a model.")
VALUE = SimpleNamespace(name="value", Params=None)
WORKFLOW = SimpleNamespace(name="workflow", Params=WorkflowParams, untemplated=frozenset({"workflow"}))
PYTHON = SimpleNamespace(name="python", Params=CodeParams, untemplated=frozenset({"code", "limit"}))
OTHER = SimpleNamespace(name="other", Params=Other.Params)
SCHEMA = workflow_schema([LLM, VALUE, WORKFLOW, PYTHON, OTHER], aliases={"code": "python"})


def node(kind="value", **keys):
    return {"nodes": [{"id": "n", "type": kind, **keys}]}


def test_the_schema_is_json_and_says_what_every_key_is_for():
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    for name in ("workflow", "input", "edge", "node", "retry", "batch", "loop"):
        assert all(part["description"] for part in SCHEMA["$defs"][name]["properties"].values()), name


def test_keys_ranges_and_defaults_are_those_of_the_tables():
    batch = SCHEMA["$defs"]["batch"]
    assert list(batch["properties"]) == list(grammar.BATCH)
    assert batch["oneOf"] == [{"required": ["items"]}, {"required": ["times"]}]
    assert batch["additionalProperties"] is False
    assert batch["properties"]["max_concurrent"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 1000,
        "default": 10,
        "description": "The most items that run at the same time.",
    }
    assert batch["properties"]["ordered"]["default"] is True
    assert SCHEMA["$defs"]["loop"]["properties"]["history"]["default"] == "past"


def test_every_reference_leads_somewhere():
    def references(part):
        entries = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        own = [part["$ref"]] if isinstance(part, dict) and isinstance(part.get("$ref"), str) else []
        return [*own, *(found for entry in entries for found in references(entry))]

    found = set(references(SCHEMA))
    assert {name.removeprefix("#/$defs/") for name in found} <= set(SCHEMA["$defs"])


def test_the_params_are_those_of_the_node_s_type():
    params = SCHEMA["$defs"]["params.llm"]
    assert (params["title"], params["description"]) == ("llm", "Asks a model.")
    assert params["properties"]["prompt"]["description"] == "What is asked."
    assert SCHEMA["$defs"]["node"]["properties"]["type"]["enum"] == [
        "llm",
        "other",
        "python",
        "code",
        "value",
        "workflow",
    ]


def test_the_schema_of_no_node_types_is_one_too():
    assert not is_valid(node(), workflow_schema([]))


@pytest.mark.parametrize(
    "data",
    [
        node(params={"any": ["thing"]}),
        node("llm", params={"prompt": "Hi"}),
        node("llm", params={"prompt": "Hi ${name}", "temperature": "${t}", "effort": "high", "extra": {"a": [1]}}),
        node("llm", params={"prompt": {"env": "PROMPT"}, "temperature": {"env": "T"}}),
        node(
            "llm",
            params={
                "prompt": "Hi",
                "parts": [{"weight": 2}, {"weight": "${w}"}, "${part}"],
                "headers": {"a": 1, "b": "${b}"},
            },
        ),
        node("llm", params={"prompt": "Hi", "parts": "${parts}"}),
        node("python", params={"function": "a:b", "inputs": {"x": "${y}"}}),
        node("code", params={"code": "print('${x}')"}),
        node("workflow", params={"workflow": "child.yaml", "inputs": {"a": "${b}"}}),
        node("workflow", params={"workflow": node("llm", params={"prompt": "Hi"})}),
        node("other", params={"x": 1}),
    ],
)
def test_params_may_hold_what_their_type_takes_or_templates_or_names_of_the_environment(data):
    assert is_valid(data, SCHEMA)


@pytest.mark.parametrize(
    "data",
    [
        node("llm", params={}),
        node("llm", params={"prompt": 5}),
        node("llm", params={"prompt": "Hi", "temperature": 3}),
        node("llm", params={"prompt": "Hi", "temperature": "warm"}),
        node("llm", params={"prompt": "Hi", "effort": "middling"}),
        node("llm", params={"prompt": "Hi", "promt": "Ho"}),
        node("llm", params={"prompt": "Hi", "parts": [{"wieght": 2}]}),
        node("llm", params={"prompt": "Hi", "parts": [{"weight": "much"}]}),
        node("llm", params={"prompt": "Hi", "headers": {"a": "one"}}),
        node("llm", params={"prompt": {"env": "A", "default": 1}}),
        node("python", params={"limit": "${n}"}),
        node("code", params={"limit": "${n}"}),
        node("workflow", params={"workflow": node("llm", params={})}),
        node("workflow", params={"workflow": 5}),
        node("other", params={"x": "one"}),
        node("gone"),
    ],
)
def test_params_that_their_type_does_not_take_are_refused(data):
    assert not is_valid(data, SCHEMA)


def test_the_example_of_the_repository_is_valid():
    data = from_yaml((EXAMPLES / "reviews.yaml").read_bytes())
    assert is_valid(data, SCHEMA)
    data["nodes"][0]["parms"] = {}
    assert not is_valid(data, SCHEMA)


# --- the schema and the checks say the same ---

VALUES = {
    "name": ["a", 5],
    "description": ["", []],
    "type": ["value", 5],
    "required": [True, "yes"],
    "from": ["a", "a-b", "a b", "", "größe", "über", "1a", "a.b"],
    "to": ["b", "-b", "b$", 1],
    "action": ["error", 3],
    "params": [{}, {"a": 1}, [], "x"],
    "timeout": [1, 0.5, 0, -1, "1", True, 1e9, 2e9],
    "effect": ["unsafe", "safe"],
    "on_ambiguous": ["retry", "fail"],
    "purpose": ["x", 1],
    "attempts": [1, 99, 0, 1.5],
    "wait_s": [0, 1.5, -1],
    "backoff": ["fixed", "none"],
    "cap_s": [5, 60, "60"],
    "items": ["${a}", [], [1], "a", {}, "${a", "${a}\n"],
    "times": [0, 3, "${n}", -1, 1.5, "3", True],
    "as": ["item", "a-b", "", 1],
    "error_handling": ["continue", "fail_fast", "stop"],
    "parallel": [True, 1],
    "max_concurrent": [1, 1000, 1001, 0, True],
    "max_retries": [1, 10, 11],
    "retry_wait": [0, 2.5, -0.1],
    "max_failures": [0, 3, 0.5, "10%", "5 %", -1, 1.5, "ten"],
    "ordered": [False, "no"],
    "max": [1, "${n}", 0, "n"],
    "until": [{}, {"a": "${b}"}, {"a": "b"}, "${a}"],
    "repeats": [{"a": "${b}"}, {"a": 1}],
    "similarity": [0.5, 1, 0, 2],
    "keep": [
        {"max": "${a}"},
        {"min": ["${a}", "${b}"]},
        {},
        {"best": "${a}"},
        {"max": "a"},
        {"max": []},
        {"max": ["${a}", 1]},
        {"max": "${a}", "min": "${b}"},
    ],
    "history": ["past", "my-past"],
    "budget_usd": [0.1, 0],
    "on_error": ["keep", "stop"],
    "start_node": ["n", "a b"],
    "outputs": [{}, {"a": "${n}"}, []],
}
FINE = {"required": True, "from": "a", "to": "b", "items": "${a}", "times": 2, "max": 3, "id": "n", "type": "value"}


def blocks(table, or_needed=None, **inner):
    """Give blocks in which most keys are right, so that one wrong key decides."""
    keys = {
        key: inner[key] if key in inner else st.sampled_from(VALUES[key])
        for key in table
        if key in VALUES or key in inner
    }
    needed = {
        key: (st.just(FINE[key]) | keys[key]) if key in FINE else keys[key]
        for key, rule in table.items()
        if rule.is_required or key == or_needed
    }
    optional = {key: keys[key] for key in keys if key not in needed}
    return st.lists(st.sampled_from(sorted(optional)), max_size=2, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({**needed, **{key: optional[key] for key in chosen}})
    ) | st.just({"unknown": 1})


nodes = blocks(
    grammar.NODE,
    id=st.sampled_from(["n", "a b", "über"]),
    retry=blocks(grammar.RETRY),
    batch=st.sampled_from(["items", "times"]).flatmap(lambda key: blocks(grammar.BATCH, or_needed=key)),
    loop=blocks(grammar.LOOP),
)
inputs = blocks(grammar.INPUT, type=st.sampled_from(["string", "any", "str"]), default=st.sampled_from(["a", None]))
workflows = blocks(
    grammar.WORKFLOW,
    nodes=st.lists(nodes, max_size=2) | st.just([{"id": "n", "type": "value"}]),
    inputs=st.dictionaries(st.sampled_from(["a", "b-c", "d e"]), inputs, max_size=2) | st.just([]),
    edges=st.lists(blocks(grammar.EDGE), max_size=2),
)
ACROSS_KEYS = ("is less than wait_s",)


@settings(max_examples=500)
@given(workflows)
def test_what_the_checks_take_the_schema_takes_and_nothing_else(data):
    document = Document.from_data(data)
    problems = Problems(document)
    read_spec(document, problems=problems)
    told = [problem.message for problem in problems.found if not any(words in problem.message for words in ACROSS_KEYS)]
    assert is_valid(data, SCHEMA) is not bool(told), (data, told)
