"""The SQL of the store, as it is written down."""

import re

from graphmill.journal.sqlite.statements import SQL


def test_no_placeholder_has_a_number():
    """Python 3.12 warns of a numbered one that is given a sequence, and 3.14 refuses it."""
    assert [name for name, text in SQL.items() if re.search(r"\?\d", text)] == []
