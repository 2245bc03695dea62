"""A compiled LangGraph graph runs as it is: the same states, its own checkpointer, its questions, its nodes in the trace."""

import asyncio
import json
import operator
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph

import graphmill as gm
from graphmill.core.json import item_key
from support import langgraphs
from support.command import HANG_S
from support.langgraphs import Point, chain, logging, plainly_logging
from support.remains import wait_until

QUICK = gm.Policy(retry=gm.Retry(attempts=2, wait_s=0.0, jitter=False))


def outputs(report):
    return {result.job_id: result.output for result in report.results()}


def only(report):
    (result,) = report.results()
    return result


def shown(journal, run_id, item_id):
    history = journal.archive.history(journal.archive.find(run_id), item_key(item_id))
    return [row.path for row in sorted(history.steps, key=lambda row: row.began_s)]


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (langgraphs.cycle, 200),
        (langgraphs.fan_out, 20),
        (langgraphs.nested, 20),
        (lambda: chain({"a": logging("a"), "b": plainly_logging("b")}), 20),
    ],
    ids=["a cycle", "a fan-out", "a subgraph", "async and plain nodes"],
)
def test_items_give_the_states_that_langgraph_gives(make, count, tmp_path):
    graph = make()
    items = [{"id": str(number), "n": number % 5 + 1} for number in range(count)]
    theirs = asyncio.run(graph.abatch(items))
    assert [result.output for result in gm.batch(graph, items[:20], concurrency=50).results()] == theirs[:20]
    recorded = gm.batch(graph, items, run_id="r", journal=tmp_path / "runs.db")
    assert outputs(recorded) == {item["id"]: state for item, state in zip(items, theirs, strict=True)}


def test_messages_come_out_as_plain_mappings():
    (result,) = gm.batch(langgraphs.chat(), [{"messages": [{"role": "user", "content": "hi", "id": "q"}]}]).results()
    assert [(each["type"], each["content"], each["id"]) for each in result.output["messages"]] == [
        ("human", "hi", "q"),
        ("ai", "you said hi", "a"),
    ]
    assert json.loads(json.dumps(result.output)) == result.output


def test_a_dataclass_in_the_state_comes_out_as_a_mapping_and_what_json_can_not_hold_names_its_key_and_type():
    def points(state):
        return {"point": Point(1), "socket": state.get("socket")}

    graph = chain({"points": points}, schema=langgraphs.Odd)
    assert gm.run(graph, {"point": None}).output == {"point": {"x": 1}, "socket": None}
    failed = gm.run(graph, {"socket": object()})
    assert (failed.error.kind, failed.attempts) == ("permanent", 1)
    assert "the state's 'socket' is not JSON: object is not a JSON type" in failed.error.message


def test_an_item_that_is_no_mapping_is_refused_with_the_keys_of_the_input_unless_the_state_is_one_value():
    failed = gm.run(langgraphs.example, "hello")
    assert (failed.error.kind, failed.attempts) == ("permanent", 1)
    assert failed.error.message == (
        "the LangGraph graph takes a mapping, got str; write {'id': …}; the keys of its input: 'id', 'n', 'log'"
    )

    @entrypoint()
    async def double(number: int) -> int:
        return number * 2

    assert [result.output for result in gm.batch(double, [1, 2]).results()] == [2, 4]


def test_only_the_output_schema_comes_out():
    builder = StateGraph(langgraphs.Log, output_schema=langgraphs.Odd)
    builder.add_node("a", lambda state: {"log": ["a"], "point": 1})
    builder.add_edge(START, "a")
    assert gm.run(builder.compile(), {"n": 1}).output == {"point": 1}


def test_a_node_that_raises_fails_its_item_by_the_type_of_the_error_and_says_where():
    def fail(state):
        raise (ValueError if state["n"] else TypeError)("no")

    first, second = gm.batch(chain({"a": logging("a"), "fail": fail}), [{"n": 0}, {"n": 1}], policy=QUICK).results()
    assert (first.error.kind, first.attempts, first.error.message) == (
        "permanent",
        1,
        "no (in the graph's node 'fail')",
    )
    assert (second.error.kind, second.attempts, second.error.message) == (
        "transient",
        2,
        "no (in the graph's node 'fail')",
    )


