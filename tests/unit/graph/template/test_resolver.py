import json
import pickle
from collections import ChainMap, OrderedDict, defaultdict
from collections.abc import Sequence
from types import MappingProxyType
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import graphmill as gm
from graphmill.core.json import to_json
from graphmill.graph.template import (
    Literal,
    Missing,
    Placeholder,
    Reference,
    Segment,
    Template,
    TemplateError,
    compile_value,
    data_in,
    look_up,
    parse,
)
from support import naive_template
from support.odd_texts import any_text, json_values

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,5}", fullmatch=True).filter(
    lambda name: name not in ("true", "false", "null")
)
without_templates = st.text(st.characters(codec="utf-8", exclude_characters="$"))


class Lazy(Sequence):
    """A sequence that is no list and reads an entry only when it is asked for, by its place from the beginning."""

    def __init__(self, entries):
        self.entries = entries
        self.read = []

    def __len__(self):
        return len(self.entries)

    def __getitem__(self, index):
        assert index >= 0
        self.read.append(index)
        return self.entries[index]


def resolve(value, scope):
    return compile_value(value).resolve(scope)


def message(value, scope):
    with pytest.raises(Missing) as caught:
        resolve(value, scope)
    return str(caught.value)


@given(names, json_values)
def test_a_string_that_is_exactly_one_template_keeps_the_value_itself(name, value):
    assert resolve(f"${{{name}}}", {name: value}) is value
    assert resolve(f'${{gone ?? {name} ?? "x"}}', {name: value}) is value


@given(names, any_text, without_templates, without_templates)
def test_in_mixed_text_a_text_stands_as_it_is(name, value, before, after):
    assert resolve(f"{before} ${{{name}}}{after}", {name: value}) == f"{before} {value}{after}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (0.5, "0.5"),
        ("", ""),
        ({"é": [1, None]}, '{"é":[1,null]}'),
        ([], "[]"),
        ((1, "名"), '[1,"名"]'),
        (MappingProxyType({"a": range(2)}), '{"a":[0,1]}'),
        (Lazy([1, {"a": Lazy([2])}]), '[1,{"a":[2]}]'),
    ],
)
def test_other_values_become_json_in_mixed_text_and_null_becomes_empty(value, text):
    assert resolve("<${a}>", {"a": value}) == f"<{text}>"
    assert resolve("${a}${a}", {"a": value}) == text * 2


@pytest.mark.parametrize("value", [b"bytes", object(), [object()], [10**5000]])
def test_what_has_no_json_is_refused_in_mixed_text_for_good_and_passes_alone(value):
    with pytest.raises(gm.Permanent, match=r"^\$\{a\} cannot be part of a text: "):
        resolve("<${a}>", {"a": value})
    assert resolve("${a}", {"a": value}) is value


def test_what_holds_itself_is_refused_in_mixed_text():
    loop = []
    loop.append(loop)
    with pytest.raises(gm.Permanent, match=r"^\$\{a\} cannot be part of a text: "):
        resolve("<${a}>", {"a": loop})


def test_space_around_a_template_makes_it_mixed_text():
    assert resolve("${a}\n", {"a": 1}) == "1\n"


@given(names, names, any_text)
def test_substituted_text_is_never_scanned_again(name, other, rest):
    value = f"${{{other}}}{rest}"
    scope = {other: "SECRET", name: value}
    assert resolve(f"${{{name}}}", scope) == value
    assert resolve(f"<${{{name}}}>", scope) == f"<{value}>"
    assert resolve([f"${{{name}}}${{{name}}}"], scope) == [value * 2]


def test_a_template_can_not_be_put_together_from_parts():
    scope = {"a": "${", "b": "c}", "c": "SECRET", "d": "$", "e": "{c}"}
    assert resolve("${a}${b}", scope) == "${c}"
    assert resolve("${d}${e}", scope) == "${c}"
    assert resolve("${a}c}", scope) == "${c}"
    assert resolve('${gone ?? "${c}"}', scope) == "${c}"


def test_names_lead_through_mappings_of_any_kind():
    for kind in (dict, OrderedDict, ChainMap, MappingProxyType):
        assert resolve("${a.b.c-d}", kind({"a": kind({"b": kind({"c-d": 7})})})) == 7


@pytest.mark.parametrize("kind", [list, tuple, Lazy])
def test_indices_lead_into_sequences_of_any_kind_from_both_ends(kind):
    scope = {"a": kind([10, kind([20, 21]), 30])}
    assert [resolve(f"${{a[{index}]}}", scope) for index in (0, 2, -1, -3)] == [10, 30, 30, 10]
    assert resolve("${a[1][-1]}", scope) == 21


