import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphmill as gm
from support.odd_texts import LONE_SURROGATES, ODD_TEXTS, json_values


def items_of(folder, content):
    path = folder / "items.json"
    path.write_bytes(content)
    return list(gm.source(path))


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
def test_any_text_is_read_whole_raw_or_escaped(tmp_path, text):
    items = [text, {text: text}]
    assert items_of(tmp_path, json.dumps(items).encode()) == items
    assert items_of(tmp_path, b"\xef\xbb\xbf" + json.dumps(items, ensure_ascii=False, indent="\t").encode()) == items


@pytest.mark.parametrize("text", LONE_SURROGATES.values(), ids=LONE_SURROGATES)
def test_half_a_character_is_read_where_it_is_escaped(tmp_path, text):
    assert items_of(tmp_path, json.dumps([text]).encode()) == [text]


@given(st.lists(json_values, max_size=4))
@settings(deadline=None, max_examples=50)
def test_outputs_are_read_back_from_an_export(tmp_path_factory, outputs):
    path = tmp_path_factory.getbasetemp() / "ours.json"
    gm.batch(lambda position: outputs[position], range(len(outputs))).export(path)
    assert [row["output"] for row in gm.source(path)] == outputs


def test_an_export_is_one_array_with_a_row_per_line(tmp_path):
    path = tmp_path / "out.json"
    gm.batch(lambda item: item, ["a\u2028b", "c"]).export(path)
    lines = path.read_bytes().decode().splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("[", "]", 4)
    assert [row["output"] for row in json.loads(path.read_bytes())] == ["a\u2028b", "c"]


def test_a_batch_of_nothing_is_an_empty_array(tmp_path):
    gm.batch(lambda item: item, []).export(tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_bytes()) == []
