"""What the acceptance tests of the workflow language share."""

import importlib
import sys
from contextlib import closing
from pathlib import Path

import pytest

import graphmill as gm
from graphmill.graph.registry import node_registry
from support.agents import Agents
from support.asked_model import Played
from support.flows import Flow

PACKAGES = Path(__file__).parents[1] / "packages"


@pytest.fixture
def flow(tmp_path):
    """A workflow whose functions the test gives."""
    found = Flow(tmp_path)
    yield found
    found.forget()


@pytest.fixture
def store(tmp_path):
    """A journal in a file."""
    with closing(gm.open_journal(tmp_path / "runs.db")) as journal:
        yield journal


@pytest.fixture
def metered(monkeypatch):
    """Install a stranger's package of node types; give its module."""
    monkeypatch.syspath_prepend(PACKAGES / "metered")
    node_registry.cache_clear()
    yield importlib.import_module("metered_nodes")
    node_registry.cache_clear()
    del sys.modules["metered_nodes"]


@pytest.fixture
def played(tmp_path, monkeypatch):
    """A model that the test plays itself."""
    return Played(tmp_path, monkeypatch)


@pytest.fixture
def agents(tmp_path, monkeypatch):
    """Solver, verifier and judge that the test plays, behind a server of our own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    with Agents(tmp_path) as playing:
        yield playing
