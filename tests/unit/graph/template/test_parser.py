import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphmill as gm
from graphmill.graph.template import Literal, Placeholder, Reference, Segment, Template, TemplateError, is_name, parse
from support.odd_texts import any_text, json_text, json_values

LITERAL_WORDS = ("true", "false", "null")

names = st.from_regex(r"[A-Za-z_éह][A-Za-z0-9_é\u0301-]{0,5}", fullmatch=True)
roots = names.filter(lambda name: name not in LITERAL_WORDS)
indices = st.integers(-(10**17), 10**17)


def _references(inner):
    first = st.builds(Segment, roots, st.lists(inner, max_size=2).map(tuple))
    further = st.builds(Segment, names, st.lists(inner, max_size=2).map(tuple))
    return st.builds(lambda head, tail: Reference((head, *tail)), first, st.lists(further, max_size=2))


references = _references(indices | _references(indices | _references(indices)))
literals = st.builds(Literal, json_values)
lookups = st.builds(
    lambda found, default: Placeholder((*found, *default)),
    st.lists(references, min_size=1, max_size=3),
    st.lists(literals, max_size=1),
)
near_templates = st.lists(
    st.sampled_from([*'${}[]?"a.-0 \n\\', "é", "true", "${", "${a", "${a}", "$${", " ?? ", "[${", "\ud800"]),
    max_size=20,
).map("".join)
plain_texts = any_text | near_templates


def _normal(parts):
    """Side by side, texts are one text; an empty one is none."""
    joined = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return Template(tuple(part for part in joined if part != ""))


templates = st.lists(plain_texts.filter(bool) | lookups, max_size=6).map(_normal)


def reference(*segments):
    return Reference(tuple(segment if isinstance(segment, Segment) else Segment(segment) for segment in segments))


def lookup(*alternatives):
    return Placeholder(alternatives)


def mistake(text):
    with pytest.raises(TemplateError) as caught:
        parse(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ()),
        ("plain", ("plain",)),
        ("${item}", (lookup(reference("item")),)),
        ("${a.b.c}", (lookup(reference("a", "b", "c")),)),
        ("${my-node.first-name}", (lookup(reference("my-node", "first-name")),)),
        ("${a-}", (lookup(reference("a-")),)),
        ("${__index__}", (lookup(reference("__index__")),)),
        ("${a[3].b[-1][0]}", (lookup(reference(Segment("a", (3,)), Segment("b", (-1, 0)))),)),
        ("${a[${b.c[0]}].d}", (lookup(reference(Segment("a", (reference("b", Segment("c", (0,))),)), "d")),)),
        ("${é.हिन्दी.名前}", (lookup(reference("é", "हिन्दी", "名前")),)),
        ("${a.true.null}", (lookup(reference("a", "true", "null")),)),
        ("Hi ${a}, ${b}!", ("Hi ", lookup(reference("a")), ", ", lookup(reference("b")), "!")),
        ("${a}${b}", (lookup(reference("a")), lookup(reference("b")))),
        ('${a ?? b ?? "x"}', (lookup(reference("a"), reference("b"), Literal("x")),)),
        ("${a??b}", (lookup(reference("a"), reference("b")),)),
        ("${a\n  ?? b}", (lookup(reference("a"), reference("b")),)),
    ],
)
def test_a_template_is_text_and_lookups_in_turn(text, parts):
    assert parse(text) == Template(parts)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('"}"', "}"),
        ('"a ?? b"', "a ?? b"),
        ('"${a}"', "${a}"),
        ('"\\"\\u00e9\\n"', '"é\n'),
        ("0", 0),
        ("-1.5e3", -1500.0),
        ("true", True),
        ("false", False),
        ("null", None),
        ("[]", []),
        ('{"a": {"b": [1, "}"]}}', {"a": {"b": [1, "}"]}}),
    ],
)
def test_behind_two_question_marks_any_json_literal_can_stand(written, value):
    (found,) = parse(f"${{a ?? {written}}}").parts
    assert found == lookup(reference("a"), Literal(value))
    assert type(found.alternatives[1].value) is type(value)
    assert parse(f"<${{a??{written}}}>").parts == ("<", found, ">")


