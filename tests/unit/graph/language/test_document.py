import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphmill as gm
from graphmill.core.json import scan
from graphmill.core.positions import text_place
from graphmill.graph.language.document import Document


def write(folder, text, name="flow.yaml"):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def problems_of(path):
    with pytest.raises(gm.WorkflowError) as caught:
        Document.read(path)
    folder = str(path.parent) + "/"
    return [line.removeprefix(folder) for line in str(caught.value).splitlines()]


def placed_of(path):
    """Give the places of what is wrong; None if nothing is."""
    try:
        Document.read(path)
    except gm.WorkflowError as error:
        return error.placed
    return None


# --- data ---


def test_yaml_and_json_give_the_same_data_and_the_folder_is_known(tmp_path):
    data = {"name": "a", "nodes": [{"id": "n", "params": {"x": [1, 2.5, None, True, "😀 12:30"]}}]}
    yaml_document = Document.read(write(tmp_path, json.dumps(data, ensure_ascii=False)))
    json_document = Document.read(str(write(tmp_path, json.dumps(data), "flow.JSON")))
    assert yaml_document.data == json_document.data == data
    assert yaml_document.root == json_document.root == tmp_path
    assert json_document.path == str(tmp_path / "flow.JSON")


def test_data_needs_no_file_and_has_no_lines():
    document = Document.from_data({"nodes": []})
    assert (document.path, document.root) == ("workflow", None)
    assert document.place(("nodes", 0)) == ("workflow", 0, 0)


def test_data_may_be_given_with_the_path_that_it_stands_for(tmp_path):
    document = Document.from_data({"nodes": []}, tmp_path / "made.py")
    assert (document.path, document.root) == (str(tmp_path / "made.py"), tmp_path)


def test_data_that_holds_itself_or_is_too_deep_is_refused_and_shared_data_is_not():
    itself: list = []
    itself.append(itself)
    deep: list = []
    for _ in range(200):
        deep = [deep]
    shared: list = []
    for _ in range(100):
        shared = [shared, shared]
    for data in (itself, deep):
        with pytest.raises(gm.WorkflowError, match="nested deeper than 200 levels, or contains itself"):
            Document.from_data({"nodes": data})
    assert Document.from_data({"nodes": shared}).data["nodes"] is shared


# --- places ---

YAML = """\
name: places
nodes:
  - id: fetch
    type: http
    params: {url: "${base}/x", note: plain text, "quoted\\tkey": 1}
  - id: ask
    params:
      prompt: |
        Hello ${user}
          and ${other}
      folded: >
        one
        two
edges:
  - {from: fetch, to: ask}
"""


@pytest.mark.parametrize(
    ("at", "place"),
    [
        ((), (1, 1)),
        (("name",), (1, 7)),
        (("nodes",), (3, 3)),
        (("nodes", 0), (3, 5)),
        (("nodes", 0, "type"), (4, 11)),
        (("nodes", 0, "params"), (5, 13)),
        (("nodes", 0, "params", "note"), (5, 38)),
        (("nodes", 0, "params", "quoted\tkey"), (5, 65)),
        (("nodes", 1, "params", "prompt"), (8, 15)),
        (("edges", 0, "to"), (15, 23)),
        (("nodes", 7), (3, 3)),
        (("nodes", 0, "batch", "items"), (3, 5)),
        (("name", "deeper"), (1, 7)),
        (("nodes", -1), (3, 3)),
        (("nodes", "x"), (3, 3)),
    ],
)
def test_a_part_of_yaml_is_found_and_a_missing_one_stands_at_its_nearest_parent(tmp_path, at, place):
    path = write(tmp_path, YAML)
    assert Document.read(path).place(at) == (str(path), *place)


@pytest.mark.parametrize(
    ("at", "text", "place"),
    [
        (("nodes", 0, "params", "url"), "${base}/x"[2:], (5, 22)),
        (("nodes", 0, "params", "note"), "text", (5, 44)),
        (("nodes", 1, "params", "prompt"), "${user}", (9, 15)),
        (("nodes", 1, "params", "prompt"), "${other}", (10, 15)),
        (("nodes", 1, "params", "folded"), "two", (11, 15)),
    ],
)
def test_a_place_inside_a_text_is_exact_where_the_text_is_written_as_it_is(tmp_path, at, text, place):
    document = Document.read(write(tmp_path, YAML))
    offset = document.get(at).index(text)
    assert document.place(at, offset=offset)[1:] == place


