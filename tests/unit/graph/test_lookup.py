import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphmill as gm
from graphmill.graph.lookup import references, resolve
from support.odd_texts import any_text, json_values

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,5}", fullmatch=True)
without_templates = st.text(st.characters(codec="utf-8", exclude_characters="$"))


@given(names, json_values)
def test_a_string_that_is_exactly_one_template_keeps_the_value_itself(name, value):
    assert resolve(f"${{{name}}}", {name: value}) is value


@given(names, any_text, without_templates, without_templates)
def test_in_mixed_text_a_text_stands_as_it_is(name, value, before, after):
    assert resolve(f"{before}${{{name}}}{after}", {name: value}) == before + value + after


@given(names, names, any_text)
def test_substituted_text_is_never_scanned_again(name, other, rest):
    value = f"${{{other}}}{rest}"
    scope = {name: value, other: "SECRET"} | {name: value}
    assert resolve(f"${{{name}}}", scope) == value
    assert resolve(f"<${{{name}}}>", scope) == f"<{value}>"
    assert resolve(f"${{{name}}}${{{name}}}", scope) == value * 2


def test_a_template_can_not_be_put_together_from_parts():
    scope = {"a": "${", "b": "c}", "c": "SECRET", "d": "$", "e": "{c}"}
    assert resolve("${a}${b}", scope) == "${c}"
    assert resolve("${d}${e}", scope) == "${c}"
    assert resolve("${a}c}", scope) == "${c}"


@given(
    st.recursive(without_templates | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(without_templates, inner))
)
def test_what_holds_no_template_stays_as_it_is(value):
    assert resolve(value, {}) == value
    assert references(value) == set()


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (True, "true"), (False, "false"), (3, "3"), (0.5, "0.5"), ({"é": [1, None]}, '{"é":[1,null]}'), ([], "[]"), ("", "")],
)
def test_other_values_become_json_text_in_mixed_text_and_nothing_becomes_empty(value, text):
    assert resolve("<${a}>", {"a": value}) == f"<{text}>"


def test_every_level_of_lists_and_mappings_is_resolved_and_keys_are_not():
    scope = {"a": {"b": {"c-d": [1]}}, "n": 1}
    assert resolve({"${n}": ["${a.b.c-d}", {"deep": "n=${n}"}, 7]}, scope) == {"${n}": [[1], {"deep": "n=1"}, 7]}


@pytest.mark.parametrize("text", ["$a", "${}", "${ a }", "${a", "$ {a}", "${1a}", "${a.}", "${a..b}", "${a()}", "${a+b}", "${-a}", "{a}"])
def test_what_is_no_lookup_is_text(text):
    assert resolve(text, {"a": "A", "b": "B"}) == text
    assert references(text) == set()


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("${gone}", r"\$\{gone\} is missing: no 'gone' among: a, n"),
        ("x ${a.gone} y", r"\$\{a.gone\} is missing: no 'gone' among: b"),
        ("${a.b.c}", r"\$\{a.b.c\} is missing: no 'c' among: list"),
        ("${n.x}", r"\$\{n.x\} is missing: no 'x' among: NoneType"),
        ("${a.keys}", r"\$\{a.keys\} is missing"),
        ("${a.__class__}", r"\$\{a.__class__\} is missing"),
    ],
)
def test_what_is_missing_is_a_permanent_failure_that_names_the_reference_and_what_is_there(template, message):
    with pytest.raises(gm.Permanent, match=message):
        resolve([template], {"a": {"b": [1]}, "n": None})


def test_a_found_null_is_a_value():
    assert resolve("${a.b}", {"a": {"b": None}}) is None


def test_the_root_names_of_all_lookups_are_collected():
    assert references({"x": ["${a.b} and ${c-d}", {"y": "${e}"}], "${key}": 1, "n": None}) == {"a", "c-d", "e"}


@given(st.dictionaries(names, json_values, max_size=3))
def test_json_text_with_templates_in_its_strings_gives_the_same_data(scope):
    template = {name: [f"${{{name}}}", {"text": f"-${{{name}}}"}] for name in scope}
    resolved = resolve(json.loads(json.dumps(template)), scope)
    assert {name: entry[0] for name, entry in resolved.items()} == scope