@pytest.mark.parametrize(
    "text", ["$", "$x", "$ {x}", "{x}", "$$", "$$x", "}", "$[x]", "100 $ {", "a$", "{{x}}", "%s {0}", "#{x}"]
)
def test_without_a_dollar_before_a_brace_all_is_text(text):
    assert parse(text) == Template((text,))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("$${x}", ("${x}",)),
        ("a $${x} b", ("a ${x} b",)),
        ("$${", ("${",)),
        ("$${not a name", ("${not a name",)),
        ("$${x}${y}", ("${x}", lookup(reference("y")))),
        ("$${${y}}", ("${", lookup(reference("y")), "}")),
        ("$$${price}", ("$", lookup(reference("price")))),
        ("$$$${x}", ("$${x}",)),
        ("$$$$${x}", ("$$", lookup(reference("x")))),
        ("$$ ${x}", ("$$ ", lookup(reference("x")))),
    ],
)
def test_dollars_before_a_brace_are_doubled_to_be_text(text, parts):
    assert parse(text) == Template(parts)


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("${user name}", 6, "unexpected space"),
        ("${ it}", 2, "unexpected space"),
        ("${it }", 5, "'}': spaces are only allowed around ??"),
        ("${}", 2, "unexpected '}': expected a name"),
        ("${a.}", 4, "unexpected '}': expected a name"),
        ("${a..b}", 4, "unexpected '.': expected a name"),
        ("${.a}", 2, "unexpected '.': expected a name"),
        ("${a.[0]}", 4, "unexpected '[': expected a name"),
        ("${1a}", 2, "unexpected '1'"),
        ("${-a}", 2, "unexpected '-'"),
        ("${a\u00a0b}", 3, r"unexpected '\xa0'"),
        ("${\u0301a}", 2, "unexpected '\u0301'"),
        ("${a.0}", 4, "unexpected '0' … write an index as [0]"),
        ("${a.-1}", 4, "unexpected '-' … write an index as [0]"),
        ("${${a}}", 2, "unexpected '$': a reference inside another is only allowed as an index"),
        ("Hi ${a", 3, "missing closing }"),
        ("${", 0, "missing closing }"),
        ("${a[", 0, "missing closing }"),
        ("${a[0", 0, "missing closing }"),
        ("${a[${b", 0, "missing closing }"),
        ("${a ?? ", 0, "missing closing }"),
        ("${a | upper}", 4, "unexpected '|': templates have no filters"),
        ("${a()}", 3, "unexpected '(': a template cannot call"),
        ("${a:-x}", 3, "unexpected ':': write a default after ??"),
        ("${a ? b}", 4, "unexpected '?': write a default after ??"),
        ("${a+b}", 3, "unexpected '+': a template only looks up values"),
        ("${a == b}", 4, "unexpected '=': a template only looks up values"),
        ("${a[0]b}", 6, "unexpected 'b': only names"),
        ("${a[]}", 4, "unexpected ']': an index must be an integer"),
        ("${a[x]}", 4, "unexpected 'x': an index must be an integer"),
        ('${a["x"]}', 4, "unexpected '\"': an index must be an integer"),
        ("${a[1:2]}", 5, "unexpected ':': an index must be an integer"),
        ("${a[1.5]}", 5, "unexpected '.': an index must be an integer"),
        ("${a[²]}", 4, "unexpected '²': an index must be an integer"),
        ("${a[" + "9" * 19 + "]}", 22, "unexpected '9': an index must be an integer"),
        ("${a[${b ?? 0}]}", 8, "unexpected '?': an index must be an integer"),
        ("${a ?? }", 7, "unexpected '}': expected a name"),
        ("${a ?? 'x'}", 7, "in double quotes"),
        ('${a ?? "x" ?? b}', 10, "nothing may follow a literal"),
        (
            '${a ?? "x}',
            7,
            "expected a reference or a JSON literal after ??",
        ),
        ("${a ?? true.x}", 11, "unexpected '.': only names"),
        ('${"x"}', 2, "a literal cannot come first"),
        ("${true}", 2, "true is a literal, not a name"),
        ("${null.a}", 2, "null is a literal, not a name"),
        ("${a ?? -Infinity}", 7, "invalid JSON literal: JSON has no -Infinity"),
        ("${a ?? 1e999}", 7, "invalid JSON literal: the number 1e999 is too large"),
    ],
)
def test_what_begins_a_lookup_and_is_none_is_refused_with_the_place_and_the_remedy(text, position, message):
    error = mistake(text)
    assert error.position == position
    assert all(words in str(error) for words in message.split(" … "))
    assert f"(character {position + 1})" in str(error)
    assert isinstance(error, ValueError)
    assert isinstance(error, gm.GraphmillError)


