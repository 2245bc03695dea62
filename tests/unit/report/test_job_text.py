import pytest

from graphmill.core.usage import Usage
from graphmill.report.job_text import usage_text


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (Usage(), ""),
        (Usage(input_tokens=1000, output_tokens=200), "1,200 tokens"),
        (Usage(input_tokens=1000, cached_tokens=800), "1,000 tokens (800 cached)"),
        (
            Usage(
                input_tokens=1000,
                output_tokens=400,
                cached_tokens=8,
                reasoning_tokens=3000,
                image_tokens=5,
                cost_usd=0.0031,
            ),
            "1,400 tokens (8 cached, 3,000 reasoning, 5 image) · $0.0031",
        ),
        (Usage(cost_usd=1234.5), "$1,234.50"),
    ],
)
def test_what_was_used_is_told_with_what_is_among_it(usage, text):
    assert usage_text(usage.counts, usage.cost_usd) == text


def test_nothing_metered_is_nothing_told():
    assert usage_text(None, None) == ""
