import pytest

from graphmill.core.message import described, message_of


class RudeError(Exception):
    def __str__(self):
        raise ValueError


def noted(error):
    error.add_note("line 3")
    return error


@pytest.mark.parametrize(
    ("error", "message", "description"),
    [
        (ValueError("bad"), "bad", "ValueError: bad"),
        (ValueError(), "ValueError", "ValueError"),
        (ValueError(" \n"), "ValueError", "ValueError"),
        (noted(ValueError("bad")), "bad (line 3)", "ValueError: bad (line 3)"),
        (noted(ValueError()), "ValueError (line 3)", "ValueError (line 3)"),
        (RudeError(), "RudeError (its message could not be rendered)", "RudeError (its message could not be rendered)"),
    ],
)
def test_an_exception_always_says_something_and_its_type_once(error, message, description):
    assert (message_of(error), described(error)) == (message, description)


def test_a_long_message_is_cut():
    assert len(message_of(ValueError("x" * 10_000))) == 2000
