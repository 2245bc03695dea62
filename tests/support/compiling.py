"""Short ways to compile a workflow from a test."""

from textwrap import dedent

import pytest

import graphmill as gm
from graphmill.graph.workflow import load


def compiled(folder, text, name="w.yaml"):
    path = folder / name
    path.write_text(dedent(text), encoding="utf-8")
    return load(path)


def problems_of(folder, text, name="w.yaml"):
    """Compile a workflow that has mistakes; give them without the folder."""
    with pytest.raises(gm.WorkflowError) as caught:
        compiled(folder, text, name)
    return [problem.replace(f"{folder}/", "") for problem in caught.value.problems]
