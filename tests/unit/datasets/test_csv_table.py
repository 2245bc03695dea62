import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphmill as gm
from graphmill.datasets.csv_table import CsvWriter
from support.odd_texts import LONE_SURROGATES, ODD_TEXTS, any_text


def items_of(folder, content):
    path = folder / "items.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(gm.source(path))


def exported(folder, outputs, items=None):
    """Export these outputs; give the rows as a spreadsheet reads them."""
    path = folder / "out.csv"
    gm.batch(lambda position: outputs[int(position)], items or range(len(outputs))).export(path)
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, strict=True))


def table(rows, **options):
    text = io.StringIO(newline="")
    csv.writer(text, **options).writerows(rows)
    return text.getvalue().encode()


# --- reading ---


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
def test_any_text_is_read_whole_in_header_and_cell(tmp_path, text):
    assert items_of(tmp_path, table([["id", text], ["a", text], [text, ""]])) == [
        {"id": "a", text: text},
        {"id": text, text: ""},
    ]


@given(
    st.lists(any_text.filter(lambda text: text != "id"), min_size=2, max_size=4, unique=True).flatmap(
        lambda header: st.tuples(
            st.just(header), st.lists(st.lists(any_text, min_size=len(header), max_size=len(header)), max_size=4)
        )
    ),
    st.sampled_from([("\r\n", csv.QUOTE_MINIMAL), ("\n", csv.QUOTE_ALL), ("\r", csv.QUOTE_ALL)]),
)
@settings(deadline=None)
def test_any_table_is_read_back(tmp_path_factory, written, style):
    header, rows = written
    content = table([["id", *header], *(["x", *row] for row in rows)], lineterminator=style[0], quoting=style[1])
    expected = [dict(zip(["id", *header], ["x", *row], strict=True)) for row in rows]
    assert items_of(tmp_path_factory.getbasetemp(), content) == expected


def test_every_value_is_text_and_a_missing_one_is_empty_text(tmp_path):
    assert items_of(tmp_path, "a,b,c\n1,,true\n") == [{"a": "1", "b": "", "c": "true"}]


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path):
    assert items_of(tmp_path, b"\xef\xbb\xbfid,b\n1,2\n") == [{"id": "1", "b": "2"}]


@pytest.mark.parametrize("content", ["\n\na,b\n\n1,2\n\n\n3,4", "a,b\r\n\r\n1,2\r\n3,4\r\n", "a,b\r1,2\r\r3,4"])
def test_blank_lines_are_passed_over_whatever_the_line_ends(tmp_path, content):
    assert items_of(tmp_path, content) == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]


def test_a_quoted_empty_field_is_a_row_where_a_blank_line_is_none(tmp_path):
    assert items_of(tmp_path, 'a\n""\n\nx\n') == [{"a": ""}, {"a": "x"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n3\n", r"line 3: 1 field, but the header has 2 \(good items before it: 1\)"),
        ("a,b\n1,2\n3,4,5\n", r"line 3: 3 fields, but the header has 2 \(good items before it: 1\)"),
        ('a,b\n1,"x\ny"\n3\n', r"line 4: 1 field, but the header has 2 \(good items before it: 1\)"),
        ("\na,b,a\n1,2,3\n", r"line 2: the header has a column twice: a, b, a \(good items before it: 0\)"),
        ('a,b\n1,2\n"x"y,3\n', r"line 3: .*expected after.* \(good items before it: 1\)"),
        ('a,b\n1,2\n"x,3\n', r"line 3: unexpected end of data \(good items before it: 1\)"),
        (b"a,b\n1,2\n\xc3\xa9\xff,3\n", r"line 3, column 2: not UTF-8; .* \(good items before it: 1\)"),
        (
            b"a,b\n1,caf\xe9\n",
            r"line 2, column 6: not UTF-8; save the file in that encoding \(good items before it: 0\)",
        ),
        ("a,b\n1,2\n".encode("utf-16"), r"line 1, column 1: not UTF-8"),
        (b"a,b\n1,\xed\xa0\x80\n", r"line 2, column 3: not UTF-8"),
    ],
)
def test_a_row_that_does_not_fit_names_its_line(tmp_path, content, message):
    with pytest.raises(gm.SourceError, match=message):
        items_of(tmp_path, content)


# --- writing ---


def test_the_columns_are_the_union_over_all_rows_in_the_order_they_came(tmp_path):
    rows = exported(tmp_path, [{"a": 1}, {"b": 2, "a": 3}, "plain", {}])
    assert [name for name in rows[0] if name.startswith("output")] == ["output.a", "output.b", "output"]
    assert [(row["output.a"], row["output.b"], row["output"]) for row in rows] == [
        ("1", "", ""),
        ("3", "2", ""),
        ("", "", "plain"),
        ("", "", "{}"),
    ]


