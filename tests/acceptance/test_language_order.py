"""The workflow language: order, branches and error edges, rule by rule."""

import asyncio

import pytest

import graphmill as gm
from support.driving import virtual
from support.flows import now, succeeded


@pytest.fixture
def trail(flow):
    """Notes in which order nodes run: each calls ``acts:go`` with its name, for so many seconds."""
    notes = []

    @flow.act
    async def go(name, seconds=0, value=None):
        notes.append(("begin", name, now()))
        await asyncio.sleep(seconds)
        notes.append(("end", name, now()))
        return value

    return notes


def begun(trail):
    return [name for word, name, _ in trail if word == "begin"]


def node(name, **inputs):
    given = "".join(f", {key}: {value}" for key, value in inputs.items())
    return f'{{id: {name}, type: python, params: {{function: "acts:go", inputs: {{name: {name}{given}}}}}}}'


def test_without_edges_nodes_run_in_listed_order(flow, trail):
    flow.timed(
        f"""
        nodes:
          - {node("c", seconds=3)}
          - {node("a", seconds=1)}
          - {node("b")}
        """
    )
    assert trail == [
        ("begin", "c", 0),
        ("end", "c", 3),
        ("begin", "a", 3),
        ("end", "a", 4),
        ("begin", "b", 4),
        ("end", "b", 4),
    ]


def test_the_starts_are_the_nodes_without_incoming_edges_and_run_side_by_side(flow, trail):
    flow.timed(
        f"""
        nodes:
          - {node("join")}
          - {node("one", seconds=2)}
          - {node("two", seconds=2)}
        edges: [{{from: one, to: join}}, {{from: two, to: join}}]
        """
    )
    assert [(word, name) for word, name, at in trail if at == 0] == [("begin", "one"), ("begin", "two")]
    assert ("begin", "join", 2) in trail


def test_a_start_node_is_the_only_start(flow, trail):
    flow.timed(
        f"""
        start_node: two
        nodes:
          - {node("one")}
          - {node("two")}
        edges: [{{from: two, to: one}}]
        """
    )
    assert begun(trail) == ["two", "one"]


def test_a_node_that_the_start_node_does_not_lead_to_is_refused(flow):
    assert "'one'" in flow.problem(
        "{start_node: two, nodes: [{id: one, type: value}, {id: two, type: value}], edges: []}"
    )


@pytest.mark.parametrize(
    "edges",
    [
        "[{from: a, to: b}, {from: b, to: a}]",
        "[{from: a, to: a}]",
        "[{from: a, to: b}, {from: b, to: c}, {from: c, to: b}]",
    ],
)
def test_edges_form_no_cycle_and_the_message_names_the_loop_block(flow, edges):
    problems = flow.problems(
        f"{{nodes: [{{id: a, type: value}}, {{id: b, type: value}}, {{id: c, type: value}}], edges: {edges}}}"
    )
    assert any("loop" in problem and "→" in problem for problem in problems)


@pytest.mark.parametrize(("verdict", "ran"), [("right", "keep"), ("wrong", "drop"), ("else", "ask")])
def test_an_edge_fires_when_its_action_is_the_one_that_the_node_returned(flow, trail, verdict, ran):
    flow.timed(
        f"""
        inputs: {{verdict: {{required: true}}}}
        nodes:
          - {{id: route, type: branch, params: {{on: "${{verdict}}", cases: {{right: good, wrong: bad}}, default: unsure}}}}
          - {node("keep")}
          - {node("drop")}
          - {node("ask")}
        edges: [{{from: route, to: keep, action: good}}, {{from: route, to: drop, action: bad}}, {{from: route, to: ask, action: unsure}}]
        """,
        {"verdict": verdict},
    )
    assert begun(trail) == [ran]


def test_an_edge_without_an_action_is_default_and_does_not_fire_on_another(flow, trail):
    flow.timed(
        f"""
        nodes:
          - {{id: route, type: branch, params: {{on: 1, cases: {{1: special}}, default: default}}}}
          - {node("plain")}
          - {node("special")}
        edges: [{{from: route, to: plain}}, {{from: route, to: special, action: special}}]
        """
    )
    assert begun(trail) == ["special"]


def test_code_returns_an_action_by_next(flow, trail):
    flow.output(
        f"""
        nodes:
          - {{id: route, type: code, params: {{code: "next = 'left'"}}}}
          - {node("left")}
          - {node("right")}
        edges: [{{from: route, to: left, action: left}}, {{from: route, to: right}}]
        """
    )
    assert begun(trail) == ["left"]


