import asyncio
import shutil
import sys
from pathlib import Path

import pytest

from graphmill.graph.node_params import param_problems, read_params
from graphmill.graph.node_registry import GROUP, Registry, find_node_type, registry
from graphmill.graph.node_type import Context
from support.own_types import NAMES, TYPES

ACME = Path(__file__).parents[2] / "packages" / "acme"


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put packages where Python finds installed ones; what they import is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("acme_nodes")]:
        del sys.modules[name]


@pytest.fixture
def acme(install):
    shutil.copytree(ACME, install, dirs_exist_ok=True)


def declare(folder, package, entries):
    info = folder / f"{package.replace('-', '_')}-3.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 3.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *entries]), encoding="utf-8")


def test_our_own_types_are_found_by_name_and_alias():
    assert list(registry().types()) == TYPES
    assert find_node_type("code") is find_node_type("python")
    assert registry().aliases(find_node_type("python")) == ("code",)


@pytest.mark.parametrize(("name", "near"), [("pyhton", " (did you mean 'python'?)"), (None, ""), (["x"], "")])
def test_an_unknown_type_is_refused_with_the_nearest_and_all_there_are(name, near):
    with pytest.raises(ValueError, match="no node type") as caught:
        find_node_type(name)
    assert str(caught.value) == f"no node type {name!r}{near}; there are {', '.join(NAMES)}"


@pytest.mark.usefixtures("acme")
def test_a_stranger_s_package_adds_a_type_with_its_package_as_the_code_s_version():
    found = Registry()
    shout = found.find("shout")
    assert (shout.name, shout.package, shout.fingerprint({})) == ("shout", "acme-nodes 1.2", "acme-nodes 1.2")
    assert found.find("yell") is shout
    assert found.aliases(shout) == ("yell",)
    assert [str(error) for error in param_problems(shout, {"times": 0})] == [
        "times: a whole number >= 1 is wanted",
        "'text' is missing",
    ]
    call = shout.call(read_params(shout, {"text": "hey", "times": 2}), Context("n"))
    assert asyncio.run(call.function(call.value)) == {"shouted": "HEYHEY"}


@pytest.mark.usefixtures("acme")
def test_types_are_loaded_when_they_are_asked_for():
    found = Registry()
    found.find("value")
    assert "acme_nodes" not in sys.modules
    found.find("shout")
    assert "acme_nodes" in sys.modules


@pytest.mark.usefixtures("acme")
def test_a_broken_package_is_named_and_does_no_harm_to_the_others():
    found = Registry()
    with pytest.raises(
        ValueError,
        match=r"^the node type 'broken' of acme-nodes 1\.2 \(acme_nodes_that_is_not_there:Node\) can not be loaded",
    ):
        found.find("broken")
    assert list(found.types()) == sorted([*TYPES, "shout"])
    assert found.problems() == [
        (
            "the node type 'broken' of acme-nodes 1.2 (acme_nodes_that_is_not_there:Node) can not be loaded: "
            "ModuleNotFoundError: No module named 'acme_nodes_that_is_not_there'; update or remove that package"
        ),
        "the node type 'no_class' of acme-nodes 1.2 (acme_nodes:no_class) is not a class that extends graphmill's NodeType but 5",
        "the node type 'silent' of acme-nodes 1.2 (acme_nodes:Silent) does not say its summary, Params, outputs",
    ]


def test_one_name_in_two_packages_is_an_error_that_names_both(acme, install):
    declare(install, "acme-rival", ["shout = acme_rival:Shout", "value = acme_rival:Value"])
    found = Registry()
    with pytest.raises(ValueError, match="the node type 'shout' is given by ") as caught:
        found.find("shout")
    assert "acme-nodes 1.2 (acme_nodes:Shout)" in str(caught.value)
    assert "acme-rival 3.0 (acme_rival:Shout)" in str(caught.value)
    with pytest.raises(ValueError, match=r"'value' is given by .*graphmill .*remove all but one"):
        found.find("value")
    assert found.find("python").name == "python"
    assert found.find("yell").name == "shout"


def test_a_module_that_leaves_while_it_is_imported_is_a_problem_of_its_package(install):
    (install / "acme_nodes_exit.py").write_text("raise SystemExit(3)", encoding="utf-8")
    declare(install, "acme-exit", ["bye = acme_nodes_exit:Bye"])
    with pytest.raises(ValueError, match=r"'bye' of acme-exit 3\.0 .*SystemExit: 3"):
        Registry().find("bye")