def test_metadata_of_which_a_row_has_none_is_no_column_beside_its_parts():
    stream = io.BytesIO()
    writer = CsvWriter(stream)
    writer.write({"id": "a", "metadata": {"model": "a/b"}})
    writer.write({"id": "b", "metadata": {}})
    writer.finish()
    assert stream.getvalue().decode().splitlines() == ["id,metadata.model", "a,a/b", "b,"]


def test_every_row_has_the_documented_columns(tmp_path):
    (row,) = exported(tmp_path, ["x"])
    assert list(row) == [
        "id",
        "status",
        "input",
        "output",
        "error",
        "attempts",
        "queued_s",
        "duration_s",
        "usage",
        "cost_usd",
        "metadata",
    ]


def test_an_item_s_fields_and_a_failure_s_are_columns_too(tmp_path):
    def fail(item):
        raise gm.Permanent('broken, "really"\nbroken')

    gm.batch(fail, [{"id": "a", "name": "x"}]).export(tmp_path / "out.csv")
    (row,) = gm.source(tmp_path / "out.csv")
    assert (row["id"], row["input.id"], row["input.name"]) == ("a", "a", "x")
    assert (row["status"], row["error.kind"], row["error.message"]) == (
        "failed",
        "permanent",
        'broken, "really"\nbroken',
    )


def test_what_is_deeper_is_json_text(tmp_path):
    (row,) = exported(
        tmp_path,
        [{"list": [1, {"é": None}], "mapping": {"a": True}, "yes": True, "no": None, "half": 0.5, "many": 10**30}],
    )
    assert (row["output.list"], row["output.mapping"]) == ('[1,{"é":null}]', '{"a":true}')
    assert (row["output.yes"], row["output.no"], row["output.half"], row["output.many"]) == (
        "true",
        "",
        "0.5",
        str(10**30),
    )


@pytest.mark.parametrize(
    "text",
    ["=1+1", "=cmd|'/c calc'!A0", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "-", "--1", "+49 30 1", "=", "-1e"],
)
def test_what_a_spreadsheet_would_run_is_written_as_text(tmp_path, text):
    (row,) = exported(tmp_path, [{"plain": text, "deep": [text]}])
    assert row["output.plain"] == "'" + text
    assert row["output.deep"].startswith("[")


def test_ids_inputs_and_messages_are_guarded_like_outputs(tmp_path):
    def fail(item):
        raise gm.Permanent("=message")

    gm.batch(fail, [{"id": "=id", "name": "=name"}, "=item"]).export(tmp_path / "out.csv")
    first, second = gm.source(tmp_path / "out.csv")
    assert (first["id"], first["input.name"], first["error.message"], second["input"]) == (
        "'=id",
        "'=name",
        "'=message",
        "'=item",
    )


@pytest.mark.parametrize("text", ["-1", "+1.5", "-2e5", "-.5", "1=1", "a@b", "'=1", " =1", "", "x-1"])
def test_numbers_and_plain_text_are_written_as_they_are(tmp_path, text):
    (row,) = exported(tmp_path, [{"text": text}])
    assert row["output.text"] == text


@pytest.mark.parametrize(
    ("number", "written"), [(-1, "-1"), (-0.5, "-0.5"), (float("nan"), ""), (float("-inf"), ""), (1e300, "1e+300")]
)
def test_numbers_are_not_text(tmp_path, number, written):
    assert exported(tmp_path, [number])[0]["output"] == written


@given(st.lists(st.dictionaries(any_text, any_text, min_size=1, max_size=3), min_size=1, max_size=4))
@settings(deadline=None, max_examples=50)
def test_any_text_is_read_back_from_our_own_table_but_for_the_apostrophe(tmp_path_factory, outputs):
    path = tmp_path_factory.getbasetemp() / "ours.csv"
    gm.batch(lambda position: outputs[position], range(len(outputs))).export(path)
    for output, row in zip(outputs, gm.source(path), strict=True):
        for name, text in output.items():
            assert row[f"output.{name}"] in (text, "'" + text)


@pytest.mark.parametrize("text", LONE_SURROGATES.values(), ids=LONE_SURROGATES)
def test_half_a_character_which_the_encoding_lacks_is_written_as_its_escape(tmp_path, text):
    (row,) = exported(tmp_path, [{text: text}])
    escaped = text.encode("utf-8", "backslashreplace").decode()
    assert row[f"output.{escaped}"] == escaped


def test_a_batch_of_nothing_is_a_table_of_nothing(tmp_path):
    gm.batch(lambda item: item, []).export(tmp_path / "out.csv")
    assert list(gm.source(tmp_path / "out.csv")) == []
