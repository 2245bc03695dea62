"""The workflow language: what any node may say, and the node types, rule by rule."""

import asyncio
import json

import pytest

import graphmill as gm
from graphmill.core.json import item_key
from support.flows import now


@pytest.fixture
def flaky(flow):
    """``acts:flaky`` fails every time; notes when."""
    times = []

    @flow.act
    async def flaky(kind="transient", seconds=0):
        times.append(now())
        await asyncio.sleep(seconds)
        raise {"transient": gm.Transient, "permanent": gm.Permanent, "ambiguous": gm.Ambiguous}[kind]("no")

    return times


def node(more, inputs="{}"):
    return f'nodes: [{{id: a, type: python, params: {{function: "acts:flaky", inputs: {inputs}}}, {more}}}]'


# Any node.


@pytest.mark.parametrize(
    ("rule", "times"),
    [
        ("{attempts: 1}", [0]),
        ("{attempts: 4, wait_s: 2, backoff: fixed}", [0, 2, 4, 6]),
        ("{attempts: 4, wait_s: 2, backoff: linear}", [0, 2, 6, 12]),
        ("{attempts: 4, wait_s: 2, backoff: exponential}", [0, 2, 6, 14]),
        ("{attempts: 5, wait_s: 2, backoff: exponential, cap_s: 5}", [0, 2, 6, 11, 16]),
        ("{wait_s: 7}", [0, 7, 14]),
    ],
)
def test_retry_says_how_often_and_after_what_wait(flow, flaky, rule, times):
    flow.timed(node(f"retry: {rule}"))
    assert flaky == times


def test_what_a_node_leaves_out_comes_from_the_policy(flow, flaky):
    flow.timed(node("retry: {}"), retry=gm.Retry(attempts=2, wait_s=9, jitter=False))
    assert flaky == [0, 9]


def test_timeout_is_seconds_per_attempt(flow, flaky):
    result = flow.timed(node("timeout: 5, retry: {attempts: 2, wait_s: 1, backoff: fixed}", "{seconds: 50}"))
    assert (result.status, result.error.kind, flaky, result.duration_s) == ("timed_out", "timeout", [0, 6], 11)


def test_the_policy_s_timeout_is_the_default(flow, flaky):
    result = flow.timed(node("retry: {attempts: 1}", "{seconds: 50}"), timeout_s=3)
    assert (result.error.kind, result.duration_s) == ("timeout", 3)


def test_a_node_s_timeout_may_be_longer_than_the_policy_s(flow, flaky):
    result = flow.timed(node("timeout: 20, retry: {attempts: 1}", "{seconds: 10}"), timeout_s=3)
    assert (result.error.kind, result.duration_s) == ("transient", 10)


def test_a_child_s_steps_have_the_rules_of_the_node_it_runs_in_unless_they_say_otherwise(flow, flaky):
    text = """
        nodes:
          - id: down
            type: workflow
            params: {workflow: {nodes: [{id: a, type: python, params: {function: "acts:flaky", inputs: {seconds: 50}}%s}]}}
            timeout: 4
            retry: {attempts: 2, wait_s: 1, backoff: fixed}
    """
    flow.timed(text % "")
    assert flaky == [0, 5]
    flaky.clear()
    flow.timed(text % ", timeout: 6, retry: {attempts: 3}")
    assert flaky == [0, 7, 14]


@pytest.mark.parametrize(("kind", "count"), [("permanent", 1), ("ambiguous", 1), ("transient", 3)])
def test_only_what_may_go_better_is_tried_again(flow, flaky, kind, count):
    assert flow.timed(node("timeout: 5", f"{{kind: {kind}}}")).error.kind == kind
    assert len(flaky) == count


def test_an_unsafe_step_that_timed_out_is_not_tried_again(flow, flaky):
    result = flow.timed(node("timeout: 5, effect: unsafe", "{seconds: 50}"))
    assert (result.error.kind, len(flaky)) == ("ambiguous", 1)