def test_several_edges_that_fire_start_their_targets_in_parallel(flow, trail):
    result = flow.timed(
        f"""
        nodes:
          - {node("first")}
          - {node("one", seconds=5)}
          - {node("two", seconds=5)}
          - {node("three", seconds=5)}
        edges: [{{from: first, to: one}}, {{from: first, to: two}}, {{from: first, to: three}}]
        """
    )
    assert begun(trail) == ["first", "one", "two", "three"]
    assert result.duration_s == 5


def test_a_node_with_several_incoming_edges_waits_for_all_that_can_still_fire(flow, trail):
    output = succeeded(
        flow.timed(
            f"""
            nodes:
              - {node("a")}
              - {node("slow", seconds=9, value=1)}
              - {node("quick", seconds=1, value=2)}
              - {{id: join, type: python, params: {{function: "acts:go",
                  inputs: {{name: join, value: ["${{slow.result}}", "${{quick.result}}"]}}}}}}
            edges: [{{from: a, to: slow}}, {{from: a, to: quick}}, {{from: slow, to: join}}, {{from: quick, to: join}}]
            """
        )
    )
    assert output["result"] == [1, 2]
    assert ("begin", "join", 9) in trail
    assert begun(trail).count("join") == 1


def test_a_node_does_not_wait_for_an_edge_that_can_no_longer_fire(flow, trail):
    flow.timed(
        f"""
        nodes:
          - {{id: route, type: branch, params: {{on: 1, cases: {{1: left, 2: right}}}}}}
          - {node("left", seconds=1)}
          - {node("right")}
          - {node("far")}
          - {node("join")}
        edges:
          - {{from: route, to: left, action: left}}
          - {{from: route, to: right, action: right}}
          - {{from: right, to: far}}
          - {{from: left, to: join}}
          - {{from: far, to: join}}
        """
    )
    assert begun(trail) == ["left", "join"]


def test_a_node_none_of_whose_edges_fired_is_skipped_and_its_output_is_missing(flow, trail):
    workflow = f"""
        nodes:
          - {{id: route, type: branch, params: {{on: 1, cases: {{1: left, 2: right}}}}}}
          - {node("left", value=1)}
          - {node("right", value=2)}
        edges: [{{from: route, to: left, action: left}}, {{from: route, to: right, action: right}}]
        outputs: {{x: "${{right.result%s}}"}}
    """
    assert flow.timed(workflow % "").error.kind == "permanent"
    assert succeeded(flow.timed(workflow % " ?? left.result")) == {"x": 1}
    assert begun(trail) == ["left", "left"]


def test_two_branches_of_which_one_is_skipped_meet_with_the_first_that_ran(flow, trail):
    workflow = f"""
        inputs: {{on: {{required: true}}}}
        nodes:
          - {{id: route, type: branch, params: {{on: "${{on}}", cases: {{l: left, r: right}}}}}}
          - {node("left", value="L")}
          - {node("right", value="R")}
          - {{id: join, type: value, params: {{took: "${{left.result ?? right.result}}"}}}}
        edges:
          - {{from: route, to: left, action: left}}
          - {{from: route, to: right, action: right}}
          - {{from: left, to: join}}
          - {{from: right, to: join}}
    """
    assert [succeeded(result) for result in flow.timed_all(workflow, [{"on": "l"}, {"on": "r"}])] == [
        {"took": "L"},
        {"took": "R"},
    ]


HANDLED = """
    inputs: {kind: {default: permanent}}
    nodes:
      - {id: risky, type: python, params: {function: "acts:risky", inputs: {kind: "${kind}"}}, timeout: 5}
      - {id: good, type: value, params: {went: well}}
      - {id: handle, type: value, params: {error: "${risky.error}"}}
    edges: [{from: risky, to: good}, {from: risky, to: handle, action: error}]
"""


@pytest.fixture
def risky(flow):
    calls = []

    @flow.act
    async def risky(kind):
        calls.append(kind)
        if kind == "slow":
            await asyncio.sleep(100)
        if kind != "well":
            raise {"permanent": gm.Permanent, "transient": gm.Transient, "bug": KeyError}[kind](f"it was {kind}")

    return calls


