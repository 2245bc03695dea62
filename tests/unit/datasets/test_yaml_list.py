import json

import pytest

import graphmill as gm
from support.odd_texts import LONE_SURROGATES, ODD_TEXTS


def items_of(folder, content):
    path = folder / "items.yaml"
    path.write_bytes(content)
    return list(gm.source(path))


def quoted(text):
    """Write text as YAML escapes it."""
    return '"' + "".join(f"\\U{ord(char):08x}" for char in text) + '"'


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
def test_any_text_is_read_whole_where_it_is_escaped(tmp_path, text):
    assert items_of(tmp_path, f"- {quoted(text)}\n- {quoted(text)}: {quoted(text)}\n".encode()) == [text, {text: text}]


@pytest.mark.parametrize(
    "name", ["emoji", "right to left", "combining", "line separator", "paragraph separator", "looks like a template"]
)
def test_text_is_read_whole_where_it_is_quoted(tmp_path, name):
    assert items_of(tmp_path, f"- \"{ODD_TEXTS[name]}\"\n- '{ODD_TEXTS[name]}'\n".encode()) == [ODD_TEXTS[name]] * 2


@pytest.mark.parametrize("text", LONE_SURROGATES.values(), ids=LONE_SURROGATES)
def test_half_a_character_which_yaml_lacks_is_refused_with_its_line(tmp_path, text):
    with pytest.raises(gm.SourceError, match=r"line 2, column \d+: .*invalid Unicode character"):
        items_of(tmp_path, f"- fine\n- {json.dumps(text)}".encode())


def test_items_are_plain_data(tmp_path):
    assert items_of(tmp_path, b"- no\n- 2024-02-29\n- 12:30\n- {n: 1, on: true}\n- ~\n- [1.5]\n") == [
        "no",
        "2024-02-29",
        "12:30",
        {"n": 1, "on": True},
        None,
        [1.5],
    ]


def test_a_repeated_key_names_the_file_and_its_line(tmp_path):
    with pytest.raises(
        gm.SourceError,
        match=r"items\.yaml: line 3, column 3: repeated key 'a' \(good items before it: 0\)",
    ):
        items_of(tmp_path, b"- 1\n- a: 1\n  a: 2\n")
