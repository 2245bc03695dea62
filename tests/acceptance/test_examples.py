"""Every example runs as it stands, and so does every Python block, workflow and command of the documents."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import graphmill as gm
from graphmill.core.json import to_json
from graphmill.graph.language import grammar

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{path.name}-{number}")
    for path in DOCUMENTS
    if path.name not in ("README.md", "tutorial.md")  # their blocks build on each other
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL))
]
TUTORIAL = ROOT / "docs" / "tutorial.md"
LANGUAGE = ROOT / "docs" / "workflows.md"
WORKFLOWS = {
    re.search(r"^name: (.+)$", block, re.MULTILINE)[1]: block
    for path in (LANGUAGE, ROOT / "README.md")
    for block in re.findall(r"^```yaml\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)
}
EXAMPLES = {path.stem: path.read_text() for path in sorted((ROOT / "examples").glob("*.yaml"))}


def told(text, mark):
    """List the commands in a text, each with what it is said to print: lines that begin like those of the output."""
    parts = re.findall(rf"^{mark}\$ (.+)\n((?:{mark}(?!\$).+\n)*)", text, re.MULTILINE)
    return [(command, [line.removeprefix(mark) for line in output.splitlines()]) for command, output in parts]


COMMANDS = [
    *told(LANGUAGE.read_text().replace("\n```\n", "\n\n"), ""),
    *(
        each
        for each in told((ROOT / "README.md").read_text().replace("\n```\n", "\n\n"), "")
        if each[0].startswith("graphmill run ")
    ),
]


def run(*command, cwd, stdin=""):
    return subprocess.run(
        list(map(str, command)), cwd=cwd, input=stdin, capture_output=True, text=True, timeout=120, check=False
    )


def say(command, *, cwd):
    """Run a line as a person types it, and give what it printed.

    It exits with the status that it says in a comment; one that ends degraded, with 3.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = run("env", f"PATH={path}", "sh", "-c", command, cwd=cwd)
    wanted = re.search(r"# exit (\d+)", command)
    usual = 3 if done.stderr.partition("\n")[2].startswith("succeeded, degraded") else 0
    assert done.returncode == (int(wanted[1]) if wanted else usual), done.stderr
    return done.stdout.splitlines()


def assert_prints(printed, output):
    assert [line[: len(begin)] for line, begin in zip(printed, output, strict=False)] == output
    assert len(printed) >= len(output)


@pytest.fixture(scope="module")
def server():
    """Serve the examples, on a port that is free, and give its address."""
    with subprocess.Popen(
        [sys.executable, ROOT / "examples" / "serve.py", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        yield re.search(r"http://[\d.:]+", process.stdout.readline())[0]
        process.terminate()


@pytest.fixture
def folder(tmp_path, monkeypatch, server):
    """A folder with the examples, the workflows of the documents, and what they need; they ask the server where it is."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__", "out"))
    for name, block in WORKFLOWS.items():
        (tmp_path / f"{name}.yaml").write_text(block)
    for path in [*tmp_path.glob("*.yaml"), *tmp_path.glob("examples/*.yaml")]:
        path.write_text(path.read_text().replace("http://127.0.0.1:8321", server))
    (tmp_path / "letter.md").write_text("Dear ${name},\n")
    monkeypatch.setenv("SHOP_KEY", "k")
    return tmp_path


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_of_the_documents_loads_and_runs(name, folder):
    graph = gm.load(folder / f"{name}.yaml")
    wanted = {each.name: {"number": 0.5}.get(each.type, "Ada") for each in graph.inputs.values() if each.is_required}
    result = gm.run(graph, wanted)
    assert (result.status, result.error) == ("succeeded", None)


@pytest.mark.parametrize(
    ("command", "output"), COMMANDS, ids=[" ".join(command.split()[1:3]) for command, _ in COMMANDS]
)
def test_a_command_of_the_documents_prints_what_they_say(command, output, folder):
    assert output
    assert_prints(say(command, cwd=folder), output)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "reviews"])
def test_the_commands_of_an_example_print_what_it_says_one_after_the_other(name, folder):
    commands = told(EXAMPLES[name], "# ")
    assert any(output for _, output in commands)
    for command, output in commands:
        assert_prints(say(command, cwd=folder), output)


def test_the_page_of_the_examples_has_a_line_for_each():
    page = (ROOT / "examples" / "README.md").read_text()
    files = [
        path.name for path in (ROOT / "examples").glob("*") if path.suffix == ".yaml" or path.name.startswith("run_")
    ]
    assert sorted(re.findall(r"^\| \[([\w.]+)\]\(\1\)(?: \*)? \|", page, re.MULTILINE)) == sorted(files)


def test_the_page_of_the_language_has_every_key_and_the_default_of_each_in_a_batch_and_a_loop():
    page = LANGUAGE.read_text()
    blocks = (grammar.WORKFLOW, grammar.INPUT, grammar.EDGE, grammar.NODE, grammar.RETRY, grammar.BATCH, grammar.LOOP)
    assert [key for block in blocks for key in block if f"`{key}`" not in page and key not in ("from", "to")] == []
    rows = {
        key: row
        for row in page.splitlines()
        if row.startswith("| `")
        for key in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    defaults = {
        key: entry.default
        for block in (grammar.BATCH, grammar.LOOP)
        for key, entry in block.items()
        if entry.default is not None
    }
    assert {key: rows[key].split("|")[-2].strip() for key in defaults} == {
        key: f"`{value if isinstance(value, str) else to_json(value)}`" for key, value in defaults.items()
    }


@pytest.mark.parametrize("block", BLOCKS)
def test_a_python_block_of_the_documents_runs(block, tmp_path):
    (tmp_path / "users.jsonl").write_text('{"id": "u1", "name": "Ada"}\n{"id": "u2", "name": "Grace"}\n')
    (tmp_path / "graphmill.yaml").write_text("models: {fast: scripted/any}")
    done = run(sys.executable, "-W", "error", "-c", block, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for said in re.findall(r"^print\(report\.summary\(\)\)  # (.+)$", block, re.MULTILINE):
        assert said in done.stdout


def test_the_python_of_the_readme_runs(tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "reviews.jsonl").write_text(
        run(sys.executable, ROOT / "examples" / "make_reviews.py", 20, cwd=tmp_path).stdout
    )
    (tmp_path / "graphmill.yaml").write_text("providers: {openai: {protocol: scripted}}")
    done = run(sys.executable, "-W", "error", "-c", "".join(blocks), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "20/20 items succeeded\n"), done.stderr
    assert len((tmp_path / "ratings.csv").read_text().splitlines()) == 21


def test_the_tutorial_runs(tmp_path):
    for block in re.findall(r"^```(?:python|yaml)\n# (.*?)^```", TUTORIAL.read_text(), re.MULTILINE | re.DOTALL):
        name, _, text = block.partition("\n")
        (tmp_path / name).write_text(text)
    printed = {
        name: say(f"python -W error {name}.py", cwd=tmp_path) for name in ("make", "rate", "policy", "night", "ask")
    }
    assert printed["rate"][0].startswith("155/200 items succeeded, 45 failed")
    assert printed["ask"][0].startswith("200/200 items succeeded")
    for command in re.findall(
        r"^\$ (graphmill .*(?:triage|--prompt|errors|show|paid).*)$", TUTORIAL.read_text(), re.MULTILINE
    ):
        if command.startswith("graphmill resume paid  #"):
            workflow = tmp_path / "triage.yaml"
            workflow.write_text(workflow.read_text().replace("an apology", "a kind apology"))
        assert say(command, cwd=tmp_path) or "# exit 2" in command, command


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