def test_a_key_has_a_place_of_its_own(tmp_path):
    document = Document.read(write(tmp_path, YAML))
    assert document.place(("nodes", 0, "params", "note"), is_key=True)[1:] == (5, 32)
    assert document.place(("nodes", 0), is_key=True)[1:] == (3, 5)
    json_document = Document.read(write(tmp_path, '{\n  "nodes": [{"id": "a"}]\n}', "a.json"))
    assert json_document.place(("nodes",), is_key=True)[1:] == (2, 3)
    assert json_document.place(("nodes", 0, "id"), is_key=True)[1:] == (2, 14)
    assert json_document.place(("nodes", 0, "gone"), is_key=True)[1:] == (2, 13)


def test_parts_that_an_anchor_or_a_merge_brings_in_stand_where_they_are_written(tmp_path):
    text = "base: &base {a: 1, b: 2}\nnodes:\n  - {<<: *base, b: 3}\n  - *base\n"
    document = Document.read(write(tmp_path, text))
    assert document.data["nodes"] == [{"a": 1, "b": 3}, {"a": 1, "b": 2}]
    assert [document.place(("nodes", 0, key))[1:] for key in "ab"] == [(1, 17), (3, 20)]
    assert document.place(("nodes", 1, "b"))[1:] == (1, 23)


def test_a_part_of_json_is_found_past_escapes_and_surrogate_pairs(tmp_path):
    text = '{"a\\"}": "\\ud83d\\ude00 }",\n "nodes": [[], {"😀": "${x} ${y}", "e": "\\u0024 ${y}"}, null]}'
    document = Document.read(write(tmp_path, text, "a.json"))
    assert document.place(('a"}',))[1:] == (1, 10)
    assert document.place(("nodes", 1, "😀"))[1:] == (2, 22)
    assert document.place(("nodes", 1, "😀"), offset=5)[1:] == (2, 28)
    assert document.place(("nodes", 1, "e"), offset=2)[1:] == (2, 40)
    assert document.place(("nodes", 2))[1:] == (2, 56)
    assert document.place(("nodes", 3))[1:] == (2, 11)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


def parts(value, at=()):
    yield at, value
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, entry in entries:
        yield from parts(entry, (*at, name))


@given(values, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_what_stands_at_the_place_of_a_part_of_json_is_that_part(value, is_ascii, indent):
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    root = scan(text)
    for at, part in parts(value):
        found = root
        for name in at:
            found = found.parts[name]
        assert json.JSONDecoder().raw_decode(text, found.start)[0] == part
        assert found.end >= found.start


plain = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain, inner, max_size=3),
    max_leaves=12,
)


@given(plain_values)
def test_what_stands_at_the_place_of_a_part_of_yaml_is_that_part(tmp_path_factory, value):
    text = json.dumps(value, indent=1)
    document = Document.read(write(tmp_path_factory.getbasetemp(), text, "places.yaml"))
    lines = text.split("\n")
    for at, part in parts(value):
        _, line, column = document.place(at)
        rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        assert json.JSONDecoder().raw_decode(rest)[0] == part


@given(st.text(), st.integers(0, 50))
def test_line_and_column_are_those_of_an_editor(text, offset):
    before = text[:offset]
    assert text_place(text, min(offset, len(text))) == (before.count("\n") + 1, len(before.split("\n")[-1]) + 1)


# --- names of parts ---


def test_a_part_is_named_as_a_person_would(tmp_path):
    inner = {"nodes": [{"id": "solve"}]}
    data = {"nodes": [{"id": "a", "params": {"list": [1, {"b": 2}], "workflow": inner}}, {"type": "x"}, "text"]}
    document = Document.from_data(data)
    names = {
        (): "workflow",
        ("nodes",): "nodes",
        ("nodes", 0): "node 'a'",
        ("nodes", 0, "params", "list", 1, "b"): "node 'a': params.list[1].b",
        ("nodes", 0, "params", "workflow", "nodes", 0, "batch"): "node 'a': params.workflow: node 'solve': batch",
        ("nodes", 1): "node 2 in the list",
        ("nodes", 2): "node 3 in the list",
        ("inputs", "url", "type"): "input 'url': type",
        ("outputs", "x"): "output 'x'",
        ("edges", 1, "from"): "edge 2 in the list: from",
    }
    assert {at: document.at_text(at) for at in names} == names


