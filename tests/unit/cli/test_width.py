"""Lines that are made to fit a terminal."""

import io

import pytest

from graphmill.cli.width import fitted


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    return Terminal()


def test_a_line_is_wrapped_under_its_last_column(narrow):
    assert list(fitted(["  a   permanent   it went wrong, as it often does"], narrow)) == [
        "  a   permanent   it went wrong, as it",
        "                  often does",
    ]


def test_a_word_that_is_wider_than_its_column_begins_where_the_column_does(narrow):
    assert list(fitted(["  get   +0.5 s   " + "x" * 30], narrow)) == [
        "  get   +0.5 s   " + "x" * 23,
        " " * 17 + "x" * 7,
    ]


def test_a_line_without_columns_is_wrapped_a_little_further_in(narrow):
    wrapped = list(fitted(["  error: it went wrong, as it often does indeed"], narrow))
    assert wrapped == ["  error: it went wrong, as it often does", "    indeed"]


def test_what_goes_elsewhere_than_to_a_terminal_is_left_as_it_is():
    assert list(fitted(["x" * 300], io.StringIO())) == ["x" * 300]
