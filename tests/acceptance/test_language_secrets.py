"""The workflow language: ``{env: NAME}`` is read from the environment at the attempt and never stored."""

import json
import os
from dataclasses import replace

import pytest

import graphmill as gm
from support.flows import PROMPT

SECRET = "hunter2-é-\U0001f511"
NAME = "GRAPHMILL_TEST_KEY"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv(NAME, SECRET)


@pytest.fixture
def use(flow):
    """``acts:use`` notes the key that it is given."""
    seen = []

    @flow.act
    async def use(key, n=0):
        del n
        seen.append(key)
        return len(str(key))

    return seen


def holds_secret(folder):
    """List the files that hold the secret, in any encoding that we write."""
    needles = [SECRET.encode(), json.dumps(SECRET)[1:-1].encode(), b"hunter2"]
    return [
        path.name
        for path in folder.rglob("*")
        if path.is_file() and any(needle in path.read_bytes() for needle in needles)
    ]


def recorded(flow, text, inputs=None, **options):
    """Run one job in a journal that is a file; hold that the secret is in none of its files, nor in an export; give its result."""
    options.setdefault("policy", PROMPT)
    journal = flow.folder / "journal" / "runs.db"
    journal.parent.mkdir(exist_ok=True)
    events = []
    report = gm.batch(
        flow.load(text), [inputs or {}], run_id="r", journal=journal, observers=[events.append], **options
    )
    report.export(flow.folder / "journal" / "results.jsonl")
    assert holds_secret(flow.folder) == []
    assert "hunter2" not in repr(events)
    (result,) = report.results()
    assert "hunter2" not in repr(result)
    return result


def test_a_secret_is_given_to_the_node_and_stored_nowhere(flow, use):
    result = recorded(
        flow, f'nodes: [{{id: u, type: python, params: {{function: "acts:use", inputs: {{key: {{env: {NAME}}}}}}}}}]'
    )
    assert (result.status, use) == ("succeeded", [SECRET])


def test_code_in_a_worker_process_is_given_it_too(flow):
    result = recorded(
        flow, f'nodes: [{{id: u, type: code, params: {{inputs: {{key: {{env: {NAME}}}}}, code: "result = len(key)"}}}}]'
    )
    assert result.output["result"] == len(SECRET)


def test_a_secret_may_stand_at_any_depth(flow, use):
    recorded(
        flow,
        f'nodes: [{{id: u, type: python, params: {{function: "acts:use", inputs: {{key: {{deep: [1, {{env: {NAME}}}]}}}}}}}}]',
    )
    assert use == [{"deep": [1, SECRET]}]


def test_a_mapping_with_more_than_env_is_plain_data(flow, use):
    result = flow.result(
        'nodes: [{id: u, type: python, params: {function: "acts:use", inputs: {key: {env: HOME, and: more}}}}]'
    )
    assert (result.status, use) == ("succeeded", [{"env": "HOME", "and": "more"}])


def test_a_stranger_s_type_is_given_it(flow, metered):
    assert recorded(flow, f"nodes: [{{id: m, type: metered, params: {{key: {{env: {NAME}}}}}}}]").status == "succeeded"
    assert metered.calls == [None]


def test_it_is_read_at_the_attempt(flow, monkeypatch):
    seen = []

    @flow.act
    async def use(key):
        seen.append(key)
        monkeypatch.setenv(NAME, f"key {len(seen)}")
        if len(seen) < 3:
            raise gm.Transient("again")

    flow.output(f'nodes: [{{id: u, type: python, params: {{function: "acts:use", inputs: {{key: {{env: {NAME}}}}}}}}}]')
    assert seen == [SECRET, "key 1", "key 2"]


def test_it_is_read_at_the_attempt_also_for_a_worker_process(flow, monkeypatch):
    def change(error):  # between the attempts, whatever else is slow
        del error
        monkeypatch.setenv(NAME, "new")

    text = f"""
        nodes:
          - id: u
            type: code
            params:
              inputs: {{key: {{env: {NAME}}}}}
              code: |
                if key != "new":
                    raise ConnectionError("again")
                result = key
    """
    assert flow.output(text, policy=replace(PROMPT, classify=change))["result"] == "new"


def test_it_is_not_read_when_the_workflow_is_loaded_or_the_graph_is_made(flow, use, monkeypatch):
    graph = flow.load(
        f'nodes: [{{id: u, type: python, params: {{function: "acts:use", inputs: {{key: {{env: {NAME}}}}}}}}}]'
    )
    monkeypatch.setenv(NAME, "later")
    gm.batch(graph, [{}])
    assert use == ["later"]