# --- !file ---


def test_a_file_s_text_or_data_stands_in_for_its_name(tmp_path):
    write(tmp_path, "Hello ${user}\n", "prompts/ask.md")
    write(tmp_path, '{"type": "object"}', "schema.json")
    write(tmp_path, "- 1\n- no\n", "list.yml")
    document = Document.read(
        write(tmp_path, "a: !file prompts/ask.md\nb: [!file schema.json, !file 'list.yml', !file ./schema.json]")
    )
    assert document.data == {"a": "Hello ${user}\n", "b": [{"type": "object"}, [1, "no"], {"type": "object"}]}
    assert document.data["b"][0] is document.data["b"][2]


def test_places_inside_a_file_s_value_are_those_of_the_file(tmp_path):
    write(tmp_path, "Hello\n${user}\n", "ask.md")
    write(tmp_path, '{"a":\n [1, "${x}"]}', "b.json")
    write(tmp_path, "a:\n  - ${x}", "c.yaml")
    document = Document.read(write(tmp_path, "a: !file ask.md\nb: !file b.json\nc: !file c.yaml\n"))
    assert document.place(("a",), offset=6) == (str(tmp_path / "ask.md"), 2, 1)
    assert document.place(("b", "a", 1)) == (str(tmp_path / "b.json"), 2, 6)
    assert document.place(("c", "a", 0)) == (str(tmp_path / "c.yaml"), 2, 5)
    assert document.place(("b",), is_key=True) == (str(tmp_path / "flow.yaml"), 2, 1)


def test_every_file_that_can_not_be_read_is_told_at_once(tmp_path):
    write(tmp_path, b"fine\n\xff\xfe", "binary.md")
    write(tmp_path, b"a\0b", "nul.md")
    write(tmp_path, '{"a": 1,\n "a": 2}', "twice.json")
    write(tmp_path, "a: [", "open.yaml")
    write(tmp_path, "a: !file x.md", "again.yaml")
    write(tmp_path, "x", "prompt.md")
    text = """\
- !file promt.md
- !file ''
- !file [a]
- !file {a: b}
- !file .
- !file binary.md
- !file nul.md
- !file twice.json
- !file open.yaml
- !file again.yaml
- !file "a\\0b"
"""
    assert problems_of(write(tmp_path, text)) == [
        "flow.yaml:1:3: !file: no file 'promt.md' (did you mean 'prompt.md'?)",
        "flow.yaml:2:3: !file: must be followed by a file name, as in !file prompt.md",
        "flow.yaml:3:3: !file: must be followed by a file name, as in !file prompt.md",
        "flow.yaml:4:3: !file: must be followed by a file name, as in !file prompt.md",
        "flow.yaml:5:3: !file: '.' is a folder",
        "binary.md:2:1: the file is not UTF-8 text",
        "nul.md:1:2: the file is not UTF-8 text",
        "twice.json:2:2: repeated key 'a' in one object",
        "open.yaml:2:1: while parsing a flow node, did not find expected node content",
        "again.yaml:1:4: !file is only allowed in workflow files, not in included files",
        "flow.yaml:11:3: !file: 'a\\x00b' is not a file name: it contains a NUL character",
    ]


def test_a_file_outside_the_workflow_s_folder_is_refused_by_whatever_way_it_is_named(tmp_path):
    outside = write(tmp_path, "secret", "outside.md")
    folder = tmp_path / "flows"
    folder.mkdir()
    (folder / "link.md").symlink_to(outside)
    (folder / "up").symlink_to(tmp_path)
    (folder / "loop.md").symlink_to("loop.md")
    names = ["../outside.md", str(outside), "link.md", "up/outside.md", "up/flows/../outside.md"]
    text = "".join(f"- !file {name}\n" for name in names)
    remedy = "is outside the workflow's folder; put the file beside the workflow or below it"
    assert problems_of(write(folder, text)) == [
        f"flow.yaml:{line}:3: !file: {name!r} {remedy}" for line, name in enumerate(names, 1)
    ]
    assert "loop.md" in problems_of(write(folder, "!file loop.md"))[0]


