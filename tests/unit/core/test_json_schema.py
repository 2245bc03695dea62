"""JSON Schema: what fits, what does not and why, and which schemas are refused."""

import subprocess
import sys

import pytest

import graphmill as gm
from graphmill.core.json_schema import JsonSchema

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}, "age": {"type": ["integer", "null"], "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}
TREE = {
    "$ref": "#/$defs/node",
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["v"]}},
}


def nested(levels):
    value = {"v": 1}
    for _ in range(levels - 1):
        value = {"v": 1, "next": value}
    return value


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (PERSON, {"name": "Ada", "age": 3.0}),
        ({"enum": [1, "a", None, {"b": 1, "c": 2}]}, {"c": 2, "b": 1}),
        ({"const": 10**40}, 10**40),
        ({"format": "email", "x-order": 1}, "no mail"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "format": "email"}, "no mail"),
        ({"properties": {"min": {"type": "integer"}, "requried": True}}, {"min": 1}),  # names, not keywords
        (TREE, nested(200)),
    ],
)
def test_what_fits(schema, value):
    assert JsonSchema(schema).problem(value) is None


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        (PERSON, [], '[] is not of type "object"'),
        (PERSON, {"name": "a", "age": True}, 'age: true is not of types "null", "integer"'),
        (PERSON, {"nme": "a", "name": "b"}, "'nme' was unexpected"),
        ({"items": {"properties": {"a": {"type": "string"}}}}, [{}, {"a": 2}], '[1].a: 2 is not of type "string"'),
        ({"anyOf": [{"type": "null"}, PERSON]}, {"name": 1}, "'anyOf' keyword; nearest: name: 1 is not of type"),
        ({"oneOf": [{"type": "integer"}, {"minimum": 0}]}, 1, "more than one"),
        ({"unevaluatedProperties": False, "properties": {"a": {}}}, {"b": 1}, "'b' was unexpected"),
        (TREE, {"v": 1, "next": {}}, 'next: "v" is a required property'),
        (TREE, nested(201), "deeper than 200 levels"),
        (TREE, nested(100_000), "deeper than 200 levels"),
        ({"type": "string"}, "\ud83d", "not valid Unicode"),
    ],
)
def test_what_does_not_fit_is_reported_with_its_path(schema, value, problem):
    assert problem in JsonSchema(schema).problem(value)


def test_a_long_value_is_shortened_and_what_is_wrong_with_it_is_not():
    problem = JsonSchema({"properties": {"a": {"type": "integer"}}}).problem({"a": "x" * 10_000})
    assert problem.startswith('a: "xxx')
    assert problem.endswith('x" is not of type "integer"')
    assert len(problem) < 500


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"requried": ["a"]}, "unknown keyword 'requried' (did you mean 'required'?)"),
        ({"properties": {"a": {"min": 1}}}, "properties.a: unknown keyword 'min'"),
        ({"anyOf": [{"items": {"typ": "x"}}]}, "anyOf[0].items: unknown keyword 'typ' (did you mean 'type'?)"),
        ({"type": "objct"}, 'type: "objct" is not valid'),
        ({"pattern": "("}, 'pattern: "(" is not a "regex"'),
        ({"$ref": "https://example.org/x"}, "https://example.org/x"),
        ({"$ref": "#/$defs/x"}, "'/$defs/x' does not exist"),
        ({"enum": [nested(201)]}, "deeper than 200 levels"),
        ({"enum": [{1: "a"}]}, "key"),
    ],
)
def test_a_schema_that_is_not_valid_is_refused(schema, message):
    with pytest.raises(gm.UsageError, match="JSON Schema") as caught:
        JsonSchema(schema)
    assert message in str(caught.value)


def test_the_validator_is_imported_only_where_there_is_a_schema():
    program = "import sys, graphmill.nodes.llm, graphmill.cli.main; print('jsonschema_rs' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "False\n"


def test_a_deep_value_in_a_recursive_schema_with_alternatives_is_refused_without_a_search():
    node = {"$ref": "#/$defs/node"}
    operations = [
        {"type": "object", "properties": {"op": {"const": op}, "of": node}, "required": ["op", "of"]}
        for op in ("add", "mul")
    ]
    schema = JsonSchema({"$defs": {"node": {"anyOf": [{"type": "number"}, *operations]}}, **node})
    wrong, right = "oops", 1
    for _ in range(40):  # 2**40 errors, if all were listed
        wrong, right = {"op": "add", "of": wrong}, {"op": "add", "of": right}
    assert schema.problem(right) is None
    assert "does not match the schema" in schema.problem(wrong)
