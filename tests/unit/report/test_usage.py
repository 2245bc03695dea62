from graphmill.core.usage import Usage
from graphmill.report.usage import usage_lines


def test_one_of_anything_is_told_as_one():
    assert usage_lines({"own/m": Usage(requests=1, reused=1, input_tokens=1, output_tokens=1)}) == [
        "  1 request, 1 answer reused · 1 token in, 1 out"
    ]