KNOCK = """
from pathlib import Path
mark = Path(folder) / "knocked"
if not mark.exists():
    mark.touch()
    raise {error}("closed")
result = "sent"
"""


@pytest.mark.parametrize(
    ("error", "output"), [("ConnectionRefusedError", {"r": "sent"}), ("ConnectionResetError", None)]
)
def test_unsafe_code_is_tried_again_if_its_connection_was_refused_and_not_if_it_was_lost(flow, tmp_path, error, output):
    (tmp_path / "knock.py").write_text(KNOCK.format(error=error))
    text = """
        inputs: {folder: {required: true}}
        nodes:
          - {id: send, type: python, effect: unsafe, params: {code: !file knock.py, inputs: {folder: "${folder}"}}}
        outputs: {r: "${send.result}"}
    """
    result = flow.result(text, {"folder": str(tmp_path)}, journal="memory:")
    assert result.output == output
    assert (result.error and result.error.kind) == (None if output else "ambiguous")


def test_an_unsafe_step_that_says_retry_is(flow, flaky):
    result = flow.timed(node("timeout: 5, effect: unsafe, on_ambiguous: retry", "{seconds: 50}"))
    assert (result.error.kind, len(flaky)) == ("timeout", 3)


# python.


def test_code_that_leaves_partial_writes_starts_from_a_clean_namespace_at_its_next_attempt(flow):
    marker = flow.folder / "tried"
    code = f"""
        nodes:
          - id: a
            type: code
            params:
              inputs: {{rows: [1]}}
              code: |
                import pathlib
                seen = list(rows), "half" in globals()
                rows.append(2)
                half = 1
                if not pathlib.Path({str(marker)!r}).exists():
                    pathlib.Path({str(marker)!r}).write_text("")
                    raise ConnectionError("again")
                result = seen
    """
    assert flow.output(code)["result"] == [[1], False]


@pytest.mark.parametrize("key", ["code", "function"])
def test_code_and_function_are_never_templated(flow, key):
    @flow.act
    async def act():
        return 1

    if key == "code":
        assert (
            flow.output("""nodes: [{id: a, type: code, params: {code: "result = '${nobody}' + '$${x}'"}}]""")["result"]
            == "${nobody}$${x}"
        )
    else:
        assert "${name}" in flow.problem(
            '{inputs: {name: {default: x}}, nodes: [{id: a, type: python, params: {function: "${name}"}}]}'
        )


def test_a_function_is_async_or_plain_and_gives_result_and_stdout(flow):
    @flow.act
    async def on_loop(n):
        return n

    @flow.act
    def in_thread(n):
        return n

    for name in ("on_loop", "in_thread"):
        assert flow.output(
            f'nodes: [{{id: a, type: python, params: {{function: "acts:{name}", inputs: {{n: 5}}}}}}]'
        ) == {
            "result": 5,
            "stdout": "",
            "stderr": "",
        }


def test_code_that_kills_its_process_is_tried_again_and_harms_nothing_else(flow):
    marker = flow.folder / "killed"
    text = f"""
        nodes:
          - id: each
            type: code
            params:
              inputs: {{n: "${{item}}"}}
              code: |
                import os, pathlib, signal
                mark = pathlib.Path({str(marker)!r})
                if n == 1 and not mark.exists():
                    mark.write_text("")
                    os.kill(os.getpid(), signal.SIGKILL)
                result = n
            batch: {{items: [0, 1, 2], parallel: true}}
    """
    assert [each["result"] for each in flow.output(text)["results"]] == [0, 1, 2]


def test_a_timeout_among_the_params_of_python_holds(flow):
    @flow.act
    async def long():
        await asyncio.sleep(50)

    result = flow.timed(
        'nodes: [{id: a, type: python, params: {function: "acts:long", timeout: 5}, retry: {attempts: 1}}]'
    )
    assert (result.status, result.duration_s) == ("timed_out", 5)


