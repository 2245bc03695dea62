"""How a peer that can not be asked is told from one that answers."""

import sys

import pytest
from benchmarks.figure import NotMeasuredError
from benchmarks.peer import Peer, answer


def test_a_peer_that_is_not_installed_names_what_installs_it():
    with pytest.raises(NotMeasuredError, match="nobody is not installed; `make bench` does it"):
        Peer("nobody").ask("anything")


def test_a_peer_that_fails_says_its_last_line(tmp_path):
    with pytest.raises(NotMeasuredError, match=r"failed: too many$"):
        answer([sys.executable, "-c", "import sys; sys.exit('one line\\ntoo many')"], home=tmp_path, cwd=tmp_path)


def test_a_peer_has_a_home_of_its_own_and_nothing_to_read(tmp_path):
    code = "import os, sys; print(os.environ['HOME'], repr(sys.stdin.read()))"
    assert answer([sys.executable, "-c", code], home=tmp_path, cwd=tmp_path) == f"{tmp_path} ''\n"
