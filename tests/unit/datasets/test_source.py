import datetime
import decimal
import errno
import gc
import gzip
import io
import json
import os
import sys
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import graphmill as gm


def parquet(rows, **options):
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), stream, **options)
    return stream.getvalue()


THREE = {
    "items.jsonl": '{"n": 1}\n{"n": 2}\n{"n": 3}\n',
    "items.ndjson": '{"n": 1}\n{"n": 2}\n{"n": 3}\n',
    "items.json": '[{"n": 1}, {"n": 2}, {"n": 3}]',
    "items.yaml": "- n: 1\n- n: 2\n- {n: 3}\n",
    "items.yml": "- n: 1\n- n: 2\n- {n: 3}\n",
    "ITEMS.JSONL": '{"n": 1}\n{"n": 2}\n{"n": 3}\n',
    "items.jsonl.gz": gzip.compress(b'{"n": 1}\n{"n": 2}\n{"n": 3}\n'),
    "items.yaml.gz": gzip.compress(b"- n: 1\n- n: 2\n- {n: 3}\n"),
    "compressed.jsonl": gzip.compress(b'{"n": 1}\n{"n": 2}\n{"n": 3}\n'),
    "items.parquet": parquet([{"n": 1}, {"n": 2}, {"n": 3}]),
    "items.parquet.gz": gzip.compress(parquet([{"n": 1}, {"n": 2}, {"n": 3}])),
}


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def feed_stdin(monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="ascii"))


@pytest.mark.parametrize("name", THREE)
def test_the_name_says_the_format_and_a_source_can_be_iterated_twice(tmp_path, name):
    source = gm.source(written(tmp_path, name, THREE[name]))
    assert list(source) == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert list(source) == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_a_path_may_be_text_or_a_path_with_spaces_and_any_letters(tmp_path):
    path = written(tmp_path, "Prüfung 結果 😀.jsonl", "1")
    assert list(gm.source(path)) == list(gm.source(str(path))) == [1]


def test_the_format_can_be_said_where_the_name_does_not(tmp_path):
    path = written(tmp_path, "items.txt", '{"n": 1}\n')
    assert list(gm.source(path, format="jsonl")) == [{"n": 1}]


EMPTY = {
    "a.jsonl": ["", "\n \n\r\n", "\ufeff", "\ufeff\n"],
    "a.json": ["[]", "\ufeff [ ]\n"],
    "a.yaml": ["", "# none\n", "[]", "---\n", "\ufeff"],
    "a.csv": ["", "\n\n", "a,b\n", "\ufeff", "\ufeffa,b"],
}


@pytest.mark.parametrize(
    ("name", "content"), [(name, content) for name, contents in EMPTY.items() for content in contents]
)
def test_an_empty_file_has_no_items(tmp_path, name, content):
    source = gm.source(written(tmp_path, name, content))
    assert list(source) == []
    assert gm.batch(lambda item: item, source).summary() == "0/0 items succeeded"


@pytest.mark.parametrize(
    ("name", "content"), [("a.jsonl", '"x"'), ("a.json", '["x"]'), ("a.yaml", "- x"), ("a.yaml", "[x]")]
)
def test_one_item_without_a_last_line_end_is_an_item(tmp_path, name, content):
    assert list(gm.source(written(tmp_path, name, content))) == ["x"]


FALSY = [None, 0, "", [], False, {}, 0.0]


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.jsonl", "\n".join(map(json.dumps, FALSY))), ("a.json", json.dumps(FALSY)), ("a.yaml", json.dumps(FALSY))],
)
def test_a_falsy_item_is_an_item(tmp_path, name, content):
    source = gm.source(written(tmp_path, name, content))
    assert list(source) == FALSY
    assert [type(item) for item in source] == [type(item) for item in FALSY]
    assert gm.batch(lambda item: item, source).collect() == FALSY


def test_an_item_of_ten_megabytes_is_read_in_every_format(tmp_path):
    big = "x" * 10_000_000
    assert list(gm.source(written(tmp_path, "a.jsonl", f'1\n{{"text": "{big}"}}\n2'))) == [1, {"text": big}, 2]
    assert list(gm.source(written(tmp_path, "a.json", f'[1, "{big}"]'))) == [1, big]
    assert list(gm.source(written(tmp_path, "a.yaml", f"- 1\n- {big}\n"))) == [1, big]
    assert list(gm.source(written(tmp_path, "a.csv", f"n,text\n1,{big}\n"))) == [{"n": "1", "text": big}]


