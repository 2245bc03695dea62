"""What is read out of the rows of problem sets."""

from pathlib import Path

import pytest

import graphmill as gm
from graphmill.datasets.named import DATASETS


@pytest.mark.parametrize(
    ("code", "shown", "name"),
    [
        ("def helper(x):\n    return x\ndef f(x):\n    return helper(x)\n", "assert f(helper(1)) == 1", "f"),
        ("import re\r\ndef f(x):\r\n    return x", "assert set(f(1)) == 1", "f"),
        ("class P:\n    def f(self): pass\ndef g(x): return x", "assert max(1) == 1", "g"),
        ("f = max", "assert f(1, 2) == 2", ""),
    ],
)
def test_the_entry_point_of_mbpp_is_the_function_that_its_first_test_calls(code, shown, name):
    row = {"task_id": 1, "text": "t", "code": code, "test_list": [shown], "test_setup_code": ""}
    assert DATASETS["mbpp"].problem_of(row)["metadata"]["entry_point"] == name


def test_a_path_and_a_name_with_a_format_are_files_and_never_datasets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "math500").write_text("1\n")
    assert list(gm.source("math500", format="jsonl")) == [1]
    assert list(gm.source("./math500", format="jsonl")) == [1]
    with pytest.raises(gm.UsageError, match="cannot tell the format"):
        gm.source(Path("math500"))
