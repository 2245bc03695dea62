"""Datasets of the Hugging Face hub: the real client, against a hub on this machine."""

import json

import pytest

import graphmill as gm
from support.command import answered, rows
from support.fake_hub import fake_hub, hub_in_process

WORKFLOW = """
inputs: {problem: {required: true, type: string}}
nodes: [{id: shown, type: value, params: {value: "${problem}"}}]
outputs: {answer: "${shown.value}"}
"""


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with hub_in_process(tmp_path, monkeypatch) as found:
        yield found


def math500(count=500):
    """Rows as the hub has them, each of about a thousand bytes."""
    return "".join(
        json.dumps(
            {
                "problem": f"What is {number} + 1?",
                "solution": "It is easy. " * 70 + f"\\boxed{{{number + 1}}}",
                "answer": str(number + 1),
                "subject": "Algebra" if number % 2 else "Geometry",
                "level": number % 5 + 1,
                "unique_id": f"test/algebra/{number}.json",
            }
        )
        + "\n"
        for number in range(count)
    )


def test_a_command_runs_a_dataset_by_its_name_and_the_workflow_sees_only_what_it_declares(tmp_path):
    (tmp_path / "wf.yaml").write_text(WORKFLOW)
    with fake_hub(tmp_path) as hub:
        hub.add("HuggingFaceH4/MATH-500", {"README.md": "---\nlicense: mit\n---\n", "test.jsonl": math500(500)})
        answered(
            tmp_path, "batch", "wf.yaml", "-s", "math500", "--filter", "level=5", "--limit", 3, "-o", "out.jsonl",
            "--run-id", "r", **hub.variables,
        )  # fmt: skip
        sent = sum(size for name, size in hub.bodies if name.endswith("test.jsonl"))
        assert sent < 500_000 / 4
    # The hub is gone: what a resume needs is in the manifest and in the cache.
    first, *_ = found = rows(tmp_path / "out.jsonl")
    assert [row["id"] for row in found] == ["test/algebra/4.json", "test/algebra/9.json", "test/algebra/14.json"]
    assert first["output"] == {"answer": "What is 4 + 1?"}
    assert (first["input"]["ground_truth"], first["input"]["metadata"]["level"], first["input"]["domain"]) == (
        "5",
        5,
        "math",
    )


def test_some_rows_are_streamed_and_all_rows_are_downloaded_once(hub):
    hub.add("HuggingFaceH4/MATH-500", {"test.jsonl": math500(500)})
    whole = len(math500(500))
    assert len(list(gm.source("math500", limit=20))) == 20
    assert sum(size for _, size in hub.bodies) < whole / 4
    hub.bodies.clear()
    assert gm.source("math500").count() == len(list(gm.source("math500"))) == 500
    assert hub.bodies == [("HuggingFaceH4/MATH-500/test.jsonl", whole)]
