"""What is selected of a source: the same rows in every process, lazily where that is possible."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphmill as gm
from graphmill.datasets.selection import ItemSelection
from graphmill.datasets.source import noted_source

ROWS = [{"id": f"r{number}", "level": number % 5, "kind": "ab"[number % 3 == 0]} for number in range(60)]


@pytest.fixture
def path(tmp_path):
    return written(tmp_path / "rows.jsonl", ROWS)


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def ids(source):
    return [item["id"] for item in source]


def test_filters_come_before_offset_and_limit_and_all_of_them_must_fit(path):
    source = gm.source(path, filters={"level": 2, "kind": "a"}, offset=1, limit=3)
    fitting = [row["id"] for row in ROWS if row["level"] == 2 and row["kind"] == "a"]
    assert ids(source) == fitting[1:4]
    assert source.count() == 3
    assert gm.source(path, filters={"level": 2}).count() == 12


@pytest.mark.parametrize(
    ("item", "name", "value", "is_taken"),
    [
        ({"level": 5}, "level", "5", True),
        ({"level": "5"}, "level", "5", True),
        ({"level": 5.0}, "level", "5", True),
        ({"level": True}, "level", "1", False),
        ({"level": None}, "level", "null", True),
        ({"metadata": {"level": 5}}, "level", "5", True),
        ({"level": 4, "metadata": {"level": 5}}, "level", "5", False),
        ({"a": {"b c": ["x", "y"]}}, "a.b c", "y", True),
        ({"a.b": 1, "a": {"b": 2}}, "a.b", "1", True),
        ({"other": 1}, "level", "5", False),
        ("text", "level", "5", False),
    ],
)
def test_a_filter_compares_text_or_json_and_looks_into_metadata(tmp_path, item, name, value, is_taken):
    source = gm.source(written(tmp_path / "a.jsonl", [{name: "never"}, item]), filters=[(name, value)])
    assert len(list(source)) == is_taken


def test_a_filter_by_a_field_that_no_row_has_names_the_nearest(path):
    with pytest.raises(gm.SourceError, match=r"no row has a field 'levl' \(did you mean 'level'\?\)"):
        list(gm.source(path, filters={"levl": 5}))


def test_a_shuffle_depends_on_the_seed_and_the_rows_and_on_nothing_else(tmp_path, path):
    first = ids(gm.source(path, shuffle=7))
    assert (sorted(first), first == ids(gm.source(path, shuffle=7))) == (sorted(ids(ROWS)), True)
    assert first != ids(ROWS)
    assert first != ids(gm.source(path, shuffle=8))
    assert ids(gm.source(path, shuffle=7, offset=5, limit=10)) == first[5:15]
    # Without two rows, in another order, with the columns in another order: the others are where they were.
    others = [dict(reversed(row.items())) for row in reversed(ROWS[2:])]
    left = ids(gm.source(written(tmp_path / "others.jsonl", others), shuffle=7))
    assert left == [name for name in first if name not in ("r0", "r1")]


def test_a_sample_is_drawn_by_the_seed_and_keeps_the_order_of_the_source_unless_shuffled(path):
    drawn = ids(gm.source(path, sample=10))
    assert len(drawn) == 10
    assert drawn == [row["id"] for row in ROWS if row["id"] in drawn]
    assert drawn != ids(gm.source(path, sample=10, shuffle=3))
    assert ids(gm.source(path, sample=10, shuffle=3)) == ids(gm.source(path, shuffle=3))[:10]
    assert ids(gm.source(path, sample=100)) == ids(ROWS)
    assert set(ids(gm.source(path, sample=4, filters={"level": 1}))) < {row["id"] for row in ROWS if row["level"] == 1}


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=40), st.integers(0, 50))
@settings(deadline=None, max_examples=60)
def test_a_stratified_sample_has_of_each_value_its_share(values, most):
    rows = [{"id": number, "metadata": {"kind": value}} for number, value in enumerate(values)]
    drawn = list(ItemSelection(sample=most, stratify="kind").apply(iter(rows)))
    assert len(drawn) == min(most, len(rows))
    assert len({row["id"] for row in drawn}) == len(drawn)
    found = Counter(row["metadata"]["kind"] for row in drawn)
    for value, count in Counter(values).items():
        assert abs(found[value] - min(most, len(rows)) * count / len(rows)) < 1


def test_a_sample_by_a_field_that_a_row_lacks_or_without_a_number_is_refused(path):
    with pytest.raises(gm.SourceError, match="a row has no field 'subject' to stratify by"):
        list(gm.source(path, sample=3, stratify="subject"))
    with pytest.raises(gm.UsageError, match=r"needs sample \(--sample\)"):
        gm.source(path, stratify="level")


def test_columns_get_new_names_and_the_others_keep_theirs(tmp_path):
    rows = [{"the question": "q", "answer": {"value": 4}, "x": 1}]
    source = gm.source(
        written(tmp_path / "a.jsonl", rows),
        columns={"problem": "the question", "ground_truth": "answer.value", "x": "x"},
        filters={"ground_truth": 4},
    )
    assert list(source) == [{"problem": "q", "ground_truth": 4, "x": 1, "answer": {"value": 4}}]


def test_a_row_without_a_mapped_column_is_named_by_file_and_line_and_left_out_if_asked(tmp_path):
    path = written(tmp_path / "a.jsonl", [{"question": 1}, {"qestion": 2}, "text", {"question": 3}])
    mapped = {"columns": {"problem": "question"}}
    with pytest.raises(gm.SourceError, match=r"a\.jsonl: line 2: no column 'question' \(did you mean 'qestion'\?\)"):
        list(gm.source(path, **mapped))
    source = gm.source(path, **mapped, skip_bad_rows=True)
    assert list(source) == [{"problem": 1}, {"problem": 3}]
    assert (source.bad_count, len(source.bad_rows)) == (2, 2)
    assert "line 3" in source.bad_rows[1]


def test_items_that_are_held_are_fresh_for_everyone_and_read_again_when_the_file_changes(path):
    source = gm.source(path, filters={"level": 1}, limit=1)
    next(iter(source))["id"] = "spoilt"
    assert ids(source) == ["r1"]
    written(path, [{"id": "new", "level": 1}])
    assert ids(source) == ["new"]


def test_a_filter_with_a_limit_reads_no_further_than_it_must(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS) + "broken\n")
    assert len(list(gm.source(path, filters={"level": 1}, limit=12))) == 12
    with pytest.raises(gm.SourceError, match="line 61"):
        list(gm.source(path, filters={"level": 1}))


@pytest.mark.parametrize(
    "chosen",
    [
        {},
        {"limit": 0},
        {"shuffle": 0},
        {"columns": {"problem": "id"}, "filters": {"level": 2}, "shuffle": 4, "offset": 2, "limit": 4},
        {"sample": 9, "stratify": "level", "skip_bad_rows": True},
    ],
)
def test_what_is_noted_of_a_source_opens_the_same_again(path, chosen):
    source = gm.source(path, **chosen)
    note = json.loads(json.dumps(source.note()))
    again = noted_source(note)
    assert (list(again), again.note(), again.skips_bad_rows) == (list(source), note, bool(chosen.get("skip_bad_rows")))