def test_a_mistake_in_the_middle_names_the_file_the_place_and_what_came_before(tmp_path):
    path = written(tmp_path, "a.jsonl", '{"n": 1}\n\n{"n": 2}\n{"n": 3\n{"n": 4}\n')
    items = iter(gm.source(path))
    assert [next(items), next(items)] == [{"n": 1}, {"n": 2}]
    with pytest.raises(gm.SourceError) as caught:
        next(items)
    assert str(caught.value) == f"{path}: line 4, column 8: not JSON: Expecting ',' delimiter (good items before it: 2)"
    assert caught.value.position == 2


def test_a_batch_over_a_damaged_source_does_what_came_before_and_reports_it(tmp_path):
    path = written(tmp_path, "a.csv", "n\n1\n2\n3,4\n5\n")
    with pytest.raises(
        gm.SourceError, match=r"a\.csv: line 4: 2 fields, but the header has 1 \(good items before it: 2\)"
    ) as caught:
        gm.batch(lambda item: item["n"], gm.source(path))
    assert caught.value.position == 2
    assert caught.value.report.collect() == ["1", "2"]


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [("a.json", '{"items": []}', "dict"), ("a.json", '"text"', "str"), ("a.yaml", "items: []", "dict")],
)
def test_a_document_that_is_no_list_is_refused_with_the_remedy(tmp_path, name, content, kind):
    with pytest.raises(gm.SourceError, match=rf"must be a list .*got one {kind}; .*\.jsonl") as caught:
        list(gm.source(written(tmp_path, name, content)))
    assert caught.value.position == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.json", '[1,\n2,\n"a" "b"]'), ("a.yaml", "- 1\n- 2\n- a: b: c\n"), ("a.json", b'[1,\n2,\n"a\xff"]')],
)
def test_a_mistake_in_a_document_read_whole_names_line_and_column(tmp_path, name, content):
    with pytest.raises(gm.SourceError, match=r"line 3, column \d.*\(good items before it: 0\)"):
        list(gm.source(written(tmp_path, name, content)))


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.yaml"])
def test_an_item_nested_beyond_reason_is_an_error_with_its_line(tmp_path, name):
    content = "[" * 100_000 + "]" * 100_000
    with pytest.raises(gm.SourceError, match="line 1"):
        list(gm.source(written(tmp_path, name, content)))


def test_whole_numbers_are_read_to_the_last_digit_and_too_many_digits_are_an_error(tmp_path):
    assert list(gm.source(written(tmp_path, "a.jsonl", f"{10**4000}\n{-(2**63) - 1}\n"))) == [10**4000, -(2**63) - 1]
    with pytest.raises(gm.SourceError, match=r"line 2: .*4300"):
        list(gm.source(written(tmp_path, "b.jsonl", "1\n" + "9" * 5000)))


def test_a_name_that_says_no_format_asks_for_it(tmp_path):
    for name in ("items.txt", "items", "items.txt.gz", ".jsonl"):
        with pytest.raises(gm.UsageError, match=r"cannot tell the format of .* one of jsonl, json, yaml, csv"):
            gm.source(written(tmp_path, name, "1"))


def test_an_unknown_format_names_the_nearest(tmp_path):
    with pytest.raises(gm.UsageError, match="no source format 'jsnl' \\(did you mean 'jsonl'\\?\\)"):
        gm.source(tmp_path / "a", format="jsnl")


def test_a_missing_file_is_told_at_once_with_the_nearest_name(tmp_path):
    written(tmp_path, "reviews.jsonl", "1")
    with pytest.raises(gm.UsageError, match=r"no file '.*/review\.jsonl' \(did you mean 'reviews\.jsonl'\?\)"):
        gm.source(tmp_path / "review.jsonl")
    with pytest.raises(gm.UsageError, match=r"no file '.*/zebra\.csv'$"):
        gm.source(tmp_path / "zebra.csv")
    with pytest.raises(gm.UsageError, match="no file"):
        gm.source(tmp_path / "absent" / "reviews.jsonl")


def test_a_folder_is_refused(tmp_path):
    (tmp_path / "a.jsonl").mkdir()
    with pytest.raises(gm.UsageError, match="is a folder; name a file in it"):
        gm.source(tmp_path / "a.jsonl")


def test_what_can_not_be_read_is_told_with_the_system_s_reason(tmp_path, monkeypatch):
    loop = tmp_path / "loop.jsonl"
    loop.symlink_to(loop)
    with pytest.raises(gm.UsageError, match=f"cannot read .*: {os.strerror(errno.ELOOP)}"):
        gm.source(loop)
    with pytest.raises(gm.UsageError, match=f"cannot read .*: {os.strerror(errno.ENAMETOOLONG)}"):
        gm.source(tmp_path / ("x" * 300 + ".jsonl"))
    path = written(tmp_path, "secret.jsonl", "1")
    monkeypatch.setattr(Path, "open", _refuse)
    with pytest.raises(gm.UsageError, match=f"cannot read .*secret.jsonl': {os.strerror(errno.EACCES)}"):
        gm.source(path)


