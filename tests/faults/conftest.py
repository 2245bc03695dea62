"""What the fault tests share: the library that breaks the disk, compiled once."""

import pytest

from faults import shim


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    if lacking := shim.missing():
        pytest.skip(lacking)
    return shim.compiled(tmp_path_factory.mktemp("shim"))
