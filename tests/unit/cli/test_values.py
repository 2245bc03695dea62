import pytest

from graphmill.cli.values import age_s
from graphmill.core.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 0), ("45s", 45), ("90m", 5400), ("12h", 43_200), ("30d", 2_592_000), ("2w", 1_209_600), ("1.5d", 129_600)],
)
def test_an_age_is_a_number_and_a_unit(text, seconds):
    assert age_s(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "d", "30 d", "-1d", "30D", "1e3s", "30days", "nans", "٣d"])
def test_what_is_no_age_is_refused_with_examples(text):
    with pytest.raises(UsageError, match="such as 90m, 12h"):
        age_s(text)