def test_a_link_that_stays_inside_is_followed_also_from_a_folder_that_is_a_link(tmp_path):
    real = tmp_path / "real"
    write(real, "text", "a.md")
    (real / "b.md").symlink_to("a.md")
    (tmp_path / "link").symlink_to(real)
    write(real, "!file b.md")
    assert Document.read(tmp_path / "link" / "flow.yaml").data == "text"


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.md")
    assert problems_of(write(tmp_path, "!file pipe.md")) == ["flow.yaml:1:1: !file: 'pipe.md' is not a regular file"]


def test_a_file_that_is_too_large_is_refused(tmp_path):
    with (tmp_path / "large.md").open("wb") as file:
        file.truncate(10_000_001)
    told = "'large.md': the included file is larger than 10 MB"
    assert problems_of(write(tmp_path, "a: !file large.md")) == [f"flow.yaml:1:4: !file: {told}"]


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path):
    write(tmp_path, b"\xef\xbb\xbfHello", "a.md")
    assert Document.read(write(tmp_path, "!file a.md")).data == "Hello"


# --- texts that can not be read ---

BOMB = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12))])


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.yaml", "nodes: [1,\n  2", "3:1: while parsing a flow sequence, did not find expected ',' or ']'"),
        ("a.yaml", "nodes: []\nname: a\nnodes: []", "3:1: repeated key 'nodes'"),
        (
            "a.yaml",
            "a: !!python/name:os.system x",
            "1:4: could not determine a constructor for the tag 'tag:yaml.org,2002:python/name:os.system'",
        ),
        ("a.yaml", "- " * 201 + "x", "1:399: nested deeper than 200 levels"),
        ("a.yaml", BOMB, "8:5: its aliases expand to more than 10,000,000 values"),
        ("a.yaml", b"a: 1\nb: \xff", "2:4: invalid leading UTF-8 octet"),
        ("a.json", '{"nodes": []\n oops}', "2:2: not JSON: Expecting ',' delimiter"),
        ("a.json", '{"a": 1,\n "nodes": [], "nodes": []}', "2:15: repeated key 'nodes' in one object"),
        ("a.json", '{"a": [{"b": 1, "\\u0062": 2}]}', "1:17: repeated key 'b' in one object"),
        ("a.json", '\n{"a":' + "[" * 200 + "]" * 200 + "}", "2:205: nested deeper than 200 levels"),
        (
            "a.json",
            b'{"a":\n "\xff"}',
            "2:3: not JSON: 'utf-8' codec can't decode byte 0xff in position 8: invalid start byte",
        ),
        ("a.json", "", "1:1: not JSON: Expecting value"),
    ],
)
def test_a_text_that_can_not_be_read_is_told_with_line_and_column(tmp_path, name, text, problem):
    (found,) = problems_of(write(tmp_path, text, name))
    assert found.startswith(f"{name}:{problem}")


def test_a_workflow_that_is_too_large_is_refused_before_it_is_read_whole(tmp_path):
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(3_000_000_000)
    assert problems_of(path) == ["large.yaml: the workflow file is larger than 10 MB"]


def test_a_file_that_is_not_there_or_no_file_is_a_usage_error(tmp_path):
    with pytest.raises(gm.UsageError, match=r"no workflow file '.*review\.yaml'"):
        Document.read(tmp_path / "review.yaml")
    with pytest.raises(gm.UsageError, match=r"cannot read the workflow file .*: its name contains a NUL character"):
        Document.read("a\0b.yaml")


@given(st.binary(max_size=200), st.sampled_from(["a.yaml", "a.json"]))
def test_any_bytes_are_data_or_a_problem_with_a_place(tmp_path_factory, text, name):
    path = write(tmp_path_factory.getbasetemp(), text, name)
    placed = placed_of(path)
    assert placed is None or [problem.line >= 1 <= problem.column for problem in placed] == [True]