def test_a_limit_of_steps_is_taken_from_the_graph_s_own_config_and_more_of_them_is_a_permanent_failure():
    graph = langgraphs.cycle().with_config(recursion_limit=5)
    assert gm.run(graph, {"n": 2}).output["n"] == 0
    failed = gm.run(graph, {"n": 3})
    assert (failed.error.kind, failed.attempts) == ("permanent", 1)
    assert "Recursion limit of 5 reached" in failed.error.message


def test_what_langgraph_has_not_compiled_or_would_stop_for_debugging_is_refused_with_the_remedy():
    builder = StateGraph(langgraphs.Log)
    builder.add_node("a", logging("a"))
    builder.add_edge(START, "a")
    with pytest.raises(gm.UsageError, match=r"cannot run LangGraph's StateGraph; compile it first: graph\.compile\(\)"):
        gm.batch(builder, [{}])
    with pytest.raises(
        gm.UsageError, match=r"debugging stops .*: a\); compile it without them; to ask a question, call interrupt"
    ):
        gm.Job(id="a", graph=builder.compile(interrupt_before=["a"], checkpointer=InMemorySaver()))


def test_it_can_not_run_in_a_worker_process():
    with pytest.raises(gm.UsageError, match="a LangGraph graph cannot run with isolation='process'"):
        gm.batch(langgraphs.example, [{}], isolation="process")


class Flaky:
    """A node that fails once for each item, and counts."""

    def __init__(self):
        self.calls = []

    def __call__(self, state):
        self.calls.append(state["id"])
        if self.calls.count(state["id"]) == 1:
            raise ValueError("once")
        return {"log": ["flaky"]}


def counted(calls, name):
    def node(state):
        calls.append((name, state["id"]))
        return {"log": [name]}

    return node


SAVERS = {
    "in memory": lambda _: InMemorySaver(),
    "SqliteSaver": lambda path: SqliteSaver(sqlite3.connect(path / "saver.db", check_same_thread=False)),
}


@pytest.fixture(params=SAVERS)
def saver(request, tmp_path):
    found = SAVERS[request.param](tmp_path)
    yield found
    if isinstance(found, SqliteSaver):
        found.conn.close()


def test_a_later_attempt_goes_on_from_the_checkpoint(saver, store):
    calls, flaky = [], Flaky()
    graph = chain({"a": counted(calls, "a"), "flaky": flaky, "b": counted(calls, "b")}, checkpointer=saver)
    result = only(gm.batch(graph, [{"id": "x"}], policy=QUICK, run_id="r", journal=store))
    assert (result.output["log"], result.attempts) == (["a", "flaky", "b"], 2)
    assert calls == [("a", "x"), ("b", "x")]
    assert shown(store, "r", "x") == ["a:1", "flaky:1", "flaky:2", "b:1"]


def test_without_a_checkpointer_a_later_attempt_starts_anew(store):
    calls = []
    graph = chain({"a": counted(calls, "a"), "flaky": Flaky()})
    result = only(gm.batch(graph, [{"id": "x"}], policy=QUICK, run_id="r", journal=store))
    assert (result.output["log"], calls) == (["a", "flaky"], [("a", "x")] * 2)


def test_the_thread_is_the_run_the_item_and_the_generation(store):
    saver, flaky = InMemorySaver(), Flaky()
    graph = chain({"flaky": flaky}, checkpointer=saver)
    once = gm.Policy(retry=gm.Retry(attempts=1))
    assert gm.batch(graph, [{"id": "x"}], policy=once, run_id="r", journal=store).statistics.failed == 1
    gm.retry("r", graph=graph, journal=store)
    assert {found.config["configurable"]["thread_id"] for found in saver.list(None)} == {"r/x/1", "r/x/2"}


def test_a_run_that_has_the_name_of_an_earlier_one_begins_anew(tmp_path):
    saver = InMemorySaver()
    for name in ("a", "b", "c"):
        graph = chain({name: logging(name)}, checkpointer=saver)
        result = only(gm.batch(graph, [{"id": "x"}], run_id="r", journal=str(tmp_path / f"{name}.db")))
        assert result.output["log"] == [name]


def test_runs_without_a_journal_share_no_thread():
    saver = InMemorySaver()
    graph = chain({"a": logging("a")}, checkpointer=saver)
    assert [gm.run(graph, {"id": "x"}).output["log"] for _ in range(2)] == [["a"], ["a"]]


def test_an_input_that_was_edited_while_its_item_was_unfinished_begins_another_thread(saver, tmp_path):
    calls = []
    graph = chain({"a": counted(calls, "a")}, checkpointer=saver)
    for number, name in enumerate(("lost.db", "runs.db")):
        result = only(gm.batch(graph, [{"id": "x", "n": number}], run_id="r", journal=tmp_path / name))
        assert result.output == {"id": "x", "n": number, "log": ["a"]}
    assert calls == [("a", "x")] * 2