def _refuse(*_args, **_options):
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_a_file_that_is_gone_by_the_time_it_is_read_is_the_source_s_failure(tmp_path):
    path = written(tmp_path, "a.jsonl", "1")
    source = gm.source(path)
    path.unlink()
    with pytest.raises(gm.SourceError, match=r"cannot read '.*a\.jsonl': No such file") as caught:
        list(source)
    assert caught.value.position == 0


@pytest.mark.skipif(sys.platform != "linux", reason="a file that opens but does not read is had from Linux' /proc")
def test_a_file_that_fails_while_it_is_read_is_the_source_s_failure():
    with pytest.raises(gm.SourceError, match=r"/proc/self/mem: .*\(good items before it: 0\)"):
        list(gm.source("/proc/self/mem", format="jsonl"))


def test_a_pipe_is_opened_once_and_not_before_it_is_read(tmp_path):
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    made = []
    maker = Thread(target=lambda: made.append(gm.source(pipe)), daemon=True)
    maker.start()
    maker.join(60)
    assert made, "making the source waits for whoever writes into the pipe"
    writer = Thread(target=pipe.write_text, args=("1\n2\n",))
    writer.start()
    assert list(made[0]) == [1, 2]
    writer.join()


@pytest.mark.parametrize(
    ("format_", "content"),
    [("jsonl", b'"\xc3\xa9"\n2\n'), ("json", b'["\xc3\xa9", 2]'), ("yaml", b"- \xc3\xa9\n- 2\n")],
)
def test_standard_input_is_read_as_utf_8_in_any_format_whatever_the_locale(monkeypatch, format_, content):
    feed_stdin(monkeypatch, content)
    assert list(gm.source("-", format=format_)) == ["é", 2]


def test_standard_input_is_json_lines_unless_told_and_stays_open(monkeypatch):
    feed_stdin(monkeypatch, b"1\n2\n")
    assert list(gm.source("-")) == [1, 2]
    assert not sys.stdin.buffer.closed
    feed_stdin(monkeypatch, b"n\n1\n")
    assert list(gm.source("-", format="csv")) == [{"n": "1"}]
    assert not sys.stdin.buffer.closed


def test_a_mistake_on_standard_input_names_it_and_its_line(monkeypatch):
    feed_stdin(monkeypatch, b"1\nx\n")
    with pytest.raises(
        gm.SourceError, match=r"^standard input: line 2, column 1: not JSON: .* \(good items before it: 1\)"
    ) as caught:
        list(gm.source("-"))
    assert caught.value.position == 1


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.yaml", "a.json"])
def test_a_source_that_is_left_early_closes_its_file_without_a_sound(tmp_path, name):
    content = {"a.csv": "n\n" + "1\n" * 50_000, "a.jsonl": "1\n" * 50_000}.get(name, "[1, 2, 3]")
    items = iter(gm.source(written(tmp_path, name, content)))
    next(items)
    items.close()
    del items
    gc.collect()  # an exception in a reader that is closed too late, or a file left open, would be a warning here: an error


@pytest.mark.parametrize(
    ("content", "count"),
    [
        (b"", 0),
        (b"1\n2", 2),
        (b"1\n\n  \r\n2\n", 2),
        (b"\xef\xbb\xbf\n1\n", 1),
        (b"\xef\xbb\xbf1\n", 1),
        ("\u2028\n".encode(), 1),
    ],
)
def test_json_lines_are_counted_as_they_are_read(tmp_path, content, count):
    assert gm.source(written(tmp_path, "a.jsonl", content)).count() == count


@pytest.mark.parametrize(
    ("content", "count"),
    [
        (b"", 0),
        (b"n\n", 0),
        (b"n\n1\n2", 2),
        (b'n,m\r\n1,"two\r\nlines"\r\n\r\n2,3\r\n', 2),
        (b"n\n\xff\n", 1),
        (b'n\n"open\n', 1),
    ],
)
def test_rows_of_csv_are_counted_as_they_are_read(tmp_path, content, count):
    assert gm.source(written(tmp_path, "a.csv", content)).count() == count


def test_what_would_take_long_or_comes_only_once_is_not_counted(tmp_path, monkeypatch):
    with (tmp_path / "huge.jsonl").open("wb") as stream:
        stream.truncate(2**40)
    assert gm.source(tmp_path / "huge.jsonl").count() is None
    assert gm.source(written(tmp_path, "a.json", "[1]")).count() is None
    feed_stdin(monkeypatch, b"1\n")
    assert gm.source("-").count() is None
    assert list(gm.source("-")) == [1]


# -- more than one file, other formats


