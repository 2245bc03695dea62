"""Every example runs as it stands, and so does every Python block of the documents."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{path.name}-{number}")
    for path in DOCUMENTS
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL))
]


def run(*command, cwd, stdin=""):
    return subprocess.run(list(map(str, command)), cwd=cwd, input=stdin, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("block", BLOCKS)
def test_a_python_block_of_the_documents_runs(block, tmp_path):
    (tmp_path / "users.jsonl").write_text('{"id": "u1", "name": "Ada"}\n{"id": "u2", "name": "Grace"}\n')
    done = run(sys.executable, "-W", "error", "-c", block, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("run_*.py")), ids=lambda path: path.name)
def test_an_example_script_runs(path, tmp_path):
    done = run(sys.executable, "-W", "error", path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_reviews_example_runs_from_items_to_results(tmp_path):
    items = run(sys.executable, ROOT / "examples" / "make_reviews.py", 100, cwd=tmp_path).stdout
    done = run(
        sys.executable, "-m", "graphmill", "batch", "examples/reviews.yaml", "-s", "-", "-o", tmp_path / "out.csv",
        "--journal", tmp_path / "runs.db", cwd=ROOT, stdin=items
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("100/100 items succeeded")
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 101
