"""JSON Schema: what fits, what does not and why, and what is no schema."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.core.schema_check import SchemaCheck, SchemaError

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


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (True, 1),
        ({}, None),
        (PERSON, {"name": "Ada", "age": 3.0}),
        (PERSON, {"name": "Ada", "age": None}),
        ({"type": "number"}, 1),
        ({"type": "integer"}, 2.0),
        ({"enum": [1, "a", None, {"b": 1, "c": 2}]}, {"c": 2, "b": 1}),
        ({"const": 1}, 1.0),
        ({"minLength": 3}, 7),
        ({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, ["a", 1, 2]),
        ({"contains": {"const": 1}, "maxContains": 1}, [1, 2]),
        (
            {"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": {"type": "string"}},
            {"x1": 1, "y": "a"},
        ),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, 1),
        ({"not": {"type": "string"}}, 1),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}}, {"c": 1}),
        ({"dependentRequired": {"a": ["b"]}}, {"b": 1}),
        ({"multipleOf": 0.1}, 0.3),
        ({"format": "email", "x-order": 1}, "no mail"),
        (TREE, {"v": 1, "next": {"v": 2}}),
    ],
)
def test_what_fits(schema, value):
    assert SchemaCheck(schema).problem(value) is None


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        (False, 1, "nothing may stand here"),
        (PERSON, [], "an object is wanted, not []"),
        (PERSON, {"age": 1}, "'name' is missing"),
        (PERSON, {"name": ""}, "name: text with a length of at least 1 is wanted, not 0"),
        (PERSON, {"name": "a", "age": True}, "age: a whole number or null is wanted, not true"),
        (PERSON, {"name": "a", "age": -1}, "age: a number of at least 0 is wanted, not -1"),
        (PERSON, {"nme": "a", "name": "b"}, "unknown key 'nme' (did you mean 'name'?)"),
        ({"type": "integer"}, 1.5, "a whole number is wanted, not 1.5"),
        ({"enum": ["a", 1]}, True, 'one of "a", 1 is wanted, not true'),
        ({"items": {"type": "string"}}, ["a", 2], "[1]: text is wanted, not 2"),
        ({"maxItems": 1}, [1, 2], "a list of at most 1 is wanted, not 2"),
        ({"uniqueItems": True}, [{"a": 1}, {"a": 1}], "an entry stands there twice"),
        ({"pattern": "^a"}, "b", "text that fits '^a' is wanted, not \"b\""),
        ({"exclusiveMaximum": 2}, 2, "a number below 2 is wanted, not 2"),
        ({"anyOf": [{"type": "string"}, PERSON]}, {"name": 1}, "none of 2 forms fits (name: text is wanted, not 1)"),
        ({"oneOf": [{"type": "integer"}, {"minimum": 0}]}, 1, "2 of 2 forms fit"),
        ({"not": {}}, 1, "1 is what must not stand here"),
        (
            {"propertyNames": {"maxLength": 1}},
            {"ab": 1},
            "the key 'ab': text with a length of at most 1 is wanted, not 2",
        ),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, "'b' is missing"),
        ({"contains": {"const": 1}}, [2], "0 entries are of the kind that is wanted 1 times"),
        (TREE, {"v": 1, "next": {}}, "next: 'v' is missing"),
        ({"$ref": "#"}, 1, "it is nested too deep"),
    ],
)
def test_what_does_not_fit_is_said_with_its_place(schema, value, said):
    assert SchemaCheck(schema).problem(value) == said


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ([], "a schema is a mapping, not []"),
        ({"typ": "object"}, "unknown word 'typ' (did you mean 'type'?)"),
        ({"properties": {"a": {"minimun": 1}}}, "properties.a: unknown word 'minimun' (did you mean 'minimum'?)"),
        ({"type": "objct"}, 'type: "objct" can not stand here'),
        ({"pattern": "("}, 'pattern: "(" can not stand here'),
        ({"required": "a"}, 'required: "a" can not stand here'),
        ({"anyOf": []}, "anyOf: [] can not stand here"),
        ({"$ref": "https://example.org/x"}, "leads out of the schema; put what it means under $defs"),
        ({"$ref": "#/$defs/x"}, "leads nowhere"),
        ({"unevaluatedProperties": False}, "unknown word 'unevaluatedProperties'"),
    ],
)
def test_what_is_no_schema_is_refused(schema, said):
    with pytest.raises(SchemaError) as caught:
        SchemaCheck(schema)
    assert said in str(caught.value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_a_value_fits_its_own_const_and_exactly_one_type(value):
    assert SchemaCheck({"const": value}).problem(value) is None
    kinds = [
        kind
        for kind in ("object", "array", "string", "number", "boolean", "null")
        if not SchemaCheck({"type": kind}).problem(value)
    ]
    assert len(kinds) == 1