# value, branch, end, workflow.


def test_value_gives_any_mapping_as_it_is(flow):
    params = {"a": [1, {"b": None}], "type": "x", "id": 5, "deep": {"error": "mine"}}
    assert flow.output(json.dumps({"nodes": [{"id": "v", "type": "value", "params": params}]})) == params


def test_value_and_branch_write_nothing_to_the_journal(flow, store):
    graph = flow.load(
        """
        nodes:
          - {id: v, type: value, params: {x: 1}}
          - {id: b, type: branch, params: {on: "${v.x}", cases: {1: go}}}
          - {id: w, type: value, params: {y: "${v.x}"}}
        edges: [{from: v, to: b}, {from: b, to: w, action: go}]
        """
    )
    gm.batch(graph, [{"id": "i"}], run_id="r", journal=store)
    assert not store.archive.history(store.archive.find("r"), item_key("i")).steps


@pytest.mark.parametrize(
    ("value", "action"),
    [
        (True, "yes"),
        ("true", "yes"),
        (None, "none"),
        ("null", "none"),
        (3, "three"),
        (3.0, "three"),
        ("3", "three"),
        ([], "other"),
        ("", "other"),
    ],
)
def test_branch_looks_a_value_up_among_its_cases(flow, value, action):
    text = """
        inputs: {x: {default: null}}
        nodes: [{id: b, type: branch, params: {on: "${x}", cases: {true: "yes", null: none, 3: three}, default: other}}]
    """
    assert flow.output(text, {"x": value}) == {"action": action}


def test_a_value_without_a_case_or_a_default_is_a_permanent_failure_that_lists_the_cases(flow):
    failure = flow.failure("nodes: [{id: b, type: branch, params: {on: 9, cases: {a: x, b: y}}}]")
    assert (failure.kind, "9" in failure.message, "a, b" in failure.message) == ("permanent", True, True)


END = """
    inputs: {x: {required: true}}
    nodes:
      - {id: v, type: value, params: {x: "${x}"}}
      - id: finish
        type: end
        params: {on: "${v.x}", cases: {ok: succeeded, half: partial, bad: {status: failed, reason: "because of ${v.x}"},
            note: {flag: partial, reason: why}}}
      - {id: after, type: value, params: {ran: true}}
"""


@pytest.mark.parametrize(("x", "flags"), [("ok", {}), ("half", {"partial": True}), ("note", {"partial": True})])
def test_end_ends_the_job_with_its_status_and_flag_and_nothing_after_it_runs(flow, x, flags):
    result = flow.result(END, {"x": x})
    assert (result.status, dict(result.metadata)) == ("succeeded", flags)
    assert "ran" not in result.output


def test_end_fails_the_job_with_its_reason(flow):
    result = flow.result(END, {"x": "bad"})
    assert (result.status, result.error.kind) == ("failed", "permanent")
    assert "because of bad" in result.error.message


def test_a_child_may_be_a_path_a_name_or_inline(flow):
    child = "{inputs: {n: {required: true}}, nodes: [{id: v, type: value, params: {n: '${n}'}}]}"
    flow.write(child, "child.yaml")
    for workflow in ("child.yaml", "./child.yaml", "child", child):
        assert flow.output(
            f"nodes: [{{id: w, type: workflow, params: {{workflow: {workflow}, inputs: {{n: 5}}}}}}]"
        ) == {"n": 5}


def test_the_workflow_param_is_never_templated(flow):
    assert flow.problems(
        "{inputs: {name: {default: child}}, nodes: [{id: w, type: workflow, params: {workflow: '${name}'}}]}"
    )


def test_a_workflow_that_runs_itself_is_refused(flow):
    flow.write("nodes: [{id: w, type: workflow, params: {workflow: workflow.yaml}}]", "child.yaml")
    problems = flow.problems("nodes: [{id: w, type: workflow, params: {workflow: child.yaml}}]")
    assert any("itself" in problem for problem in problems)