@pytest.mark.parametrize(
    ("kind", "told", "attempts"), [("permanent", "permanent", 1), ("transient", "transient", 3), ("slow", "timeout", 3)]
)
def test_the_error_edge_is_taken_after_the_retries_and_the_error_is_readable(flow, risky, kind, told, attempts):
    error = succeeded(flow.timed(HANDLED, {"kind": kind}))["error"]
    assert (error["kind"], error["attempts"], len(risky)) == (told, attempts, attempts)
    assert kind == "slow" or error["message"] == f"it was {kind}"


def test_the_error_edge_is_not_taken_when_all_goes_well(flow, risky):
    assert succeeded(flow.timed(HANDLED, {"kind": "well"})) == {"went": "well"}


def test_without_an_error_edge_the_job_fails_with_the_node_s_failure(flow, risky):
    result = flow.timed(
        '{nodes: [{id: risky, type: python, params: {function: "acts:risky", inputs: {kind: bug}}}, {id: after, type: value}]}'
    )
    assert result.status == "failed"
    assert "bug" in result.error.message
    assert "'risky'" in result.error.message


def test_a_timed_out_node_without_an_error_edge_times_its_job_out(flow, risky):
    result = flow.timed(
        '{nodes: [{id: risky, type: python, params: {function: "acts:risky", inputs: {kind: slow}}, timeout: 5, retry: {attempts: 1}}]}'
    )
    assert (result.status, result.error.kind) == ("timed_out", "timeout")


@pytest.mark.parametrize(
    "params",
    [
        '{type: value, params: {x: "${given.text.no}"}}',
        "{type: branch, params: {on: 5, cases: {1: a}}}",
        '{type: python, params: {function: "acts:go", inputs: "${given.text}"}}',
        (
            '{type: workflow, params: {inputs: {n: "${given.text}"}, workflow: '
            "{inputs: {n: {type: integer, required: true}}, nodes: [{id: v, type: value}]}}}"
        ),
    ],
)
def test_template_and_validation_failures_take_the_error_edge_too(flow, trail, params):
    output = succeeded(
        flow.timed(
            f"""
            nodes:
              - {{id: given, type: value, params: {{text: words}}}}
              - {{id: wrong, {params[1:]}
              - {{id: handle, type: value, params: {{kind: "${{wrong.error.kind}}"}}}}
            edges: [{{from: given, to: wrong}}, {{from: wrong, to: handle, action: error}}]
            """
        )
    )
    assert output == {"kind": "permanent"}


def test_a_batch_that_fails_takes_the_error_edge_and_one_that_is_degraded_does_not(flow, risky):
    workflow = """
        inputs: {kinds: {required: true}}
        nodes:
          - id: risky
            type: python
            params: {function: "acts:risky", inputs: {kind: "${item}"}}
            batch: {items: "${kinds}", error_handling: continue}
          - {id: good, type: value, params: {took: default, errors: "${risky.error_count}"}}
          - {id: handle, type: value, params: {took: error, errors: "${risky.error_count}"}}
        edges: [{from: risky, to: good}, {from: risky, to: handle, action: error}]
    """
    assert succeeded(flow.timed(workflow, {"kinds": ["well", "permanent"]})) == {"took": "default", "errors": 1}
    assert succeeded(flow.timed(workflow, {"kinds": ["permanent", "permanent"]})) == {"took": "error", "errors": 2}


def test_a_loop_that_fails_takes_the_error_edge(flow, risky):
    workflow = """
        nodes:
          - {id: risky, type: python, params: {function: "acts:risky", inputs: {kind: permanent}}, loop: {max: 3}}
          - {id: handle, type: value, params: {kind: "${risky.error.kind}"}}
        edges: [{from: risky, to: handle, action: error}]
    """
    assert succeeded(flow.timed(workflow)) == {"kind": "permanent"}


def test_a_child_that_fails_takes_the_error_edge_of_its_node(flow, risky):
    workflow = """
        nodes:
          - id: down
            type: workflow
            params: {workflow: {nodes: [{id: risky, type: python, params: {function: "acts:risky", inputs: {kind: transient}}}]}}
          - {id: handle, type: value, params: {error: "${down.error}"}}
        edges: [{from: down, to: handle, action: error}]
    """
    error = succeeded(flow.timed(workflow))["error"]
    assert (error["kind"], "it was transient" in error["message"], len(risky)) == ("transient", True, 3)


def test_an_error_edge_is_not_taken_when_the_job_is_cancelled(flow, trail):
    graph = flow.load(
        f"""
        nodes:
          - {node("long", seconds=50)}
          - {node("handle")}
        edges: [{{from: long, to: handle, action: error}}]
        """
    )
    (result,), _ = virtual(
        [gm.Job(id="0", graph=graph, input={})], on_run=lambda run: asyncio.get_running_loop().call_later(5, run.cancel)
    )
    assert result.status == "cancelled"
    assert begun(trail) == ["long"]


