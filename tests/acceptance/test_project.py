"""The rules of the house that no linter knows."""

import ast
import inspect
import re
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
import typer

import graphmill
from graphmill.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "graphmill"
MODULES = sorted(path for path in SOURCE.rglob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "examples" / "README.md"]
DOCUMENTS = [*PAGES, *sorted((ROOT / "docs").rglob("*.md"))]


def tracked_files():
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


@pytest.mark.parametrize(
    "path", sorted(SOURCE.glob("*/**/__init__.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_an_init_file_only_re_exports(path):
    body = ast.parse(path.read_text()).body
    allowed = [
        node
        for node in body
        if isinstance(node, ast.ImportFrom)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or (isinstance(node, ast.Assign) and [target.id for target in node.targets] == ["__all__"])
    ]
    assert body == allowed


def test_the_public_names_are_those_that_type_checkers_are_told_each_from_its_home():
    stub = ast.parse((SOURCE / "__init__.pyi").read_text())
    told = {alias.name: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    exported = next(ast.literal_eval(node.value) for node in stub.body if isinstance(node, ast.Assign))
    assert exported == sorted(told)
    assert sorted(graphmill.__all__) == sorted(told) == dir(graphmill)
    assert {name: getattr(import_module(home), name) for name, home in told.items()} == {
        name: getattr(graphmill, name) for name in told
    }


def test_a_name_that_is_not_public_is_no_attribute():
    with pytest.raises(AttributeError, match="module 'graphmill' has no attribute 'bacth'"):
        _ = graphmill.bacth


def test_help_shows_of_each_command_what_its_own_help_begins_with():
    found = {
        name: getattr(import_module(f"graphmill.cli.commands.{module}"), name.replace(" ", "_"))
        for name, (module, _) in COMMANDS.items()
    }
    functions = {
        name: found.registered_callback.callback if isinstance(found, typer.Typer) else found
        for name, found in found.items()
    }
    assert {name: re.split(r"(?<=\.)\s", function.__doc__)[0] for name, function in functions.items()} == {
        name: summary for name, (_, summary) in COMMANDS.items()
    }


@pytest.mark.parametrize("name", [name for name in graphmill.__all__ if name != "__version__"])
def test_every_public_name_has_a_docstring_and_so_has_all_that_is_public_in_it(name):
    thing = getattr(graphmill, name)
    own = (
        [thing, *(member for key, member in vars(thing).items() if _is_public_member(key, member))]
        if inspect.isclass(thing)
        else [thing]
    )
    assert [part for part in own if not inspect.getdoc(part)] == []


def _is_public_member(name, member):
    return not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_says_in_one_sentence_what_it_is(path):
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring
    assert docstring.splitlines()[0].endswith((".", "?"))


def test_the_architecture_names_every_package():
    text = (ROOT / "docs" / "architecture.md").read_text()
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert [package for package in sorted(packages) if f"`{package}/`" not in text] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(path):
    targets = [target.split("#")[0] for target in re.findall(r"\]\((?!https?://|#)([^)]+)\)", path.read_text())]
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_every_guarantee_names_a_test_that_exists():
    text = (ROOT / "docs" / "guarantees.md").read_text()
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    promised = re.findall(r"^- \*\*(.+?)\*\*", text, re.MULTILINE)
    named = re.findall(r"`(test_\w+)`", text)
    assert len(promised) >= 5
    assert len(named) >= len(promised)
    assert [name for name in named if f"def {name}(" not in tests] == []


def test_the_readme_has_at_most_120_lines():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_a_decision_has_at_most_40_lines_and_a_number_of_its_own():
    decisions = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert decisions
    assert [path.name for path in decisions if len(path.read_text().splitlines()) > 40] == []
    numbers = [path.name[:4] for path in decisions]
    assert numbers == [f"{number:04d}" for number in range(1, len(numbers) + 1)]


@pytest.mark.parametrize(
    "path", [ROOT / "requirements.lock", *(ROOT / "benchmarks/peers").glob("*.txt")], ids=lambda path: path.name
)
def test_a_lock_file_is_pinned_hashed_and_names_no_host(path):
    text = path.read_text()
    requirements = re.split(r"\n(?=\S)", text.strip())
    assert all(
        re.match(r"[\w.-]+==\S+", requirement) and "--hash=sha256:" in requirement for requirement in requirements
    )
    assert "://" not in text


def test_no_file_names_a_path_of_a_machine():
    machine_paths = re.compile(r"(?<![\w./$])/(?:home|root|Users|work)/\w")
    readable = [
        path
        for path in tracked_files()
        if path.suffix in (".py", ".md", ".toml", ".yaml", ".yml", ".json", "") and path.is_file()
    ]
    assert len(readable) > 50
    assert [
        str(path)
        for path in readable
        if machine_paths.search(path.read_text(errors="replace")) and path != Path(__file__)
    ] == []