@pytest.mark.parametrize(
    "node",
    [
        '{id: u, type: python, params: {function: "acts:use", inputs: {key: {env: GM_NOT_SET}}}}',
        '{id: u, type: code, params: {inputs: {key: {env: GM_NOT_SET}}, code: "result = key"}}',
    ],
)
def test_a_variable_that_is_not_set_is_a_permanent_failure_that_names_it(flow, use, node):
    failure = flow.failure(f"nodes: [{node}]")
    assert (failure.kind, "GM_NOT_SET" in failure.message, use) == ("permanent", True, [])


@pytest.mark.parametrize("name", ["''", "'A B'", "'${x}'", "'1A'", "'A='"])
def test_a_name_that_no_variable_can_have_is_refused(flow, name):
    assert "env" in flow.problem(
        f"{{inputs: {{x: {{default: 1}}}}, nodes: [{{id: v, type: value, params: {{key: {{env: {name}}}}}}}]}}"
    )


def test_items_and_rounds_are_given_it(flow, use):
    recorded(
        flow,
        f"""
        nodes:
          - {{id: each, type: python, params: {{function: "acts:use", inputs: {{key: {{env: {NAME}}}, n: "${{item}}"}}}},
              batch: {{items: [1, 2], parallel: true}}}}
          - {{id: again, type: python, params: {{function: "acts:use", inputs: {{key: {{env: {NAME}}}, n: "${{__round__}}"}}}},
              loop: {{max: 2}}}}
        """,
    )
    assert use == [SECRET] * 4


def test_a_child_is_given_it_as_an_input(flow, use):
    result = recorded(
        flow,
        f"""
        nodes:
          - id: down
            type: workflow
            params:
              inputs: {{key: {{env: {NAME}}}}}
              workflow:
                inputs: {{key: {{type: string, required: true}}}}
                nodes: [{{id: u, type: python, params: {{function: "acts:use", inputs: {{key: "${{key}}"}}}}}}]
        """,
    )
    assert (result.status, use) == ("succeeded", [SECRET])


def test_a_value_node_names_it_for_later_nodes(flow, use):
    result = recorded(
        flow,
        f"""
        nodes:
          - {{id: settings, type: value, params: {{key: {{env: {NAME}}}}}}}
          - {{id: u, type: python, params: {{function: "acts:use", inputs: {{key: "${{settings.key}}"}}}}}}
        """,
    )
    assert (result.status, use) == ("succeeded", [SECRET])


ERRORS = {
    "in-place": '{id: u, type: python, params: {function: "acts:refuse", inputs: {key: {env: %s}}}}',
    "worker": "{id: u, type: code, params: {inputs: {key: {env: %s}}, code: \"raise ConnectionError(f'refused {key}')\\nresult = 1\"}}",
    "branch": "{id: u, type: branch, params: {on: {env: %s}, cases: {other: a}}}",
}


@pytest.mark.parametrize("place", sorted(ERRORS))
def test_an_error_that_repeats_the_secret_is_kept_without_it(flow, place):
    @flow.act
    async def refuse(key):
        try:
            raise LookupError(f"no such key: {key}")
        except LookupError as error:
            raise gm.Transient(f"refused {key}") from error

    result = recorded(flow, f"nodes: [{ERRORS[place] % NAME}]")
    assert result.status == "failed"
    assert NAME in result.error.message


def test_a_handled_error_that_repeats_the_secret_is_read_without_it(flow):
    @flow.act
    async def refuse(key):
        raise gm.Permanent(f"refused {key}")

    result = recorded(
        flow,
        f"""
        nodes:
          - {ERRORS["in-place"] % NAME}
          - {{id: handle, type: value, params: {{error: "${{u.error}}"}}}}
        edges: [{{from: u, to: handle, action: error}}]
        """,
    )
    assert NAME in result.output["error"]["message"]


def test_params_that_do_not_fit_are_told_without_the_secret(flow, metered):
    del metered
    result = recorded(flow, f"nodes: [{{id: m, type: metered, params: {{fails: {{env: {NAME}}}}}}}]")
    assert (result.status, result.error.kind, "fails" in result.error.message) == ("failed", "permanent", True)


def test_another_secret_of_the_same_name_does_not_do_finished_steps_again(flow, use, monkeypatch):
    text = f"""
        nodes:
          - {{id: u, type: python, params: {{function: "acts:use", inputs: {{key: {{env: {NAME}}}}}}}}}
          - {{id: gate, type: python, params: {{function: "acts:gate"}}}}
    """
    fails = [True]

    @flow.act
    async def gate():
        if fails:
            raise gm.Permanent("not yet")

    assert recorded(flow, text).status == "failed"
    fails.clear()
    monkeypatch.setenv(NAME, "another")
    (result,) = gm.retry("r", graph=flow.load(text), journal=flow.folder / "journal" / "runs.db").results()
    assert (result.status, use) == ("succeeded", [SECRET])


