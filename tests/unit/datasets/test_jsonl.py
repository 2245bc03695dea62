import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphmill as gm
from support.odd_texts import LONE_SURROGATES, ODD_TEXTS, json_values


def items_of(folder, content):
    path = folder / "items.jsonl"
    path.write_bytes(content)
    return list(gm.source(path))


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
def test_any_text_is_read_whole_raw_or_escaped(tmp_path, text):
    item = {"id": text, text: [text]}
    raw = json.dumps(item, ensure_ascii=False).encode()
    escaped = json.dumps(item).encode()
    assert items_of(tmp_path, raw + b"\n" + escaped + b"\r\n" + raw) == [item] * 3


@pytest.mark.parametrize("text", LONE_SURROGATES.values(), ids=LONE_SURROGATES)
def test_half_a_character_is_read_where_it_is_escaped(tmp_path, text):
    assert items_of(tmp_path, json.dumps([text]).encode()) == [[text]]


@given(st.lists(json_values, max_size=4), st.sampled_from([b"\n", b"\r\n", b"\n\n", b" \n"]), st.booleans())
@settings(deadline=None)
def test_any_items_are_read_back_whatever_the_line_ends(tmp_path_factory, items, end, escape):
    content = end.join(json.dumps(item, ensure_ascii=escape).encode("utf-8", "surrogatepass") for item in items)
    assert items_of(tmp_path_factory.getbasetemp(), content) == items


def test_a_byte_order_mark_before_the_first_item_is_passed_over(tmp_path):
    assert items_of(tmp_path, b'\xef\xbb\xbf{"a": 1}\n2\n') == [{"a": 1}, 2]


def test_numbers_that_json_lacks_are_read_and_are_null_in_the_results(tmp_path):
    items = items_of(tmp_path, b"NaN\n[Infinity]\n")
    assert math.isnan(items[0])
    assert items[1] == [math.inf]
    gm.batch(lambda item: item, items).export(tmp_path / "out.jsonl")
    assert [(row["input"], row["output"]) for row in gm.source(tmp_path / "out.jsonl")] == [
        (None, None),
        ([None], [None]),
    ]


@pytest.mark.parametrize(
    ("line", "place"),
    [
        (b'{"a":', "line 3, column 6: not JSON: Expecting value"),
        (b'  {"a" 1}', "line 3, column 8: not JSON: Expecting ':' delimiter"),
        (b'{"a": "open', "line 3, column 7: not JSON: Unterminated string"),
        (b"{'a': 1}", "line 3, column 2: not JSON: "),
        (b"1 2", "line 3, column 3: not JSON: Extra data"),
        (b'{"a": 1}\r{"a": 2}', "line 3, column 10: not JSON: Extra data"),
        (b'"a\tb"', "line 3, column 3: not JSON: Invalid control character"),
        (b'"a\x00b"', "line 3, column 3: not JSON: Invalid control character"),
        (b'"\xc3\xa9\xff"', "line 3, column 3: not JSON: .*0xff"),
        ("\u2028".encode(), "line 3, column 1: not JSON"),
    ],
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_bad_line_is_named_with_its_column(tmp_path, line, place, end):
    with pytest.raises(gm.SourceError, match=rf"{place}.*\(good items before it: 1\)") as caught:
        items_of(tmp_path, b"1\n\n" + line + end)
    assert caught.value.position == 1


def test_a_row_is_one_line_even_where_lines_end_at_every_unicode_line_end(tmp_path):
    text = "".join(ODD_TEXTS.values())
    gm.batch(lambda item: item, [{"id": text, text: text}]).export(tmp_path / "out.jsonl")
    assert len((tmp_path / "out.jsonl").read_bytes().decode().splitlines()) == 1
