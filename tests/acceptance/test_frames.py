"""A report as a data frame and as an Arrow table."""

import sys

import pytest

import graphmill as gm


@pytest.fixture
def report():
    def work(item):
        if item["n"] == 2:
            raise gm.Permanent("no")
        return {"half": item["n"] / 2, "odd": [item["n"]] if item["n"] else "none"}

    return gm.batch(work, [{"id": str(n), "n": n} for n in range(3)])


def test_a_data_frame_has_a_column_per_field_and_a_row_per_result(report):
    frame = report.to_pandas()
    assert list(frame["id"]) == ["0", "1", "2"]
    assert list(frame["status"]) == ["succeeded", "succeeded", "failed"]
    assert frame["output.half"].mean() == 0.25
    assert frame["output.odd"][1] == [1]
    assert frame["error.message"][2] == "no"
    assert len(report.to_pandas(status="failed")) == 1


def test_an_arrow_table_has_the_same_columns_and_json_where_types_are_mixed(report):
    table = report.to_arrow()
    assert table.column_names == list(report.to_pandas().columns)
    assert table.column("output.half").to_pylist() == [0.0, 0.5, None]
    assert table.column("output.odd").to_pylist() == ['"none"', "[1]", None]
    assert report.to_arrow(where=lambda result: result.is_success).num_rows == 2


def test_a_missing_library_is_named_with_how_to_install_it(report, monkeypatch):
    for name in ("pandas", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(gm.UsageError, match="pip install pandas"):
        report.to_pandas()
    with pytest.raises(gm.UsageError, match=r"pip install 'graphmill\[parquet\]'"):
        report.to_arrow()