def test_an_index_reads_one_entry_of_a_sequence_and_no_other():
    lazy = Lazy([{"n": n} for n in range(5)])
    assert resolve("${a[-2].n}", {"a": lazy}) == 3
    assert lazy.read == [3]


def test_an_index_can_be_a_reference_with_indices_of_its_own():
    scope = {"rows": [{"n": "a"}, {"n": "b"}], "order": [1, 0], "__index__": 0}
    assert resolve("${rows[${__index__}].n}", scope) == "a"
    assert resolve("${rows[${order[${__index__}]}].n}", scope) == "b"


def test_names_of_methods_and_attributes_are_names_like_others():
    assert resolve("${a.keys}", {"a": {"keys": 1}}) == 1
    for name in ("keys", "__class__", "__len__", "items"):
        assert f"no {name!r} in a; available: b" in message(f"${{a.{name}}}", {"a": {"b": 1}})


def test_a_key_with_a_dot_in_it_is_not_reached_by_a_path():
    assert "no 'b' in a; available: b.c" in message("${a.b.c}", {"a": {"b.c": 1}})


def test_a_number_as_a_key_is_not_reached_by_an_index():
    assert "no [0] in a; available: 0 (int)" in message("${a[0]}", {"a": {0: "x"}})
    assert "no [0] in a; available: 0" in message("${a[0]}", {"a": {"0": "x"}})


@pytest.mark.parametrize("value", [b"bytes", bytearray(b"b"), {1, 2}, object()])
def test_what_is_neither_a_mapping_nor_a_sequence_has_no_entries(value):
    kind = type(value).__name__
    assert message("${a[0]}", {"a": value}) == f"${{a[0]}} is missing: no [0] in a, which is of type {kind}"
    assert message("${a.b}", {"a": value}) == f"${{a.b}} is missing: no 'b' in a, which is of type {kind}"


def test_asking_for_what_is_not_there_changes_no_mapping():
    made = defaultdict(list)
    assert resolve('${a.b ?? "none"}', {"a": made}) == "none"
    assert not made


def test_a_found_null_is_a_value():
    assert resolve("${a.b}", {"a": {"b": None}}) is None
    assert resolve('${a.b ?? "x"}', {"a": {"b": None}}) is None
    assert resolve('<${a.b ?? "x"}>', {"a": {"b": None}}) == "<>"


@pytest.mark.parametrize("value", [0, "", False, [], {}])
def test_what_counts_as_false_is_a_value_too(value):
    assert resolve('${a ?? "x"}', {"a": value}) is value


def test_look_up_follows_a_reference():
    reference = Reference((Segment("a"), Segment("b", (1,))))
    assert look_up(reference, {"a": {"b": [1, 2]}}) == 2
    with pytest.raises(Missing, match=r"^\$\{a.b\[1\]\} is missing: no \[1\] in a.b, which has 1 entry$"):
        look_up(reference, {"a": {"b": [1]}})


@pytest.mark.parametrize(
    "text", ['{"b": [1, {"c": 2}]}', ' \r\n\t{"b": [1, {"c": 2}]}\n', json.dumps({"b": json.dumps([1, '{"c": 2}'])})]
)
def test_a_path_leads_into_text_that_is_a_json_object_or_list(text):
    assert resolve("${a.b[1].c}", {"a": text}) == 2


def test_a_text_at_the_end_of_a_path_stays_text():
    assert resolve("${a.b}", {"a": {"b": "[1]"}}) == "[1]"


@pytest.mark.parametrize(
    "text", ["3", '"[1]"', "null", "true", "", " ", "abc", "[1", "{'b': 1}", "[" * 100_000, "x[1]"]
)
def test_any_other_text_has_no_entries(text):
    reason = "which is text without a JSON object or list"
    assert message("${a[0]}", {"a": text}) == f"${{a[0]}} is missing: no [0] in a, {reason}"
    assert message("${a.b}", {"a": text}) == f"${{a.b}} is missing: no 'b' in a, {reason}"
    assert data_in(text) is None


def test_a_text_is_read_once_for_all_templates_of_a_value():
    value = compile_value({"x": "${a.b} ${a.c}", "y": ["${a.b}", {"z": '${a.d ?? a.e ?? "none"}'}]})
    with patch("json.loads", wraps=json.loads) as loads:
        assert value.resolve({"a": '{"b": 1, "c": 2}'}) == {"x": "1 2", "y": [1, {"z": "none"}]}
    assert loads.call_count == 1