def test_an_error_edge_is_not_taken_when_the_job_s_own_time_is_up(flow, trail):
    result = flow.timed(
        f"""
        nodes:
          - {node("long", seconds=50)}
          - {node("handle")}
        edges: [{{from: long, to: handle, action: error}}]
        """,
        job_timeout_s=5,
    )
    assert result.status == "timed_out"
    assert begun(trail) == ["long"]


def test_the_error_of_a_node_is_readable_behind_its_error_edge_only(flow):
    problem = flow.problem(
        """
        nodes:
          - {id: risky, type: code, params: {code: "result = 1"}}
          - {id: after, type: value, params: {x: "${risky.error}"}}
        edges: [{from: risky, to: after}]
        """
    )
    assert "action: error" in problem


def test_an_unhandled_failure_ends_the_branches_beside_it(flow, trail, risky):
    result = flow.timed(
        f"""
        nodes:
          - {node("long", seconds=50)}
          - {node("after")}
          - {{id: risky, type: python, params: {{function: "acts:risky", inputs: {{kind: permanent}}}}}}
        edges: [{{from: long, to: after}}]
        """
    )
    assert (result.status, result.duration_s, begun(trail)) == ("failed", 0, ["long"])


def test_a_handled_failure_leaves_the_branches_beside_it_alone(flow, trail, risky):
    result = flow.timed(
        f"""
        nodes:
          - {node("long", seconds=50)}
          - {{id: risky, type: python, params: {{function: "acts:risky", inputs: {{kind: permanent}}}}}}
          - {node("handle")}
        edges: [{{from: risky, to: handle, action: error}}]
        """
    )
    assert (result.status, begun(trail), trail[-1]) == ("succeeded", ["long", "handle"], ("end", "long", 50))


def test_a_node_id_an_input_and_an_alias_can_not_share_a_name(flow):
    problems = flow.problems(
        """
        inputs: {fetch: {default: 1}, user: {default: 1}}
        nodes:
          - {id: fetch, type: value}
          - {id: each, type: value, batch: {items: [1], as: user}}
          - {id: more, type: value, batch: {items: [1], as: each}}
          - {id: each, type: value}
        """
    )
    for line, word in [(4, "'fetch'"), (5, "'user'"), (6, "'each'"), (7, "'each'")]:
        assert any(f"workflow.yaml:{line}:" in problem and word in problem for problem in problems), problems


def test_without_declared_outputs_the_last_listed_node_that_ran_gives_them(flow):
    workflow = """
        inputs: {on: {required: true}}
        nodes:
          - {id: route, type: branch, params: {on: "${on}", cases: {l: left, r: right}}}
          - {id: left, type: value, params: {x: left}}
          - {id: right, type: value, params: {x: right}}
        edges: [{from: route, to: left, action: left}, {from: route, to: right, action: right}]
    """
    assert [flow.output(workflow, {"on": on}) for on in "lr"] == [{"x": "left"}, {"x": "right"}]


def test_an_edge_can_not_fire_on_any_action(flow):
    text = """
        nodes: [{id: a, type: value}, {id: b, type: value}]
        edges: [{from: a, to: b, action: "*"}]
    """
    assert "an edge has a single action" in flow.problem(text)


def test_what_went_well_can_not_take_the_error_edge(flow):
    text = """
        nodes:
          - {id: a, type: code, params: {code: "next = 'error'"}}
          - {id: b, type: value, params: {said: "${a.error.message}"}}
        edges: [{from: a, to: b, action: error}]
    """
    assert "reserved for failures" in flow.result(text).output["said"]


@pytest.mark.parametrize("action", ["end", "default", "stop"])
def test_in_a_list_no_action_of_code_ends_the_job(flow, action):
    text = f"""
        nodes:
          - {{id: c, type: code, params: {{code: "result = 1; next = '{action}'"}}}}
          - {{id: v, type: value, params: {{after: "${{c.result}}"}}}}
    """
    assert flow.output(text) == {"after": 1}


def test_with_edges_an_action_named_end_leads_along_its_edge(flow):
    text = """
        nodes:
          - {id: c, type: code, params: {code: "result = 1; next = 'end'"}}
          - {id: other, type: value, params: {took: default}}
          - {id: v, type: value, params: {took: end}}
        edges: [{from: c, to: other}, {from: c, to: v, action: end}]
    """
    assert flow.output(text) == {"took": "end"}


