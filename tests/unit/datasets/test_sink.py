import errno
import io
import json
import os
import stat
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path

import pytest

import graphmill as gm

FORMATS = ["jsonl", "ndjson", "json", "csv", "parquet"]


class Colour(Enum):
    RED = "red"


@dataclass
class Answer:
    text: str
    score: float


class Model:
    def model_dump(self, *, mode):
        return {"mode": mode, "score": float("nan")}


class Unwritable:
    pass


def report_of(*outputs, ids=None):
    items = [{"id": name} for name in ids or map(str, range(len(outputs)))]
    by_id = dict(zip([item["id"] for item in items], outputs, strict=True))
    return gm.batch(lambda item: by_id[item["id"]], items)


def rows_of(path):
    return list(gm.source(path))


def names_in(folder):
    return sorted(entry.name for entry in folder.iterdir())


# --- absent or whole ---


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_result_that_can_not_be_written_leaves_no_file_and_names_the_job_and_the_type(tmp_path, suffix):
    report = report_of("fine", "fine", Unwritable(), "fine", ids=["a", "b", "the third", "d"])
    with pytest.raises(
        gm.ExportError,
        match=rf"cannot write the result of 'the third' to out\.{suffix}: .*\bUnwritable is not a JSON type",
    ):
        report.export(tmp_path / f"out.{suffix}")
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("suffix", FORMATS)
def test_an_export_that_fails_leaves_an_older_file_as_it_was(tmp_path, suffix):
    path = tmp_path / f"out.{suffix}"
    path.write_bytes(b"older")
    with pytest.raises(gm.ExportError):
        report_of("fine", b"bytes").export(path)
    assert path.read_bytes() == b"older"
    assert names_in(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", FORMATS)
def test_an_export_replaces_an_older_file_and_leaves_nothing_else(tmp_path, suffix):
    path = tmp_path / f"out.{suffix}"
    path.write_bytes(b"older" * 10_000)
    report_of("a", "b").export(path)
    assert [row["output"] for row in rows_of(path)] == ["a", "b"]
    assert names_in(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", FORMATS)
def test_nothing_is_at_its_place_before_all_is_written(tmp_path, suffix):
    path = tmp_path / f"out.{suffix}"
    sink = gm.sink(path)
    for result in report_of("a", "b").results():
        sink.write(result)
        assert not path.exists()
    sink.commit()
    assert len(rows_of(path)) == 2


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_whatever_ends_an_export_midway_nothing_is_left(tmp_path, suffix, error):
    def where(result):
        if result.position == 1:
            raise error
        return True

    with pytest.raises(error):
        report_of("a", "b", "c").export(tmp_path / f"out.{suffix}", where=where)
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_disk_that_fails_at_the_last_moment_leaves_the_older_file(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"out.{suffix}"
    path.write_bytes(b"older")

    def fail(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(gm.ExportError, match=rf"cannot write '.*out\.{suffix}': {os.strerror(errno.ENOSPC)}"):
        report_of("a").export(path)
    assert path.read_bytes() == b"older"
    assert names_in(tmp_path) == [path.name]


@pytest.mark.parametrize("suffix", FORMATS)
def test_the_whole_file_is_on_disk_before_it_gets_its_name_and_the_name_after(tmp_path, suffix, monkeypatch):
    path, synced, real = tmp_path / f"out.{suffix}", [], os.fsync

    def watch(descriptor):
        what = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else os.fstat(descriptor).st_size
        synced.append((what, path.exists()))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    report_of("a", "b").export(path)
    assert synced == [(path.stat().st_size, False), ("folder", True)]


def test_a_batch_that_fails_leaves_no_file_of_its_sinks(tmp_path):
    def refuse(_run):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        gm.batch(
            lambda item: item, [1], sinks=[gm.sink(tmp_path / "a.csv"), gm.sink(tmp_path / "b.jsonl")], on_start=refuse
        )
    assert names_in(tmp_path) == []


def test_sinks_of_one_batch_are_each_whole(tmp_path):
    sinks = [gm.sink(tmp_path / f"out.{suffix}") for suffix in FORMATS]
    gm.batch(lambda item: item, ["a", "b", "c"], sinks=sinks, keep_results=False)
    for suffix in FORMATS:
        assert sorted(row["output"] for row in rows_of(tmp_path / f"out.{suffix}")) == ["a", "b", "c"]
    assert len(names_in(tmp_path)) == len(FORMATS)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in /proc")
def test_no_file_is_left_open_whether_an_export_goes_well_or_not(tmp_path):
    good, bad, opened = report_of("a"), report_of(b""), len(names_in(Path("/proc/self/fd")))
    for suffix in FORMATS:
        good.export(tmp_path / f"out.{suffix}")
        with pytest.raises(gm.ExportError):
            bad.export(tmp_path / f"out.{suffix}")
    assert len(names_in(Path("/proc/self/fd"))) == opened


# --- what is written ---


@pytest.mark.parametrize("suffix", ["jsonl", "json"])
def test_outputs_of_python_s_own_types_are_written_in_their_usual_form(tmp_path, suffix):
    values = {
        "dataclass": (Answer("é", 0.5), {"text": "é", "score": 0.5}),
        "model": (Model(), {"mode": "json", "score": None}),
        "datetime": (datetime(2024, 2, 29, tzinfo=UTC), "2024-02-29T00:00:00+00:00"),
        "decimal": (Decimal("0.10"), "0.10"),
        "path": (Path("a/b"), "a/b"),
        "enum": (Colour.RED, "red"),
        "set": ({1}, [1]),
        "tuple": ((1, (2,)), [1, [2]]),
        "nan": ([float("nan"), float("inf")], [None, None]),
    }
    path = tmp_path / f"out.{suffix}"
    report_of(*(value for value, _ in values.values()), ids=list(values)).export(path)
    assert {row["id"]: row["output"] for row in rows_of(path)} == {
        name: written for name, (_, written) in values.items()
    }
    assert "NaN" not in path.read_text(encoding="utf-8")


def test_a_table_has_the_same_types_as_columns_and_plain_text(tmp_path):
    path = tmp_path / "out.csv"
    report_of(
        Answer("=é", 0.5), {"at": datetime(2024, 2, 29, tzinfo=UTC), "n": Decimal("-0.10"), "c": Colour.RED, "t": (1,)}
    ).export(path)
    first, second = rows_of(path)
    assert (first["output.text"], first["output.score"]) == ("'=é", "0.5")
    assert (second["output.at"], second["output.n"], second["output.c"]) == (
        "2024-02-29T00:00:00+00:00",
        "-0.10",
        "red",
    )
    assert second["output.t"] == "[1]"


def test_a_row_says_all_that_a_result_does(tmp_path):
    def fail(item):
        raise gm.Transient("not today")

    policy = gm.Policy(retry=gm.Retry(attempts=2, wait_s=0, cap_s=0))
    gm.batch(fail, [{"id": "a", "text": "x"}], policy=policy).export(tmp_path / "out.jsonl")
    (row,) = rows_of(tmp_path / "out.jsonl")
    trace = row["error"].pop("traceback")
    assert "in fail" in trace
    assert row.pop("queued_s") >= 0 <= row.pop("duration_s")
    assert row == {
        "id": "a",
        "status": "failed",
        "input": {"id": "a", "text": "x"},
        "output": None,
        "error": {"kind": "transient", "type": "graphmill.Transient", "message": "not today"},
        "attempts": 2,
        "usage": None,
        "cost_usd": None,
        "metadata": {},
    }


def test_a_value_that_holds_itself_is_refused_by_the_job_s_name(tmp_path):
    loop = {}
    loop["loop"] = loop
    with pytest.raises(gm.ExportError, match="cannot write the result of '0'"):
        report_of(loop).export(tmp_path / "out.jsonl")
    assert names_in(tmp_path) == []


def test_a_number_of_too_many_digits_is_refused_by_the_job_s_name(tmp_path):
    with pytest.raises(gm.ExportError, match=r"cannot write the result of '0' to out\.csv: .*4300 digits"):
        report_of(10**5000).export(tmp_path / "out.csv")


# --- where it is written ---


def test_a_relative_name_is_meant_from_here_even_if_here_changes(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    sink = gm.sink("out.jsonl")
    monkeypatch.chdir(tmp_path / "elsewhere")
    sink.commit()
    assert names_in(tmp_path) == ["elsewhere", "out.jsonl"]


def test_a_link_stays_a_link_and_its_target_is_replaced(tmp_path):
    target, link = tmp_path / "real" / "target.jsonl", tmp_path / "link.jsonl"
    target.parent.mkdir()
    target.write_bytes(b"older")
    link.symlink_to(target)
    report_of("a").export(link)
    assert link.is_symlink()
    assert [row["output"] for row in rows_of(target)] == ["a"]
    assert names_in(tmp_path) == ["link.jsonl", "real"]
    assert names_in(target.parent) == ["target.jsonl"]


def test_a_link_to_nothing_yet_gets_its_target(tmp_path):
    link = tmp_path / "link.jsonl"
    link.symlink_to(tmp_path / "target.jsonl")
    report_of("a").export(link)
    assert link.is_symlink()
    assert (tmp_path / "target.jsonl").is_file()


@contextmanager
def reading(pipe):
    """Make a pipe of our own, never a device of the machine, which a broken sink run by root would replace; give what it holds."""
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield lambda: os.read(reader, 2**16)
    finally:
        os.close(reader)


@pytest.mark.parametrize("suffix", FORMATS)
def test_what_is_no_plain_file_is_written_into_and_not_replaced(tmp_path, suffix):
    pipe, link, copy = tmp_path / f"pipe.{suffix}", tmp_path / f"link.{suffix}", tmp_path / f"copy.{suffix}"
    link.symlink_to(pipe)
    with reading(pipe) as read:
        for target in (pipe, link):
            report_of("a", "b").export(target)
            copy.write_bytes(read())
            assert [row["output"] for row in rows_of(copy)] == ["a", "b"]
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert names_in(tmp_path) == [copy.name, link.name, pipe.name]


@pytest.mark.parametrize("suffix", FORMATS)
def test_what_is_no_plain_file_stays_where_an_export_fails(tmp_path, suffix):
    pipe = tmp_path / f"pipe.{suffix}"
    with reading(pipe), pytest.raises(gm.ExportError):
        report_of("a", b"").export(pipe)
    assert pipe.is_fifo()
    assert names_in(tmp_path) == [pipe.name]


def test_a_folder_that_does_not_exist_is_told_before_anything_is_run(tmp_path):
    with pytest.raises(gm.UsageError, match=r"no folder '.*absent'"):
        gm.sink(tmp_path / "absent" / "out.jsonl")


def test_a_folder_is_no_file(tmp_path):
    (tmp_path / "out.jsonl").mkdir()
    with pytest.raises(gm.UsageError, match="is a folder; name a file in it"):
        gm.sink(tmp_path / "out.jsonl")
    assert names_in(tmp_path) == ["out.jsonl"]


def test_what_can_not_be_written_is_told_with_the_system_s_reason(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(gm.UsageError, match=r"no folder '.*/file'"):
        gm.sink(tmp_path / "file" / "out.jsonl")
    with pytest.raises(gm.UsageError, match=f"cannot write .*: {os.strerror(errno.ENAMETOOLONG)}"):
        gm.sink(tmp_path / ("x" * 300 + ".jsonl"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "out.jsnl",
            r"cannot tell the format of .*out\.jsnl. \(did you mean .\.jsonl.\?\); the name must end in \.jsonl, .*\.parquet$",
        ),
        ("out", r"cannot tell the format of '.*out'; the name must end in"),
    ],
)
def test_a_name_that_says_no_format_is_refused_with_those_that_do(tmp_path, name, message):
    with pytest.raises(gm.UsageError, match=message):
        gm.sink(tmp_path / name)
    assert names_in(tmp_path) == []


# --- standard output ---


class _Pipe(io.BytesIO):
    """Remembers what had come out whenever it was flushed."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def flush(self):
        self.seen.append(self.getvalue())


def test_standard_output_gets_json_lines_each_at_once_in_utf_8(monkeypatch):
    pipe = _Pipe()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, encoding="ascii", write_through=True))
    sink = gm.sink("-")
    first, second = report_of("é\u2028", "\ud800").results()
    sink.write(first)
    assert json.loads(pipe.seen[-1])["output"] == "é\u2028"
    sink.write(second)
    sink.commit()
    assert [json.loads(line)["output"] for line in pipe.getvalue().decode().splitlines()] == ["é\u2028", "\ud800"]
    assert not sys.stdout.closed


def test_what_standard_output_can_not_be_given_is_an_export_error_too(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
    with pytest.raises(
        gm.ExportError, match="cannot write the result of '0' to standard output: bytes is not a JSON type"
    ):
        report_of(b"").export("-")


# --- columns


@pytest.mark.parametrize("suffix", FORMATS)
def test_only_the_columns_that_are_asked_for_are_written_in_their_order(tmp_path, suffix):
    report = gm.batch(
        lambda item: {"label": item["text"].upper(), "id": 7}, [{"id": "a", "text": "x", "more": {"n": 1}}]
    )
    columns = ["label", "input.text", "id", "more.n", "label"]
    report.export(tmp_path / f"out.{suffix}", columns=columns)
    (row,) = rows_of(tmp_path / f"out.{suffix}")
    assert {name: str(value) for name, value in row.items()} == {
        "label": "X",
        "input.text": "x",
        "id": "a",
        "more.n": "1",
    }
    if suffix != "parquet":
        assert list(row) == columns[:4]


def test_a_column_that_no_row_has_is_refused_and_there_is_no_file(tmp_path):
    report = report_of({"label": 1}, {"other": 2})
    report.stream(gm.sink(tmp_path / "some.csv", columns=["id", "label"]))
    assert [row["label"] for row in rows_of(tmp_path / "some.csv")] == ["1", ""]
    with pytest.raises(gm.UsageError, match=r"no row has a column 'output.lable' \(did you mean 'output.label'\?\)"):
        report.stream(gm.sink(tmp_path / "out.csv", columns=["id", "output.lable"]))
    assert names_in(tmp_path) == ["some.csv"]
    for wrong in ("id", [], [""]):
        with pytest.raises(gm.UsageError, match="columns must be a list of names"):
            gm.sink(tmp_path / "out.csv", columns=wrong)


def test_a_column_of_parquet_has_the_type_of_all_its_values_and_else_json_text(tmp_path):
    outputs = [
        {"int": 1, "float": 1, "bool": True, "mixed": 1, "deep": [1], "big": 2**70, "wide": 2**60, "text": "a"},
        {
            "int": 2,
            "float": 2.5,
            "bool": None,
            "mixed": "x",
            "deep": {"b": None},
            "big": 1,
            "wide": 0.5,
            "text": "\ud800",
        },
    ]
    report_of(*outputs).export(tmp_path / "out.parquet")
    first, second = rows_of(tmp_path / "out.parquet")
    found = [{name: row[f"output.{name}"] for name in outputs[0]} for row in (first, second)]
    assert found == [
        {
            "int": 1,
            "float": 1.0,
            "bool": True,
            "mixed": "1",
            "deep": "[1]",
            "big": str(2**70),
            "wide": str(2**60),
            "text": "a",
        },
        {
            "int": 2,
            "float": 2.5,
            "bool": None,
            "mixed": "x",
            "deep": '{"b":null}',
            "big": "1",
            "wide": "0.5",
            "text": "\\ud800",
        },
    ]
    assert (first["attempts"], type(first["duration_s"]), first["error"]) == (1, float, None)
