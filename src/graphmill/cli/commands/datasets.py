"""``graphmill datasets``: the problem sets that are known by name."""

from __future__ import annotations

from typing import Any

from graphmill.cli.terminal import AsJson, print_json, print_lines, terminal_width
from graphmill.datasets.named import DATASETS, NamedDataset
from graphmill.report.text import Column, table_lines

_COLUMNS = (
    Column(title="name"),
    Column(title="problems", is_number=True),
    Column(title="domain"),
    Column(title="licence"),
    Column(title="source"),
    Column(title="other splits", can_shrink=True),
    Column(title="about", most=60, can_shrink=True),
)


def datasets(*, as_json: AsJson = False) -> None:
    """List the datasets that are known by name, with size, licence and source.

    They are read from the Hugging Face hub, with the extra graphmill[hub]. Any other dataset there is
    hf:org/name@revision?config=…&split=….

    Example: graphmill batch solve-verify-judge --source math500 --limit 50
    """
    if as_json:
        print_json({"datasets": [_record(each) for each in DATASETS.values()]})
        return
    print_lines(table_lines(_COLUMNS, [_cells(each) for each in DATASETS.values()], terminal_width()))


def _cells(dataset: NamedDataset) -> tuple[str, ...]:
    others = [f":{split} {size:,}" for split, size in dataset.sizes.items() if split != dataset.split]
    licence = f"{dataset.licence}, gated" if dataset.is_gated else dataset.licence
    size = f"{dataset.sizes[dataset.split]:,}"
    return (
        dataset.name,
        size,
        dataset.domain,
        licence,
        f"hf:{dataset.repository}",
        " ".join(others) or "–",
        dataset.about,
    )


def _record(dataset: NamedDataset) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "about": dataset.about,
        "domain": dataset.domain,
        "split": dataset.split,
        "splits": dict(dataset.sizes),
        "licence": dataset.licence,
        "source": f"hf:{dataset.repository}",
        "configs": [name for name in dataset.configs if name],
        "is_gated": dataset.is_gated,
    }