def test_what_is_missing_in_such_a_text_is_named_with_what_is_there():
    assert message("${a.b}", {"a": '{"c": 1}'}) == "${a.b} is missing: no 'b' in a; available: c"


SCOPE = MappingProxyType(
    {"fetch": {"response": [1, 2], "status_code": 200}, "n": None, "t": True, "i": 5, "s": "text", "f": 1.0, "e": {}}
)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("${gone}", "no 'gone'; available: fetch, n, t, i, s, f, e"),
        (
            "${fetch.respons.items}",
            "no 'respons' in fetch (did you mean 'response'?); available: response, status_code",
        ),
        ("${fetch.response[2]}", "no [2] in fetch.response, which has 2 entries"),
        ("${fetch.response[-3].x}", "no [-3] in fetch.response, which has 2 entries"),
        ("${fetch.response.name}", "no 'name' in fetch.response, which is a list"),
        ("${fetch[0]}", "no [0] in fetch; available: response, status_code"),
        ("${n.x}", "no 'x' in n, which is null"),
        ("${n[0]}", "no [0] in n, which is null"),
        ("${i.x}", "no 'x' in i, which is a number"),
        ("${t.x}", "no 'x' in t, which is a boolean"),
        ("${s[0]}", "no [0] in s, which is text without a JSON object or list"),
        ("${e.x}", "no 'x' in e; available: nothing"),
        ("${fetch.response[${i}]}", "no [5] in fetch.response, which has 2 entries"),
        ("${fetch.response[${t}]}", "its index ${t} must be an integer or text, got a boolean"),
        ("${fetch.response[${f}]}", "its index ${f} must be an integer or text, got a number"),
        ("${fetch.response[${n.x}]}", "in its index, no 'x' in n, which is null"),
        ("${gone ?? n.x}", "no 'gone'; available: fetch, n, t, i, s, f, e; no 'x' in n, which is null"),
    ],
)
def test_what_is_missing_is_a_permanent_failure_that_names_the_reference_and_what_is_there(template, reason):
    assert message(template, SCOPE) == f"{template} is missing: {reason}"
    assert message([{"deep": f"x {template} y"}], SCOPE) == f"{template} is missing: {reason}"
    assert message(template, dict(SCOPE)) == f"{template} is missing: {reason}"
    assert issubclass(Missing, gm.Permanent)


@pytest.mark.parametrize(
    "template", ["gone", "fetch.gone", "fetch.response[2]", "n.x", "s[0]", "s.x", "fetch.response[${t}]", "e[${gone}]"]
)
def test_whatever_is_missing_falls_through_to_the_next(template):
    assert resolve(f"${{{template} ?? fetch.status_code}}", SCOPE) == 200
    assert resolve(f"${{{template} ?? [1]}}", SCOPE) == [1]
    assert resolve(f'<${{{template} ?? gone ?? "}} ?? x"}}>', SCOPE) == "<} ?? x>"


def test_an_empty_scope_has_nothing():
    assert message("${a}", {}) == "${a} is missing: no 'a'; available: nothing"


def test_of_many_names_twenty_are_shown_and_long_ones_are_cut():
    many = {f"{number:03}{'x' * 1000}": number for number in range(1000)}
    found = message("${a.b}", {"a": many})
    assert found.endswith(" and 980 more")
    assert found.count("x…") == 20
    assert len(found) < 1000


def test_the_nearest_name_is_found_among_more_than_are_shown():
    many = {f"{number:03}": number for number in range(100)} | {"response": 1}
    found = message("${a.respons}", {"a": many})
    assert "no 'respons' in a (did you mean 'response'?); available: 000, " in found
    assert found.endswith(" and 81 more")


def test_names_can_not_play_tricks_on_a_terminal():
    assert message("${a.b}", {"a": {"\x1b[31m": 1, "x\ny": 2, "": 3}}).endswith(r"available: '\x1b[31m', 'x\ny', ''")


def test_it_survives_pickling():
    with pytest.raises(Missing) as caught:
        resolve("${a}", {})
    twin = pickle.loads(pickle.dumps(caught.value))
    assert (type(twin), str(twin)) == (Missing, str(caught.value))


def test_every_level_of_lists_and_mappings_is_resolved_and_keys_are_not():
    scope = {"a": {"b": {"c-d": [1]}}, "n": 1}
    assert resolve({"${n}": ["${a.b.c-d}", {"deep": "n=${n}"}, 7]}, scope) == {"${n}": [[1], {"deep": "n=1"}, 7]}


