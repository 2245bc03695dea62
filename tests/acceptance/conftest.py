"""What the acceptance tests of the workflow language share."""

from contextlib import closing

import pytest

import graphmill as gm
from support.flows import Flow


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
