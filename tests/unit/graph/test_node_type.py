import asyncio

import pytest

from graphmill.core.errors import UsageError
from graphmill.core.usage import Usage
from graphmill.graph.node_type import Context, NodeCall, NodeType, Output


class Echo(NodeType):
    name = "echo"
    summary = "Gives its params."
    Params = None
    outputs = None

    async def run(self, params, context):
        return {"params": params, "path": context.path}


class Attempt:
    number = 3
    timeout_s = 7.0

    def shared(self, key, make):
        return key, make()

    def __init__(self):
        self.reported = []

    def idempotency_key(self):
        return "key"

    def report(self, usage, model, *, role, is_answer, reserved_nano):
        self.reported.append((usage, model, is_answer))


def test_a_type_s_call_runs_it_on_the_loop_unless_it_says_otherwise():
    function, value, isolation, timeout_s = Echo().call({"a": 1}, Context("n"))
    assert (value, isolation, timeout_s) == ({"a": 1}, None, None)
    assert asyncio.run(function(value)) == {"params": {"a": 1}, "path": "n"}


def test_an_output_is_values_with_the_default_action_and_no_flags():
    assert Output({"a": 1}) == ({"a": 1}, "default", frozenset())
    assert NodeCall(len, [1]).isolation is None


def test_a_context_tells_of_its_attempt_and_passes_on_what_it_has_used():
    attempt, usage = Attempt(), Usage(requests=1, cost_nano=250_000_000)
    context = Context("n", attempt)
    context.report_usage(usage)
    context.report_usage(usage, "own/m", is_answer=False)
    assert (context.attempt, context.idempotency_key, attempt.reported) == (
        3,
        "key",
        [(usage, "", True), (usage, "own/m", False)],
    )


def test_without_an_attempt_a_context_is_that_of_a_first_one_and_counts_nothing():
    context = Context("n")
    context.report_usage(Usage(requests=1))
    assert (context.attempt, context.idempotency_key) == (1, "")


def test_without_a_word_of_its_own_a_type_s_code_is_known_by_its_package():
    echo = Echo()
    echo.package = "acme 1.2"
    assert echo.fingerprint({}) == "acme 1.2"
    assert Echo().fingerprint({}) == ""


def test_a_context_gives_what_the_attempts_of_its_run_share_and_says_so_where_there_is_no_run():
    context = Context("a", Attempt())
    assert (context.timeout_s, context.shared("pool", list)) == (7.0, ("pool", []))
    assert Context("a").timeout_s is None
    with pytest.raises(UsageError, match="attempts can only share things in a run"):
        Context("a").shared("pool", list)


def test_a_type_says_by_params_whether_a_step_may_be_run_twice():
    class Careful(Echo):
        effect = "unsafe"

    assert (Echo().effect_of({}), Careful().effect_of({})) == ("repeatable", "unsafe")