def test_what_has_finished_without_being_recorded_gives_its_state_and_runs_nothing(saver, tmp_path):
    def copy(state):
        """Keep the journal as it is before the result is recorded."""
        with (
            closing(sqlite3.connect(tmp_path / "lost.db")) as journal,
            closing(sqlite3.connect(tmp_path / "runs.db")) as kept,
        ):
            journal.backup(kept)

    calls = []
    graph = chain({"a": counted(calls, "a"), "b": counted(calls, "b"), "copy": copy}, checkpointer=saver)
    for name in ("lost.db", "runs.db"):
        result = only(gm.batch(graph, [{"id": "x"}], run_id="r", journal=tmp_path / name))
        assert result.output == {"id": "x", "log": ["a", "b"]}
    assert calls == [("a", "x"), ("b", "x")]


def test_an_async_checkpointer_is_used_on_the_loop(tmp_path, store):
    calls, flaky = [], Flaky()

    async def scenario():
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "saver.db")) as saver:
            graph = chain({"a": counted(calls, "a"), "flaky": flaky, "b": logging("b")}, checkpointer=saver)
            return await gm.abatch(
                graph, [{"id": str(number)} for number in range(20)], policy=QUICK, run_id="r", journal=store
            )

    report = asyncio.run(scenario())
    assert [result.output["log"] for result in report.results()] == [["a", "flaky", "b"]] * 20
    assert len(calls) == 20


def test_an_async_node_with_a_plain_checkpointer_is_refused_with_the_remedy(tmp_path):
    graph = chain(
        {"a": plainly_logging("a"), "b": logging("b")}, checkpointer=SqliteSaver(sqlite3.connect(tmp_path / "saver.db"))
    )
    with pytest.raises(
        gm.UsageError, match=r"node 'b' .* is async, .* SqliteSaver is not; .* such as AsyncSqliteSaver"
    ):
        gm.run(graph, {"id": "x"})
    graph.checkpointer.conn.close()


def test_a_checkpointer_of_another_event_loop_is_refused_before_the_first_item(tmp_path):
    async def scenario():
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "saver.db")) as saver:
            graph = chain({"a": logging("a")}, checkpointer=saver)
            await asyncio.to_thread(gm.run, graph, {"id": "x"})

    with pytest.raises(gm.UsageError, match=r"AsyncSqliteSaver belongs to another event loop.*gm\.abatch"):
        asyncio.run(scenario())


class Counting(GenericFakeChatModel):
    """A model whose answers say what they have used."""


def said(text, number, **details):
    usage = {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12, **details}
    about = {"model_name": "small", "model_provider": "acme"}
    return AIMessage(content=text, id=f"m{number}", usage_metadata=usage, response_metadata=about)


class TestUsage:
    """What models have used that a graph calls through LangChain, or whose messages it returns."""

    def test_tokens_in_usage_metadata_are_counted_once_and_priced(self, store, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "graphmill.yaml").write_text("prices: {acme/small: {input: 100, output: 1000}}")
        model = Counting(messages=iter([said("a", 1, input_token_details={"cache_read": 4}), said("b", 2)]))

        async def think(state):
            return {"messages": [await model.ainvoke(state["messages"])]}

        def act(state):
            model.invoke(state["messages"])  # its answer goes nowhere
            return {"messages": [AIMessage(content="by hand", usage_metadata=said("", 0).usage_metadata)]}

        def again(state):
            return {"messages": state["messages"]}

        graph = chain({"think": think, "act": act, "again": again}, schema=langgraphs.Chat)
        report = gm.batch(graph, [{"id": "x", "messages": ["Hi"]}], run_id="r", journal=store)
        usage = report.statistics.usage
        assert {
            model: (used.requests, used.input_tokens, used.cached_tokens, used.output_tokens)
            for model, used in usage.items()
        } == {
            "acme/small": (2, 20, 4, 4),
            "": (1, 10, 0, 2),
        }
        assert only(report).usage["input_tokens"] == 30
        assert (usage["acme/small"].cost_nano, usage["acme/small"].unpriced, usage[""].unpriced) == (6_000_000, 0, 1)

    def test_what_an_attempt_that_fails_has_used_counts_too_and_a_checkpointed_answer_only_once(self, saver, store):
        flaky, model = Flaky(), Counting(messages=iter([said("a", 1)]))

        def think(state):
            return {"messages": [model.invoke(state["messages"])]}

        def fail_once(state):
            flaky({"id": "x"})
            return {"messages": state["messages"]}

        graph = chain({"think": think, "fail": fail_once}, schema=langgraphs.Chat, checkpointer=saver)
        report = gm.batch(graph, [{"id": "x", "messages": ["Hi"]}], policy=QUICK, run_id="r", journal=store)
        assert (only(report).attempts, only(report).usage["output_tokens"]) == (2, 2)


