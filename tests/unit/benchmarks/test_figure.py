"""What the table says of a figure that could not be measured."""

import json

from benchmarks.figure import Figure, not_measured
from benchmarks.table import as_markdown, save

FIGURES = [
    Figure(name=bound, title=f"a ratio of {bound}", bound=bound, target=2.0, form="{:.1f} ×", measure=lambda: None)
    for bound in ("at most", "at least")
]
READING = not_measured("the peer\nsaid | nothing")


def test_a_figure_that_was_not_measured_is_not_reached_whatever_its_bound():
    assert not any(figure.is_reached(READING) for figure in FIGURES)


def test_the_table_says_in_one_line_why_a_figure_was_not_measured():
    heading, _, *rows = as_markdown([(figure, READING) for figure in FIGURES]).splitlines()
    assert len(rows) == len(FIGURES)
    assert all("not measured: the peer said / nothing" in row and row.count("|") == heading.count("|") for row in rows)


def test_a_figure_that_was_not_measured_is_saved_as_null(tmp_path):
    save([(FIGURES[0], READING)], {}, tmp_path)
    record = json.loads((tmp_path / "latest.json").read_text())["figures"][0]
    assert record["value"] is None
    assert record["is_reached"] is False