def test_a_branch_can_not_return_the_action_of_a_failure(flow):
    problem = flow.problem("nodes: [{id: b, type: branch, params: {on: 1, cases: {1: error}, default: go}}]")
    assert "reserved for failures" in problem


PICK = """
    inputs: {n: {default: 1}}
    nodes:
      - {id: pick, type: branch, params: {on: "${n}", cases: {1: keep, 2: drop}}}
      - {id: out, type: value, params: {text: dropped}}
      - {id: after, type: value, params: {text: "${out.text}"}}
    edges: [{from: pick, to: out, action: drop}%s, {from: out, to: after}]
    outputs: {text: "${%s.text}"}
"""


def test_what_a_skipped_node_would_have_given_is_missing_with_the_reason(flow):
    for missed in ("out", "after"):
        message = flow.failure(PICK % ("", missed)).message
        assert f"node {missed!r} was skipped: 'pick' returned 'keep', which no edge takes" in message
    message = flow.failure(PICK % (", {from: pick, to: after, action: keep}", "out")).message
    assert "node 'out' was skipped: 'pick' returned 'keep', and that edge leads elsewhere" in message


def test_what_an_end_node_has_left_out_is_missing_with_the_reason(flow):
    text = "{nodes: [{id: stop, type: end, params: {default: partial}}, {id: v, type: value, params: {n: 1}}], outputs: {n: '${v.n}'}}"
    assert "node 'v' did not run: 'stop' ended the workflow" in flow.failure(text).message


def test_a_node_that_is_listed_behind_an_end_is_noted(flow):
    text = "{nodes: [{id: stop, type: end, params: {default: partial}%s}, {id: v, type: value, params: {n: 1}}, {id: w, type: value}]%s}"
    [note] = flow.load(text % ("", "")).notes
    assert "node 'v': never runs, because 'stop' ends the job" in note.message
    assert flow.load(text % (", batch: {items: [1]}", "")).notes == ()
    assert flow.load(text % ("", ", edges: [{from: v, to: w}, {from: w, to: stop}]")).notes == ()


def test_what_is_missing_of_what_ran_is_told_as_ever(flow):
    text = PICK.replace("${out.text}", "${out.text ?? n.deep}") % (", {from: pick, to: after, action: keep}", "after")
    message = flow.failure(text).message
    assert "node 'out' was skipped" in message
    assert "no 'deep' in n" in message
    assert "#" not in message


NEVER = {
    "branch": ("{id: s, type: branch, params: {on: 1, cases: {1: keep, 2: drop}}}", "kep", "'keep'"),
    "value": ("{id: s, type: value, params: {n: 1}}", "eror", "'error'"),
    "code": ("{id: s, type: code, params: {code: result = 1}}", "defualt", "'default'"),
    "batch": (
        "{id: s, type: branch, params: {on: 1, cases: {1: keep}}, batch: {items: [1]}}",
        "keep",
        "its actions: default, error",
    ),
    "end": ("{id: s, type: end, params: {default: partial}}", "default", "its actions: end, error"),
    "workflow": (
        "{id: s, type: workflow, params: {workflow: {nodes: [{id: v, type: value}]}}}",
        "done",
        "its actions: default, error",
    ),
}


@pytest.mark.parametrize("source", sorted(NEVER))
def test_an_edge_on_an_action_that_its_node_never_returns_is_refused(flow, source):
    node, action, told = NEVER[source]
    text = f"""
        nodes:
          - {node}
          - {{id: t, type: value, params: {{n: 1}}}}
        edges:
          - {{from: s, to: t, action: {action}}}
    """
    problem = flow.problem(text)
    assert f"never returns {action!r}" in problem
    assert told in problem
    assert ":6:" in problem


@pytest.mark.parametrize(
    "source", ['{id: s, type: code, params: {code: "result = 1; next = str(result)"}}', "{id: s, type: metered}"]
)
def test_what_may_return_any_action_may_have_any_edge(flow, metered, source):
    del metered
    text = f"{{nodes: [{source}, {{id: t, type: value}}], edges: [{{from: s, to: t, action: whatever}}]}}"
    assert flow.load(text).notes == ()


def test_an_action_of_a_branch_that_no_edge_takes_is_noted(flow):
    (note,) = flow.load(PICK % ("", "after")).notes
    assert "no edge takes its action 'keep'" in note.message