def test_a_question_pauses_the_job_and_the_answer_goes_to_where_it_was_asked(saver, store):
    graph = langgraphs.asking("Publish?", checkpointer=saver)
    items = [{"id": "x"}, {"id": "y"}]
    report = gm.batch(graph, items, run_id="r", journal=store)
    assert [(result.status, result.error.message) for result in report.results()] == [
        ("waiting", "waits for an answer: Publish?")
    ] * 2
    report = gm.resume("r", graph=graph, items=items, journal=store, answers={"x": {"ok": True}})
    assert {result.job_id: result.status for result in report.results()} == {"x": "succeeded", "y": "waiting"}
    assert outputs(report)["x"] == {"id": "x", "log": ["before", {"ok": True}, "after"]}
    assert shown(store, "r", "x").count("before:1") == 1


def test_questions_of_one_node_are_answered_one_after_the_other_also_if_they_are_the_same(saver, store):
    graph = langgraphs.asking("Sure?", "Sure?", "Really?", checkpointer=saver)
    gm.batch(graph, [{"id": "x"}], run_id="r", journal=store)
    for answer in ("one", "two", "three"):
        result = only(gm.resume("r", graph=graph, items=[{"id": "x"}], journal=store, answers={"x": answer}))
    assert (result.status, result.output["log"]) == ("succeeded", ["before", "one", "two", "three", "after"])


def test_questions_asked_side_by_side_are_answered_by_their_paths(saver, store):
    graph = langgraphs.asking_beside(checkpointer=saver)
    asked = only(gm.batch(graph, [{"id": "x"}], run_id="r", journal=store)).metadata["questions"]
    assert sorted(each["question"] for each in asked) == ["left?", "right?"]
    answers = {each["path"]: each["question"].upper() for each in asked}
    result = only(gm.resume("r", graph=graph, items=[{"id": "x"}], journal=store, answers={"x": answers}))
    assert sorted(result.output["log"]) == ["left: LEFT?", "right: RIGHT?"]


def test_a_question_needs_a_checkpointer_and_a_run_that_is_recorded(store):
    failed = only(gm.batch(langgraphs.asking("?"), [{"id": "x"}], run_id="r", journal=store))
    assert (failed.error.kind, failed.attempts) == ("permanent", 1)
    assert "needs a checkpointer; compile it with one" in failed.error.message
    failed = gm.run(langgraphs.asking("?", checkpointer=InMemorySaver()), {"id": "x"})
    assert "give the batch a run_id" in failed.error.message


PROGRAM = """
import os, sqlite3, sys, threading
import graphmill as gm
from langgraph.checkpoint.sqlite import SqliteSaver
from support.langgraphs import chain

def effect(name, item):
    with open("effects.log", "a") as log:
        log.write(f"{name} {item}\\n")

def node(name):
    def run(state):
        if name == "c" and "HALT" in os.environ and int(state["id"]) >= 5:
            effect("halt", state["id"])
            threading.Event().wait()
        effect(name, state["id"])
        return {"log": [name]}
    return run

graph = chain({name: node(name) for name in "abcd"}, checkpointer=SqliteSaver(sqlite3.connect("saver.db", check_same_thread=False)))

if __name__ == "__main__":
    import program
    report = gm.batch(program.graph, gm.source("items.jsonl"), run_id="r", journal="runs.db", concurrency=5)
    print(report.summary())
"""


