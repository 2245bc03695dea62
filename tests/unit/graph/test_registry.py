import asyncio
import re
import shutil
import sys
from pathlib import Path

import pytest

from graphmill.graph.node_params import param_problems
from graphmill.graph.node_type import Context
from graphmill.graph.registry import (
    NODE_GROUP,
    PROVIDER_GROUP,
    WORKFLOW_GROUP,
    NodeRegistry,
    ProviderRegistry,
    WorkflowRegistry,
    find_node_type,
    node_registry,
)
from graphmill.graph.run.step import read_params
from support.own_types import NAMES, TYPES

ACME = Path(__file__).parents[2] / "packages" / "acme"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put packages where Python finds installed ones; what they import is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("acme_")]:
        del sys.modules[name]


@pytest.fixture
def acme(install):
    shutil.copytree(ACME, install, dirs_exist_ok=True)


def declare(folder, package, entries, group=NODE_GROUP):
    info = folder / f"{package.replace('-', '_')}-3.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 3.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *entries]), encoding="utf-8")


def test_our_own_types_are_found_by_name_and_alias():
    assert list(node_registry().types()) == TYPES
    assert find_node_type("code") is find_node_type("python")
    assert node_registry().aliases(find_node_type("python")) == ("code",)


@pytest.mark.parametrize(
    ("name", "near"),
    [("pyhton", " (did you mean 'python'?)"), ("LLM", " (did you mean 'llm'?)"), (None, ""), (["x"], "")],
)
def test_an_unknown_type_is_refused_with_the_nearest_and_all_there_are(name, near):
    with pytest.raises(ValueError, match="unknown node type") as caught:
        find_node_type(name)
    assert str(caught.value) == f"unknown node type {name!r}{near}; available: {', '.join(NAMES)}"


@pytest.mark.usefixtures("acme")
def test_a_stranger_s_package_adds_a_type_with_its_package_as_the_code_s_version():
    found = NodeRegistry()
    shout = found.find("shout")
    assert (shout.name, shout.package, shout.fingerprint({})) == ("shout", "acme-nodes 1.2", "acme-nodes 1.2")
    assert found.find("yell") is shout
    assert found.aliases(shout) == ("yell",)
    assert [str(error) for error in param_problems(shout, {"times": 0})] == [
        "times: must be an integer >= 1",
        "'text' is missing",
    ]
    call = shout.call(read_params(shout, {"text": "hey", "times": 2}), Context("n"))
    assert asyncio.run(call.function(call.value)) == {"shouted": "HEYHEY"}


@pytest.mark.usefixtures("acme")
def test_types_are_loaded_when_they_are_asked_for():
    found = NodeRegistry()
    found.find("value")
    assert "acme_nodes" not in sys.modules
    found.find("shout")
    assert "acme_nodes" in sys.modules


@pytest.mark.usefixtures("acme")
def test_a_broken_package_is_named_and_does_no_harm_to_the_others():
    found = NodeRegistry()
    with pytest.raises(
        ValueError,
        match=r"^cannot load node type 'broken' of acme-nodes 1\.2 \(acme_nodes_that_is_not_there:Node\)",
    ):
        found.find("broken")
    assert list(found.types()) == sorted([*TYPES, "shout"])
    broken, no_class, silent = found.problems()
    assert "'broken' of acme-nodes 1.2" in broken
    assert "No module named 'acme_nodes_that_is_not_there'" in broken
    assert "'no_class' of acme-nodes 1.2 (acme_nodes:no_class)" in no_class
    assert "subclass of graphmill's NodeType, got 5" in no_class
    assert "'silent' of acme-nodes 1.2 (acme_nodes:Silent) lacks summary, Params, outputs" in silent


def test_one_name_in_two_packages_is_an_error_that_names_both(acme, install):
    declare(install, "acme-rival", ["shout = acme_rival:Shout", "value = acme_rival:Value"])
    found = NodeRegistry()
    with pytest.raises(ValueError, match="node type 'shout' is in ") as caught:
        found.find("shout")
    assert "acme-nodes 1.2 (acme_nodes:Shout)" in str(caught.value)
    assert "acme-rival 3.0 (acme_rival:Shout)" in str(caught.value)
    with pytest.raises(ValueError, match=r"'value' is in .*graphmill .*remove all but one"):
        found.find("value")
    assert found.find("python").name == "python"
    assert found.find("yell").name == "shout"


def test_a_module_that_leaves_while_it_is_imported_is_a_problem_of_its_package(install):
    (install / "acme_nodes_exit.py").write_text("raise SystemExit(3)", encoding="utf-8")
    declare(install, "acme-exit", ["bye = acme_nodes_exit:Bye"])
    with pytest.raises(ValueError, match=r"'bye' of acme-exit 3\.0 .*SystemExit: 3"):
        NodeRegistry().find("bye")


FINE = """
class Acme:
    name = "acme"
    default_address = address_variable = key_variable = ""
    supports_schema = False
    def open(self): ...
    async def complete(self): ...
    async def models(self): ...
    def classify(self): ...
"""


@pytest.fixture
def provide(install):
    def put(package, code):
        module = package.replace("-", "_")
        declare(install, package, [f"acme = {module}:Acme"], group=PROVIDER_GROUP)
        (install / f"{module}.py").write_text(code, encoding="utf-8")

    return put


def test_a_stranger_s_package_adds_a_provider_that_is_made_once(provide):
    provide("acme-models", FINE)
    registry = ProviderRegistry()
    assert "acme" in registry.names
    assert registry.find("acme").name == "acme"
    assert registry.find("acme") is registry.find("acme")


@pytest.mark.parametrize(("name", "near"), [("acne", " (did you mean 'acme'?)"), (None, ""), (["x"], "")])
def test_an_unknown_provider_is_refused_with_the_nearest_and_all_there_are(provide, name, near):
    provide("acme-models", FINE)
    registry = ProviderRegistry()
    with pytest.raises(ValueError, match="unknown provider") as caught:
        registry.find(name)
    assert str(caught.value) == f"unknown provider {name!r}{near}; available: {', '.join(registry.names)}"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "1 / 0",
            "provider 'acme' of acme-models 3.0 (acme_models:Acme): ZeroDivisionError: division by zero",
        ),
        (
            "class Acme:\n    def __init__(self): raise SystemExit(3)",
            "SystemExit: 3; update or remove that package",
        ),
        (FINE.replace("supports_schema", "x").replace("def open", "def y"), "lacks supports_schema, open"),
    ],
)
def test_a_package_at_fault_is_named(provide, code, message):
    provide("acme-models", code)
    with pytest.raises(ValueError, match=re.escape(message)):
        ProviderRegistry().find("acme")


def test_two_packages_of_one_name_are_refused(provide):
    provide("acme-models", FINE)
    provide("acme-more", FINE)
    with pytest.raises(
        ValueError,
        match=r"provider 'acme' is in acme-mo.* and acme-mo.*; remove all but one of these packages",
    ):
        ProviderRegistry().find("acme")


def test_a_stranger_s_package_adds_a_workflow_by_the_package_that_holds_its_file(install):
    folder = install / "acme_debates"
    folder.mkdir()
    (folder / "__init__.py").touch()
    declare(install, "acme-debates", ["mine = acme_debates", "gone = acme_debates.gone"], WORKFLOW_GROUP)
    found = WorkflowRegistry()
    assert found.find("mine") == folder
    with pytest.raises(ValueError, match=r"cannot load workflow 'gone' of acme-debates 3\.0"):
        found.find("gone")
