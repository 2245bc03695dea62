import pytest

from graphmill.graph.graph import LoopRule, RetryRule
from graphmill.graph.secrets import Secret
from graphmill.graph.workflow import load_data


def node_of(**keys):
    workflow = {"nodes": [{"id": "a", "type": "value", **keys}], "inputs": {"x": {}}}
    return load_data(workflow).nodes["a"]


def test_what_a_node_leaves_out_comes_from_the_policy():
    node = node_of()
    assert node.retry == RetryRule()
    assert (node.timeout_s, node.effect, node.on_ambiguous, node.batch, node.loop, node.child) == (
        None,
        "repeatable",
        "dead_letter",
        None,
        None,
        None,
    )


def test_a_node_s_own_rules_are_kept():
    node = node_of(
        retry={"attempts": 5, "wait_s": 1, "backoff": "linear", "cap_s": 9},
        timeout=7,
        effect="unsafe",
        on_ambiguous="retry",
    )
    assert node.retry == RetryRule(attempts=5, wait_s=1, backoff="linear", cap_s=9)
    assert (node.timeout_s, node.effect, node.on_ambiguous) == (7, "unsafe", "retry")


@pytest.mark.parametrize(
    ("retry", "timeout", "batch", "expected"),
    [
        ({}, None, {}, (None, None, None, None)),
        ({}, None, {"max_retries": 2, "retry_wait": 3, "timeout": 4}, (2, 3, None, 4)),
        ({"attempts": 5, "wait_s": 6, "backoff": "fixed"}, 7, {}, (5, 6, "fixed", 7)),
        ({"attempts": 5, "wait_s": 6}, 7, {"max_retries": 2, "retry_wait": 0, "timeout": 4}, (2, 0, None, 4)),
    ],
)
def test_a_batch_s_rules_come_before_its_node_s(retry, timeout, batch, expected):
    node = node_of(retry=retry, timeout=timeout, batch={"items": [1], **batch})
    assert (node.retry.attempts, node.retry.wait_s, node.retry.backoff, node.timeout_s) == expected


def test_a_batch_block_is_a_rule():
    batch = node_of(
        batch={
            "items": "${x}",
            "as": "user",
            "error_handling": "continue",
            "parallel": True,
            "max_concurrent": 3,
            "max_failures": 0.5,
            "ordered": False,
        }
    ).batch
    assert batch.items.resolve({"x": [1]}) == [1]
    assert (batch.alias, batch.error_handling, batch.is_parallel) == ("user", "continue", True)
    assert (batch.max_concurrent, batch.max_failures, batch.is_ordered) == (3, 0.5, False)


def test_a_loop_block_is_a_rule():
    loop = node_of(
        params={"a": 0, "b": "", "c": 0},
        loop={
            "max": "${x}",
            "until": {"done": "${round.a}"},
            "repeats": {"same": "${round.b}"},
            "similarity": 0.5,
            "keep": {"min": "${round.c}"},
            "history": "before",
            "timeout": 5,
            "budget_usd": 2,
            "on_error": "keep",
        },
    ).loop
    assert loop.max.resolve({"x": 3}) == 3
    assert loop.until["done"].resolve({"round": {"a": 1}}) == 1
    assert loop.repeats["same"].resolve({"round": {"b": 2}}) == 2
    assert (loop.keep[0], loop.keep[1].resolve({"round": {"c": 3}})) == ("min", 3)
    assert (loop.similarity, loop.history, loop.timeout_s, loop.budget_usd, loop.on_error) == (
        0.5,
        "before",
        5,
        2,
        "keep",
    )
    assert node_of(loop={"max": 3}).loop == LoopRule(max=3)


def test_secrets_stand_in_params_at_any_depth_and_hold_no_value(monkeypatch):
    monkeypatch.setenv("KEY", "the secret itself")
    params = {"key": {"env": "KEY"}, "deep": [{"token": {"env": "OTHER"}}, "${x}"], "again": {"env": "KEY"}}
    node = node_of(params=params)
    assert node.params.resolve({"x": 1}) == {
        "key": Secret("KEY"),
        "deep": [{"token": Secret("OTHER")}, 1],
        "again": Secret("KEY"),
    }
    assert node.raw_params == params
    assert node.secrets == ("KEY", "OTHER")
    assert "the secret itself" not in repr(node)


def test_the_params_themselves_are_no_secret():
    assert node_of(params={"env": "KEY"}).secrets == ()