@pytest.mark.parametrize("inputs", ["{}", "{n: 5, m: 6}"])
def test_inputs_that_a_child_lacks_or_does_not_have_are_refused(flow, inputs):
    assert flow.problem(
        f"""
        nodes:
          - id: w
            type: workflow
            params: {{workflow: {{inputs: {{n: {{required: true}}}}, nodes: [{{id: v, type: value}}]}}, inputs: {inputs}}}
        """
    )


def test_the_child_s_declared_outputs_are_the_node_s(flow):
    text = """
        nodes:
          - id: w
            type: workflow
            params: {workflow: {nodes: [{id: a, type: value, params: {x: 1}}, {id: b, type: value, params: {y: 2}}],
                outputs: {x: "${a.x}"}}}
        outputs: {all: "${w}"}
    """
    assert flow.output(text) == {"all": {"x": 1}}


def test_a_stranger_s_type_is_a_type_like_ours(flow, metered):
    result = flow.result("nodes: [{id: m, type: metered, params: {n: x, fails: 1}}]")
    assert (result.output, result.attempts, metered.calls) == ({"n": "x", "attempt": 2}, 2, ["x", "x"])


def test_a_type_that_is_not_installed_is_refused_with_the_nearest(flow):
    assert "did you mean 'value'" in flow.problem("nodes: [{id: a, type: vlaue}]")


def test_inputs_are_checked_by_type_and_defaults_are_filled_in(flow):
    text = """
        inputs: {n: {type: integer, required: true}, tone: {type: string, default: warm}}
        nodes: [{id: v, type: value, params: {n: "${n}", tone: "${tone}"}}]
    """
    assert flow.output(text, {"n": 5}) == {"n": 5, "tone": "warm"}
    assert flow.failure(text, {"n": "5"}).kind == "permanent"
    assert flow.failure(text, {"tone": "x"}).kind == "permanent"


# What runs in a worker process ends as soon as it is interrupted.

SLEEP = 'params: {inputs: {n: "${item}"}, code: "import time\\nif n: time.sleep(60)\\nassert n\\nresult = 1"}'


@pytest.mark.parametrize("recorded", [False, True])
def test_a_batch_of_code_that_fails_fast_ends_what_runs(flow, tmp_path, recorded):
    text = f"nodes: [{{id: b, type: code, batch: {{items: [0, 1, 1], parallel: true, max_retries: 1}}, {SLEEP}}}]"
    result = flow.result(text, **({"journal": tmp_path / "runs.db", "run_id": "r"} if recorded else {}))
    assert (result.status, result.error.type) == ("failed", "AssertionError")


@pytest.mark.parametrize("recorded", [False, True])
def test_branches_of_code_end_together(flow, tmp_path, recorded):
    text = """
        nodes:
          - {id: s, type: value, params: {n: 0}}
          - {id: a, type: code, retry: {attempts: 1}, params: {code: "result = 1 / 0"}}
          - {id: b, type: code, params: {code: "import time\\ntime.sleep(60)\\nresult = 1"}}
        edges: [{from: s, to: a}, {from: s, to: b}]
    """
    result = flow.result(text, **({"journal": tmp_path / "runs.db", "run_id": "r"} if recorded else {}))
    assert (result.status, result.error.type) == ("failed", "ZeroDivisionError")


def test_a_loop_of_code_ends_when_its_time_is_up(flow):
    text = """
        nodes:
          - id: l
            type: code
            loop: {max: 100, timeout: 3}
            params: {inputs: {n: "${__round__}"}, code: "import time\\nif n > 1: time.sleep(60)\\nresult = n"}
    """
    result = flow.result(text)
    assert (result.status, result.output["stop"], result.output["round_count"]) == ("succeeded", "deadline", 1)