def test_containers_with_templates_are_new_each_time_and_all_else_is_passed_on():
    still, given_ = [1], [2]
    value = compile_value({"changing": ["${n}", still], "still": still, "whole": "${n}"})
    first, second = value.resolve({"n": given_}), value.resolve({"n": given_})
    assert first == second
    assert first is not second
    assert first["changing"] is not second["changing"]
    assert first["still"] is first["changing"][1] is still
    assert first["whole"] is first["changing"][0] is given_


def test_what_one_job_does_to_its_containers_no_other_sees():
    value = compile_value({"a": ["${n}"]})
    value.resolve({"n": 1})["a"].append("mine")
    value.resolve({"n": 1})["b"] = "mine"
    assert value.resolve({"n": 2}) == {"a": [2]}


def test_what_is_written_stays_as_it_is():
    written = {"a": ["${n}", "$${n}"], "b": "${n}"}
    twin = json.loads(json.dumps(written))
    assert resolve(written, {"n": 1}) == {"a": [1, "${n}"], "b": 1}
    assert written == twin


@given(
    st.recursive(
        without_templates | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(without_templates, inner),
    )
)
def test_what_holds_no_template_is_constant_and_given_itself(value):
    compiled = compile_value(value)
    assert compiled.resolve({}) is value
    assert compiled.is_constant
    assert compiled.references == ()


def test_all_references_are_told_each_once_those_in_an_index_and_behind_question_marks_too():
    compiled = compile_value(
        {"x": ["${a.b} and ${c[${d[${e}]}]}", {"y": '${f ?? g.h ?? "${no}"}'}, "${a.b}"], "${key}": 1, "n": None}
    )
    assert [str(reference) for reference in compiled.references] == ["a.b", "c[${d[${e}]}]", "d[${e}]", "e", "f", "g.h"]
    assert not compiled.is_constant


def test_a_mistake_at_any_depth_is_told_when_it_is_compiled():
    with pytest.raises(TemplateError, match="missing closing"):
        compile_value({"a": [{"b": "x ${y"}]})


def test_a_compiled_value_can_be_compared_shown_and_sent_to_another_process():
    compiled = compile_value({"a": ["${b.c[${d}] ?? 1}", "x ${b}"]})
    scope = {"b": {"c": [7]}, "d": 0}
    twin = pickle.loads(pickle.dumps(compiled))
    assert twin == compiled
    assert twin.resolve(scope) == compiled.resolve(scope) == {"a": [7, 'x {"c":[7]}']}


def test_tuples_and_other_mappings_are_compiled_as_lists_and_dicts():
    assert resolve(MappingProxyType({"a": ("${n}", 1)}), {"n": 2}) == {"a": [2, 1]}


@pytest.mark.parametrize("value", [None, True, 1, 0.5, b"${a}", {1, 2}])
def test_other_values_are_constants(value):
    assert resolve(value, {}) is value


few_names = st.sampled_from("abc")
few_numbers = st.integers(-3, 3)
leaves = few_numbers | st.sampled_from(
    [None, True, False, "", "x", "${a}", '{"a": [1]}', "[0, [2]]", "7", '"a"', "{broken"]
)
nested = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(few_names, inner, max_size=3), max_leaves=12
)
scopes = st.dictionaries(few_names, nested | nested.map(to_json), max_size=3)


def _references(indices):
    segments = st.builds(Segment, few_names, st.lists(indices, max_size=2).map(tuple))
    return st.builds(Reference, st.lists(segments, min_size=1, max_size=3).map(tuple))


few_references = _references(few_numbers | _references(few_numbers))
few_lookups = st.builds(
    lambda found, default: Placeholder((*found, *default)),
    st.lists(few_references, min_size=1, max_size=3),
    st.lists(st.builds(Literal, nested), max_size=1),
)
few_templates = st.lists(few_lookups | st.sampled_from([" ", "é", "$${a}", "$"]), min_size=1, max_size=3).map(
    lambda parts: parse("".join(map(str, parts)).replace("$$${", "$ ${"))
)


@given(few_templates, scopes)
@example(parse("${a[0]}"), {"a": ["x"]})
def test_it_resolves_as_a_plain_reading_of_the_language_does(template, scope):
    assert isinstance(template, Template)
    compiled = compile_value([str(template)])
    try:
        expected = naive_template.resolve(str(template), scope)
    except naive_template.Missing:
        with pytest.raises(Missing):
            compiled.resolve(scope)
    else:
        (found,) = compiled.resolve(scope)
        assert found == expected
        assert type(found) is type(expected)
