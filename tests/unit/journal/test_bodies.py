import json

import pytest

from graphmill.core.result import Result, Status
from graphmill.engine.results.recorder import LastStep, StepOutcome
from graphmill.journal.bodies import more_body


@pytest.mark.parametrize("path", ["a", "half \ud800", "line\u2028end"])
@pytest.mark.parametrize("usage", [None, {"input_tokens": 2**64}])
@pytest.mark.parametrize("metadata", [{}, {"said": "\ud800", "count": 2**64}])
def test_odd_texts_and_large_counts_are_written_beside_a_step(path, usage, metadata):
    result = Result(job_id="a", position=0, status=Status.SUCCEEDED, input=1, usage=usage, metadata=metadata)
    body = more_body(result, LastStep(path, b"c", StepOutcome(b'"\\u2028"', None, 1, 0.5, None, 0.25)))
    found = json.loads(body)
    assert body.isascii()
    assert (found["step"]["path"], found["step"]["output"], found["step"]["times"]) == (path, "\u2028", [1, 0.5, 0.25])
    assert found.get("usage") == usage
    assert found.get("metadata", {}) == metadata
