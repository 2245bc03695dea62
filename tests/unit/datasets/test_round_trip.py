"""What goes in comes out: odd texts from every source, through a batch, to every file, and back by our own sources."""

import csv
import gzip
import io
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphmill as gm
from support.odd_texts import LONE_SURROGATES, ODD_TEXTS, json_values

ALL_TEXTS = {**ODD_TEXTS, **LONE_SURROGATES}


@pytest.mark.parametrize("suffix", ["jsonl", "json"])
@pytest.mark.parametrize("text", ALL_TEXTS.values(), ids=ALL_TEXTS)
def test_ids_inputs_outputs_and_messages_are_read_back_to_the_letter(tmp_path, text, suffix):
    def echo(item):
        if item.get("fails"):
            raise gm.Permanent(text)
        return {text: [text]}

    items = [{"id": text, text: text}, {"id": text + "2", "fails": True}]
    gm.batch(echo, items).export(tmp_path / f"out.{suffix}")
    first, second = gm.source(tmp_path / f"out.{suffix}")
    assert (first["id"], first["input"], first["output"]) == (text, items[0], {text: [text]})
    assert (second["id"], second["input"], second["error"]["message"]) == (text + "2", items[1], text)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
def test_a_table_is_read_back_to_the_letter(tmp_path, text, suffix):
    gm.batch(lambda item: {text: text}, [{"id": text, text: text}]).export(tmp_path / f"out.{suffix}")
    (row,) = gm.source(tmp_path / f"out.{suffix}")
    assert (row["id"], row[f"input.{text}"], row[f"output.{text}"]) == (text, text, text)


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
def test_every_kind_of_file_gives_an_item_to_the_letter_and_a_journal_keeps_it(tmp_path, text):
    item = {"id": "a", "text": text}
    table = io.StringIO(newline="")
    csv.writer(table, delimiter="\t", quoting=csv.QUOTE_ALL).writerows([item, item.values()])
    parquet = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([item]), parquet)
    contents = {
        "a.jsonl": json.dumps(item, ensure_ascii=False).encode(),
        "a.jsonl.gz": gzip.compress(json.dumps(item, ensure_ascii=False).encode()),
        "a.json": json.dumps([item]).encode(),
        "a.tsv": table.getvalue().encode(),
        "a.parquet": parquet.getvalue(),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        assert list(gm.source(tmp_path / name, filters={"text": text})) == [item], name
    gm.batch(lambda item: item["text"], gm.source(tmp_path / "a.parquet"), journal=tmp_path / "runs.db", run_id="r")
    (again,) = gm.source("run:r", journal=tmp_path / "runs.db")
    assert (again["text"], again["result"]["output"]) == (text, text)


@pytest.mark.parametrize("text", ALL_TEXTS.values(), ids=ALL_TEXTS)
def test_items_from_standard_input_come_out_on_standard_output(monkeypatch, text):
    out = io.BytesIO()
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps({"id": text, "text": text}).encode() + b"\n"))
    )
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
    gm.batch(lambda item: item["text"], gm.source("-"), sinks=[gm.sink("-")])
    (row,) = [json.loads(line) for line in out.getvalue().decode().splitlines()]
    assert (row["id"], row["output"]) == (text, text)


@given(st.lists(json_values, max_size=4))
@settings(deadline=None, max_examples=50)
def test_the_results_of_one_batch_are_the_items_of_the_next(tmp_path_factory, items):
    folder = tmp_path_factory.getbasetemp()
    gm.batch(lambda position: items[position], range(len(items))).export(folder / "first.jsonl")
    again = gm.batch(lambda row: row["output"], gm.source(folder / "first.jsonl"))
    assert again.collect() == items
    assert [result.job_id for result in again.results()] == [str(position) for position in range(len(items))]


def test_all_formats_agree(tmp_path):
    report = gm.batch(lambda item: {"twice": item["n"] * 2}, [{"id": f"é{n}", "n": n} for n in range(20)])
    for suffix in ("jsonl", "json", "csv"):
        report.export(tmp_path / f"out.{suffix}")
    lines, array, table = (list(gm.source(tmp_path / f"out.{suffix}")) for suffix in ("jsonl", "json", "csv"))
    assert lines == array
    assert [(row["id"], str(row["output"]["twice"])) for row in lines] == [
        (row["id"], row["output.twice"]) for row in table
    ]
