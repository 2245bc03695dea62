import asyncio

from graphmill.core.usage import Usage
from graphmill.graph.node_type import Call, Context, NodeType, Output


class Echo(NodeType):
    name = "echo"
    summary = "Gives its params."
    Params = None
    outputs = None

    async def run(self, params, context):
        return {"params": params, "path": context.path}


def a_context(**given):
    return Context(path="n", attempt=1, idempotency_key="key", **given)


def test_a_type_s_call_runs_it_on_the_loop_unless_it_says_otherwise():
    function, value, isolation, timeout_s = Echo().call({"a": 1}, a_context())
    assert (value, isolation, timeout_s) == ({"a": 1}, None, None)
    assert asyncio.run(function(value)) == {"params": {"a": 1}, "path": "n"}


def test_an_output_is_values_with_the_default_action_and_no_flags():
    assert Output({"a": 1}) == ({"a": 1}, "default", frozenset())
    assert Call(len, [1]).isolation is None


def test_what_an_attempt_reports_to_have_used_adds_up():
    context = a_context()
    assert context.usage is None
    context.report_usage(Usage(requests=1, input_tokens=5, cost_usd=0.5))
    context.report_usage(Usage(requests=1, cost_usd=0.25))
    assert context.usage == Usage(requests=2, input_tokens=5, cost_usd=0.75)


def test_without_a_word_of_its_own_a_type_s_code_is_known_by_its_package():
    echo = Echo()
    echo.package = "acme 1.2"
    assert echo.fingerprint({}) == "acme 1.2"
    assert Echo().fingerprint({}) == ""