def test_a_pattern_reads_all_its_files_in_the_order_of_their_names(tmp_path):
    for name, content in [
        ("b.jsonl", "2\n"),
        ("a.jsonl", "1\n"),
        ("c.jsonl.gz", gzip.compress(b"3\n")),
        ("d.txt", "x"),
    ]:
        written(tmp_path, name, content)
    (tmp_path / "sub").mkdir()
    written(tmp_path / "sub", "e.json", "[4]")
    assert list(gm.source(f"{tmp_path}/*.jsonl*")) == [1, 2, 3]
    assert gm.source(f"{tmp_path}/[ab].jsonl").count() == 2
    assert list(gm.source(f"{tmp_path}/**/*.json")) == [4]
    with pytest.raises(gm.SourceError, match=r"no file matches '.*/\*\.csv'"):
        list(gm.source(f"{tmp_path}/*.csv"))
    written(tmp_path, "b.jsonl", "2\nx\n")
    with pytest.raises(gm.SourceError, match=r"b\.jsonl: line 2, column 1: not JSON.*good items before it: 2"):
        list(gm.source(f"{tmp_path}/*.jsonl"))


def test_a_file_whose_name_looks_like_a_pattern_is_meant_by_itself(tmp_path):
    written(tmp_path, "a.jsonl", "1")
    assert list(gm.source(written(tmp_path, "[a].jsonl", "2"))) == [2]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "id;a text\n1;x, y\n"),
        ("a.csv", "\nid\ta text\n1\tx, y\n"),
        ("a.csv", "id|a text\n1|x, y\n"),
        ("a.csv", '"id","a text"\n1,"x, y"\n'),
        ("a.csv", '"i;d;",a text\n1,"x, y"\n'),
        ("a.tsv", "id\ta text\n1\tx, y\n"),
    ],
)
def test_the_separator_of_columns_is_detected(tmp_path, name, content):
    (row,) = gm.source(written(tmp_path, name, content), columns={"text": "a text"})
    assert row["text"] == "x, y"


def test_bad_rows_are_left_out_only_if_asked_and_named(tmp_path):
    lines = written(tmp_path, "a.jsonl", "1\n{\n2\n" + "x\n" * 9)
    table = written(tmp_path, "a.csv", 'a,b\n1,2\n3\n"x"y,3\n5,6\n')
    source = gm.source(lines, skip_bad_rows=True)
    assert (list(source), source.bad_count, len(source.bad_rows)) == ([1, 2], 10, 5)
    assert source.bad_rows[0].startswith(f"{lines}: line 2, column 2: not JSON")
    source = gm.source(table, skip_bad_rows=True)
    assert ([row["a"] for row in source], source.bad_count) == (["1", "5"], 2)
    assert "line 3: 1 field, but the header has 2" in source.bad_rows[0]
    report = gm.batch(lambda item: item, gm.source(lines, skip_bad_rows=True), journal=tmp_path / "runs.db")
    assert report.summary() == "2/2 items succeeded"


def test_what_parquet_has_beside_json_becomes_plain(tmp_path):
    rows = [
        {
            "day": datetime.date(2026, 1, 2),
            "at": datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC),
            "price": decimal.Decimal("1.50"),
            "text": b"caf\xc3\xa9",
            "raw": b"\xff\x00",
            "inside": [{"at": datetime.date(2026, 1, 2), "n": None}],
        }
    ]
    path = written(tmp_path, "a.parquet", parquet(rows))
    assert list(gm.source(path)) == [
        {
            "day": "2026-01-02",
            "at": "2026-01-02T03:04:00+00:00",
            "price": "1.50",
            "text": "café",
            "raw": "/wA=",
            "inside": [{"at": "2026-01-02", "n": None}],
        }
    ]
    assert gm.source(path, offset=1).count() == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.parquet", b"PAR1"),
        ("a.parquet", parquet([{"n": "x" * 9000}])[:-40]),
        ("a.jsonl.gz", gzip.compress(b"1\n" * 99, mtime=0)[:-9]),
        ("a.jsonl.gz", gzip.compress(bytes(range(256)) * 9, mtime=0)[:-99] + b"x" * 99),
    ],
    ids=["no footer", "cut", "cut gzip", "bad gzip"],
)
def test_a_damaged_file_is_the_source_s_failure_when_it_is_read_and_not_when_it_is_counted(tmp_path, name, content):
    damaged = gm.source(written(tmp_path, name, content))
    assert damaged.count() is None
    with pytest.raises(gm.SourceError, match=name):
        list(damaged)


def test_standard_input_may_be_compressed(monkeypatch):
    feed_stdin(monkeypatch, gzip.compress(b"1\n2\n"))
    assert list(gm.source("-")) == [1, 2]
    feed_stdin(monkeypatch, parquet([{"n": 1}]))
    assert list(gm.source("-", format="parquet")) == [{"n": 1}]