def test_after_kill_9_no_node_that_had_finished_runs_again_and_the_command_line_reopens_the_graph(
    tmp_path, monkeypatch
):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "items.jsonl").write_text("".join(json.dumps({"id": str(number)}) + "\n" for number in range(10)))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    effects = tmp_path / "effects.log"
    with subprocess.Popen([sys.executable, "program.py"], cwd=tmp_path, env={**os.environ, "HALT": "1"}) as process:
        try:
            wait_until(
                lambda: process.poll() is not None or (effects.exists() and effects.read_text().count("halt") == 5)
            )
            assert process.poll() is None
        finally:
            process.kill()
    command = [sys.executable, "-m", "graphmill", "resume", "r", "--journal", "runs.db"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.stdout.startswith("10/10 items succeeded"), done.stderr
    happened = [line for line in effects.read_text().splitlines() if "halt" not in line]
    assert sorted(happened) == sorted(f"{name} {number}" for name in "abcd" for number in range(10))


IMPORTED = """
import multiprocessing
import graphmill as gm
from support.langgraphs import example as mine
gm.batch(mine, [{"id": "x"}], run_id="r", journal="runs.db")
"""


def test_a_graph_that_the_program_imports_is_reopened_from_the_module_that_made_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    subprocess.run([sys.executable, "-c", IMPORTED], cwd=tmp_path, timeout=HANG_S, check=True)
    command = [sys.executable, "-m", "graphmill", "resume", "r", "--journal", "runs.db", "--source", "items.jsonl"]
    (tmp_path / "items.jsonl").write_text('{"id": "x"}\n{"id": "y"}\n')
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.stdout.startswith("2/2 items succeeded"), done.stderr


NODE = """
nodes:
  - id: agent
    type: langgraph
    params: {graph: "acts:graph", input: {id: x, n: 3}, config: {recursion_limit: 40, configurable: {word: "${word}"}, tags: [t]}}
inputs:
  word: {type: string, required: true}
outputs: {log: "${agent.state.log}"}
"""


def with_graph(flow, graph):
    flow.module.graph = graph
    return flow.load(NODE)


def test_a_node_of_a_workflow_runs_a_graph_with_its_config_and_shows_the_graph_s_nodes_below_it(flow, store):
    async def speak(state, config: RunnableConfig):
        return {"log": [config["configurable"]["word"], config["recursion_limit"]]}

    graph = with_graph(flow, chain({"speak": speak, "b": logging("b")}))
    assert gm.run(graph, {"word": "hi"}, run_id="r", journal=store).output == {"log": ["hi", 40, "b"]}
    assert sorted(shown(store, "r", "job")) == ["agent", "agent/b:1", "agent/speak:1"]


def test_a_node_s_thread_ends_with_its_path_and_its_next_attempt_goes_on_there(flow, store):
    saver, calls = InMemorySaver(), []
    graph = with_graph(flow, chain({"a": counted(calls, "a"), "flaky": Flaky()}, checkpointer=saver))
    assert gm.run(graph, {"word": "hi"}, policy=QUICK, run_id="r", journal=store).output == {"log": ["a", "flaky"]}
    assert calls == [("a", "x")]
    assert {found.config["configurable"]["thread_id"] for found in saver.list(None)} == {"r/job/1/agent"}


def test_a_question_in_a_node_s_graph_pauses_the_workflow(flow, store):
    graph = with_graph(flow, langgraphs.asking("Publish?", checkpointer=InMemorySaver()))
    assert gm.run(graph, {"word": "hi"}, run_id="r", journal=store).status == "waiting"
    assert only(gm.resume("r", journal=store, answers={"job": "yes"})).output == {"log": ["before", "yes", "after"]}


@pytest.mark.parametrize(
    ("graph", "told"),
    [
        ("acts:missing", "has no 'missing'"),
        ("nowhere_at_all:graph", "cannot import 'nowhere_at_all'"),
        ("acts", "graph must be module:name, got 'acts"),
        ("acts:number", "is not a compiled LangGraph graph but int"),
        ("acts:builder", "cannot run LangGraph's StateGraph; compile it first: graph.compile()"),
    ],
)
def test_a_node_whose_graph_can_not_be_had_is_refused_before_the_first_item(flow, graph, told):
    flow.module.number, flow.module.builder = 1, StateGraph(langgraphs.Log)
    text = NODE.replace("acts:graph", graph)
    assert told in flow.problem(text)


def test_without_langgraph_a_node_names_what_installs_it(tmp_path):
    (tmp_path / "w.yaml").write_text(NODE.replace("acts:graph", "agents:graph"))
    script = "import sys; sys.modules['langgraph'] = None\nimport graphmill as gm\ngm.load('w.yaml')"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert "LangGraph is not installed: pip install graphmill[langgraph]" in done.stderr


def test_a_batch_of_a_function_does_not_import_langgraph(tmp_path):
    script = "import sys\nimport graphmill as gm\ngm.batch(len, ['a'])\nassert not {'langgraph', 'langchain_core'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=tmp_path, timeout=HANG_S, check=False).returncode == 0


def test_the_manifest_names_the_graph_and_the_version_of_langgraph(store, flow):
    gm.batch(langgraphs.example, [{"id": "x"}], run_id="r", journal=store)
    gm.run(with_graph(flow, langgraphs.example), {"word": "hi"}, run_id="w", journal=store)
    manifest = store.find("r").manifest
    assert manifest["graph"] == {"kind": "langgraph", "name": "example", "function": "support.langgraphs:example"}
    for run_id in ("r", "w"):
        assert store.find(run_id).manifest["versions"]["langgraph"] == version("langgraph")


def a_first(state):
    return {"log": ["first"]}


def another(state):
    return {"log": ["another"]}


def test_a_changed_node_is_named_and_refused(store):
    gm.batch(chain({"a": a_first, "b": logging("b")}), [{"id": "x"}], run_id="r", journal=store)
    with pytest.raises(
        gm.ChangedError,
        match=r"1 results from before a change: node 'a' changed\. .*='invalidate': redo them\)",
    ):
        gm.batch(chain({"a": another, "b": logging("b")}), [{"id": "x"}], run_id="r", journal=store)
    with pytest.raises(gm.ChangedError, match=r"the order of the nodes changed\. "):
        gm.batch(chain({"b": logging("b"), "a": a_first}), [{"id": "x"}], run_id="r", journal=store)
    report = gm.batch(
        chain({"a": another, "b": logging("b")}), [{"id": "x"}], run_id="r", journal=store, on_change="invalidate"
    )
    assert only(report).output["log"] == ["another", "b"]


def test_a_state_that_is_one_value_takes_and_gives_one():
    builder = StateGraph(Annotated[list, operator.add])
    builder.add_node("a", lambda state: [len(state)])
    builder.add_edge(START, "a")
    assert gm.run(builder.compile(), [5, 6]).output == [5, 6, 2]


class Torn(InMemorySaver):
    """A checkpointer that fails once, when the writes of a node are saved and the checkpoint behind it is not."""

    def __init__(self):
        super().__init__()
        self.failures = 0

    async def aput(self, config, checkpoint, metadata, new_versions):
        if metadata["step"] == 1 and not self.failures:
            self.failures += 1
            raise OSError("the disk is gone")
        return await super().aput(config, checkpoint, metadata, new_versions)


def test_a_node_whose_writes_were_saved_is_not_run_again_though_the_checkpoint_behind_it_was_lost(store):
    calls = []
    graph = chain({"a": counted(calls, "a"), "b": counted(calls, "b")}, checkpointer=Torn())
    result = only(gm.batch(graph, [{"id": "x"}], policy=QUICK, run_id="r", journal=store))
    assert (result.output["log"], result.attempts) == (["a", "b"], 2)
    assert calls == [("a", "x"), ("b", "x")]


def test_of_nodes_side_by_side_only_the_one_that_failed_runs_again(saver, store):
    calls, flaky, builder = [], Flaky(), StateGraph(langgraphs.Log)
    builder.add_node("calm", counted(calls, "calm"))
    builder.add_node("flaky", flaky)
    builder.add_edge(START, "calm")
    builder.add_edge(START, "flaky")
    result = only(gm.batch(builder.compile(checkpointer=saver), [{"id": "x"}], policy=QUICK, run_id="r", journal=store))
    assert sorted(result.output["log"]) == ["calm", "flaky"]
    assert calls == [("calm", "x")]


@pytest.mark.parametrize("is_async", [False, True], ids=["a plain node", "an async node"])
def test_steps_and_questions_of_ours_work_inside_a_node(store, is_async):
    calls = []

    def look_up(word):
        calls.append(word)
        return word.upper()

    def plainly(state):
        return {"log": [gm.step(look_up, "found"), gm.ask("ok?")]}

    async def awaiting(state):
        return {"log": [await gm.step(look_up, "found"), await gm.ask("ok?")]}

    graph = chain({"work": awaiting if is_async else plainly})
    assert only(gm.batch(graph, [{"id": "x"}], run_id="r", journal=store)).status == "waiting"
    result = only(gm.resume("r", graph=graph, items=[{"id": "x"}], journal=store, answers={"x": "yes"}))
    assert (result.output, calls) == ({"id": "x", "log": ["FOUND", "yes"]}, ["found"])
