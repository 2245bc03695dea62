import io
import json
from contextlib import redirect_stdout

from hypothesis import example, given
from hypothesis import strategies as st

from graphmill.cli.answer import tell, tell_json
from support.odd_texts import json_values


@given(st.lists(st.text(st.characters()), max_size=3))
def test_lines_hold_nothing_that_a_terminal_would_obey(lines):
    printed = _printed(tell, lines)
    assert printed.count("\n") == max(1, len(lines))
    assert all(line.isprintable() for line in printed.split("\n"))


@given(json_values)
@example("\U000e0001\x7f\x9b\u202e")
def test_json_is_one_printable_line_that_reads_back_as_it_was(value):
    printed = _printed(tell_json, value)
    assert printed.removesuffix("\n").isprintable()
    assert json.loads(printed) == value


def _printed(function, value):

    with redirect_stdout(io.StringIO()) as out:
        function(value)
    return out.getvalue()
