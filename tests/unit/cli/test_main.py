import pytest

from graphmill.cli.main import exit_code_of
from graphmill.core.errors import (
    ChangedError,
    DamagedError,
    ExportError,
    InternalError,
    JournalError,
    OwnedError,
    SourceError,
    UnknownRunError,
    UsageError,
    WorkflowError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("no"), 2),
        (WorkflowError("a.yaml", ["no"]), 2),
        (UnknownRunError("no"), 2),
        (ChangedError("no"), 2),
        (SourceError("no", position=3), 65),
        (DamagedError("no"), 65),
        (JournalError("no"), 74),
        (ExportError("no"), 74),
        (OSError("no"), 74),
        (OwnedError("no"), 75),
        (InternalError("no"), 1),
        (KeyError("no"), 1),
    ],
)
def test_every_error_has_one_exit_status(error, code):
    assert exit_code_of(error) == code


def test_an_option_that_fits_no_item_is_usage():
    error = SourceError("no", position=0)
    error.__cause__ = UsageError("the item has no id")
    assert exit_code_of(error) == 2