def test_the_environment_of_the_run_is_not_changed(flow, use):
    before = dict(os.environ)
    flow.output(f'nodes: [{{id: u, type: python, params: {{function: "acts:use", inputs: {{key: {{env: {NAME}}}}}}}}}]')
    assert dict(os.environ) == before


LONG = "TOPSECRET-" + "0123456789abcdefghijklmnopqrstuvwxyz" * 3
JSON_TEXT = json.dumps({LONG[:60]: {LONG[60:]: 1}})


def child(nodes, kind="any", outputs=""):
    return f"""
        nodes:
          - id: down
            type: workflow
            params:
              inputs: {{k: {{env: {NAME}}}}}
              workflow: {{inputs: {{k: {{type: {kind}, required: true}}}}, nodes: [{nodes}]{outputs}}}
    """


def coded(code):
    return f"nodes: [{{id: c, type: code, params: {{inputs: {{k: {{env: {NAME}}}}}, code: {json.dumps(code)}}}, retry: {{attempts: 1}}}}]"


V = "{id: v, type: value, params: {n: 1}%s}"
SHORTENED = {
    "a case": f"nodes: [{{id: m, type: branch, params: {{on: {{env: {NAME}}}, cases: {{a: b}}}}}}]",
    "an action": coded("result = 1\nnext = [k]"),
    "items": child(V % ', batch: {items: "${k}"}'),
    "rounds": child(V % ', loop: {max: "${k}"}'),
    "an integer": child(V % "", "integer"),
    "an object": child(V % "", "object"),
    "a long message": coded("raise ValueError('x' * 1980 + k)\nresult = 1"),
    "the end of a long message": coded("raise ValueError('x' * 1994 + k)\nresult = 1"),
    "a traced cause": coded(
        "try:\n    raise KeyError('y' * 194 + k)\nexcept KeyError:\n    raise ValueError('no')\nresult = 1"
    ),
    "a part": coded("raise ValueError(f'no key {k[20:40]} here')\nresult = 1"),
    "an item": child(
        '{id: v, type: code, params: {code: "raise ValueError(1)\\nresult = 1"}, retry: {attempts: 1}, batch: {items: ["${k}"]}}'
    ),
    "an entry": child(V % ', batch: {items: ["${k.none}"]}'),
    "an output": f"{{nodes: [{{id: v, type: value, params: {{k: {{env: {NAME}}}}}}}], outputs: {{o: '${{v.k.none}}'}}}}",
    "a key": child(V % ', batch: {items: "${k.none}"}'),
}


@pytest.mark.parametrize("secret", [LONG, JSON_TEXT], ids=["text", "json"])
@pytest.mark.parametrize("place", sorted(SHORTENED))
def test_a_secret_that_a_message_cuts_short_is_not_kept_in_part(flow, monkeypatch, place, secret):
    monkeypatch.setenv(NAME, secret)
    journal = flow.folder / "journal" / "runs.db"
    journal.parent.mkdir()
    graph = flow.load(SHORTENED[place])
    report = gm.batch(graph, [{}], run_id="r", journal=journal, policy=PROMPT)
    report.export(flow.folder / "journal" / "results.jsonl")
    (result,) = report.results()
    written = b"".join(path.read_bytes() for path in journal.parent.rglob("*") if path.is_file()).decode(
        "utf-8", "replace"
    ) + repr(result)
    assert result.status == "failed"
    assert [part for part in (secret[:5], secret[20:30], LONG[:5], LONG[20:28]) if part in written] == []


def test_of_secrets_that_begin_alike_the_longer_is_concealed_whole(flow, monkeypatch):
    monkeypatch.setenv("GM_K1", "abcd")
    monkeypatch.setenv("GM_K2", "abcdefghSECRET")
    failure = flow.failure(
        "nodes: [{id: c, type: code, params: {inputs: {a: {env: GM_K1}, b: {env: GM_K2}}, "
        "code: \"raise KeyError(f'{b} and {a}.')\\nresult = 1\"}, retry: {attempts: 1}}]"
    )
    assert "'{env: GM_K2} and {env: GM_K1}.'" in failure.message


def test_a_message_without_the_secret_is_told_as_it_is(flow, monkeypatch):
    monkeypatch.setenv(NAME, "https://shop.example/key")
    told = f"see https:// or {{env: {NAME}}}"
    assert flow.failure(coded(f"raise ValueError('{told}')\nresult = 1")).message.startswith(told)