def test_an_error_shows_the_lookup_and_of_a_long_one_its_beginning():
    assert str(mistake("Hello ${a b}, and more")).startswith("'${a b}': ")
    assert str(mistake("${" + "a" * 1000)).startswith("'${" + "a" * 57 + "…': ")
    assert str(mistake("${a\x1b[31m}")).startswith(r"'${a\x1b[31m}': ")


def test_in_a_text_of_several_lines_an_error_names_line_and_column():
    assert str(mistake("one\ntwo ${a.}\nthree")).endswith("(line 2, column 9)")


def test_an_error_survives_pickling_with_its_position():
    error = mistake("x ${}")
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), str(twin), twin.position) == (TemplateError, str(error), 4)


def test_indices_nest_to_a_bounded_depth():
    def nested(levels):
        return "${a" + "[${a" * levels + "}]" * levels + "}"

    assert str(parse(nested(8))) == nested(8)
    assert "indices are nested deeper than 8 levels" in str(mistake(nested(9)))
    assert "indices are nested deeper than 8 levels" in str(mistake("${a" + "[${a" * 100_000))


@pytest.mark.parametrize("levels", [51, 100_000])
def test_literals_nest_to_a_bounded_depth(levels):
    assert parse("${a ?? " + "[" * 50 + "]" * 50 + "}").sole
    assert "nested deeper than 50 levels" in str(mistake("${a ?? " + "[" * levels + "]" * levels + "}"))
    assert "nested deeper than 50 levels" in str(mistake("${a ?? " + '{"a":' * levels + "1" + "}" * levels + "}"))


def test_a_literal_number_is_of_bounded_length():
    assert parse("${a ?? " + "9" * 1000 + "}").sole
    assert "is too large" in str(mistake("${a ?? " + "9" * 100_000 + "}"))


def test_a_template_tells_whether_it_is_one_lookup_alone():
    assert parse("${a ?? b}").sole == lookup(reference("a"), reference("b"))
    assert [parse(text).sole for text in ("", "a", "$${a}", " ${a}", "${a}\n", "${a}${b}")] == [None] * 6


def test_a_reference_tells_its_root_and_prints_as_it_is_written():
    (found,) = parse("${fetch.response[0][${i}].name}").sole.alternatives
    assert found.root == "fetch"
    assert str(found) == "fetch.response[0][${i}].name"


def test_equal_templates_are_equal_keys_whatever_their_literals():
    assert len({parse("${a ?? [1]}"), parse("${a  ??  [ 1 ]}"), parse("${a ?? {}}")}) == 2


@pytest.mark.parametrize("name", ["a", "_", "a-b", "__index__", "a1", "é", "हिन्दी", "名前", "true_", "a-"])
def test_a_name_has_letters_of_any_script_digits_underscores_and_hyphens(name):
    assert is_name(name)
    assert parse(f"${{{name}}}").sole == lookup(reference(name))


@pytest.mark.parametrize("name", ["", "-", "-a", "1", "1a", "a b", "a\n", "true", "false", "null", "a$", "²", "\ud800"])
def test_what_a_root_can_not_be_called(name):
    assert not is_name(name)
    mistake(f"${{{name}}}")


def test_a_path_is_no_name():
    assert not is_name("a.b")
    assert not is_name("a[0]")


@given(templates)
def test_a_template_that_is_printed_reads_as_the_same_template(template):
    assert parse(str(template)) == template


@given(plain_texts | json_text)
def test_any_text_is_a_template_that_prints_back_or_a_template_error(text):
    try:
        template = parse(text)
    except TemplateError as caught:
        assert "${" in text[: caught.position + 2]  # noqa: PT017  either is right
        return
    assert parse(str(template)) == template
    assert _normal(template.parts) == template


@given(plain_texts)
def test_any_text_can_be_written_as_a_template(text):
    template = Template((text,) if text else ())
    assert parse(str(template)) == template
