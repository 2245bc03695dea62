"""Answers that are known: what is asked once, what again, and that no cache ever fails a run."""

import asyncio
import json
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

import graphmill as gm
from graphmill.graph.models import cache
from graphmill.journal import cache as cache_module
from graphmill.journal.sqlite.database import connect
from support.command import HANG_S, answered
from support.model_server import ModelServer, reply, said

NOW = gm.Policy(retry=gm.Retry(attempts=3, wait_s=0, cap_s=0))
PLAIN = {"requests": 0, "input_tokens": 0, "output_tokens": 0}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    monkeypatch.setattr(cache_module, "_warned", set())
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "GRAPHMILL_JOURNAL"):
        monkeypatch.delenv(name, raising=False)
    with ModelServer() as found:
        found.answer = lambda asked: said(f"heard {asked.data['messages'][-1]['content']}")
        settings(found)
        yield found


def settings(server, more="", version="v1"):
    provider = f"{{protocol: openai, address: '{server.url}/{version}'{more}}}"
    Path("graphmill.yaml").write_text(f"providers: {{local: {provider}}}\nmodels: {{small: local/m}}\n")


def workflow(**params):
    written = {"model": "small", "prompt": "${text}", "temperature": 0, **params}
    data = {"inputs": {"text": {}}, "nodes": [{"id": "ask", "type": "llm", "params": written}]}
    Path("w.yaml").write_text(json.dumps(data))
    return "w.yaml"


def run(texts=("hi",), run_id=None, journal="runs.db", policy=NOW, **params):
    items = [{"id": str(number), "text": text} for number, text in enumerate(texts)]
    return list(gm.batch(workflow(**params), items, journal=journal, run_id=run_id, policy=policy).results())


class TestUsedAgain:
    """Which calls are asked once."""

    def test_at_temperature_0_a_second_run_asks_nobody(self, server):
        (first,), (second,) = run(), run()
        assert len(server.asked) == 1
        assert first.output["response"] == second.output["response"] == "heard hi"
        assert (first.usage["requests"], first.usage["input_tokens"]) == (1, 5)
        assert {name: second.usage[name] for name in PLAIN} == PLAIN
        assert second.cost_usd == 0

    def test_an_answer_that_was_known_says_so_and_what_it_once_took(self, server):
        run()
        (result,) = run()
        metadata = result.output["metadata"]
        assert (metadata["calls"], metadata["cached"]) == (0, True)
        assert (metadata["original_usage"]["requests"], metadata["original_usage"]["input_tokens"]) == (1, 5)
        assert result.output["usage"]["input_tokens"] == 0
        assert (result.output["model"], result.output["finish_reason"]) == ("m-1", "stop")

    @pytest.mark.parametrize(
        "params", [{"temperature": None}, {"temperature": 0.7}, {"cache": False}, {"extra": {"temperature": 1}}]
    )
    def test_it_is_asked_again_where_another_answer_may_be_wanted(self, server, params):
        run(**params)
        run(**params)
        assert len(server.asked) == 2

    @pytest.mark.parametrize("temperature", [None, 0.7])
    def test_at_any_temperature_where_that_is_asked_for(self, server, temperature):
        run(temperature=temperature, cache=True)
        (result,) = run(temperature=temperature, cache=True)
        assert (len(server.asked), result.output["metadata"]["cached"]) == (1, True)

    @pytest.mark.parametrize(
        "other",
        [
            {"prompt": "${text}!"},
            {"system": "Be brief."},
            {"messages": [{"role": "user", "content": "before"}]},
            {"model": "local/n"},
            {"top_p": 0.5},
            {"max_tokens": 9},
            {"stop": "x"},
            {"seed": 1},
            {"reasoning_effort": "low"},
            {"tools": [{"name": "look"}]},
            {"logprobs": 2},
            {"extra": {"k": 1}},
            {"output_schema": {"type": "string"}},
        ],
        ids=lambda other: next(iter(other)),
    )
    def test_whatever_else_is_asked_is_another_question(self, server, other):
        server.answer = lambda asked: said('"fine"')
        run()
        run(**other)
        assert len(server.asked) == 2

    def test_another_address_or_header_is_another_question_and_another_key_is_not(self, server, monkeypatch):
        monkeypatch.setenv("MY_KEY", "sk-one")
        settings(server, ", key: {env: MY_KEY}")
        run()
        monkeypatch.setenv("MY_KEY", "sk-two")
        run()
        assert len(server.asked) == 1
        settings(server, ", key: {env: MY_KEY}, headers: {X-Beta: '1'}")
        run()
        settings(server, ", key: {env: MY_KEY}, headers: {X-Secret: {env: MY_KEY}}")
        run()
        assert len(server.asked) == 3
        settings(server, version="v2")
        run()
        assert len(server.asked) == 4

    def test_no_secret_is_in_it_and_an_address_that_is_one_counts_by_host_and_path(self, server, tmp_path, monkeypatch):
        monkeypatch.setenv("MY_KEY", "sk-planted-0123456789")
        monkeypatch.setenv("MY_PLACE", f"{server.url}/v1?token=planted-in-the-address")
        written = "{protocol: openai, address: {env: MY_PLACE}, key: {env: MY_KEY}, headers: {X-One: {env: MY_KEY}}}"
        Path("graphmill.yaml").write_text(f"providers: {{local: {written}}}\nmodels: {{small: local/m}}\n")
        run()
        monkeypatch.setenv("MY_PLACE", f"{server.url}/v1?token=another-one")
        assert run()[0].output["metadata"]["cached"] is True
        kept = b"".join(path.read_bytes() for path in tmp_path.glob("runs.db-cache*"))
        assert (len(server.asked), b"planted" in kept, b"sk-" in kept) == (1, False, False)
        monkeypatch.setenv("MY_PLACE", f"{server.url}/v2")
        run()
        assert len(server.asked) == 2

    def test_a_change_of_cache_is_no_change_of_the_node(self, server):
        run(run_id="r")
        (result,) = run(run_id="r", cache=True)
        assert (result.status, len(server.asked)) == ("succeeded", 1)

    def test_a_trace_says_so(self, server):
        run(run_id="first")
        run(run_id="second")
        shown = {name: _shown("show", name, "0", "--journal", "runs.db") for name in ("first", "second")}
        assert ("7 tokens" in shown["first"], "· cached" in shown["first"]) == (True, False)
        assert shown["second"].count("· cached") == 1

    def test_in_python_as_in_a_workflow(self, server):
        async def ask(_):
            return (await gm.complete("small", "hi", temperature=0)).metadata.get("cached", False)

        first, second = (result.output for _ in range(2) for result in gm.batch(ask, [1], journal="runs.db").results())
        assert (first, second, len(server.asked)) == (False, True, 1)

    def test_a_node_and_a_function_that_ask_the_same_have_the_same_answer(self, server):
        async def ask(_):
            return (await gm.complete("small", "hi", temperature=0)).metadata.get("cached", False)

        run(["hi"])
        assert [result.output for result in gm.batch(ask, [1], journal="runs.db").results()] == [True]

    def test_of_a_pydantic_model_the_instance_is_made_again(self, server):
        pydantic = pytest.importorskip("pydantic")

        class Found(pydantic.BaseModel):
            a: int

        server.answer = lambda asked: said('{"a": 3}')
        assert [gm.complete("small", "hi", schema=Found, cache=True) for _ in range(2)] == [Found(a=3)] * 2
        assert len(server.asked) == 1

    def test_cache_is_true_or_false(self, server):
        with pytest.raises(gm.UsageError, match="cache must be True, False or None, got 'yes'"):
            gm.complete("small", "hi", cache="yes")

    def test_outside_of_a_recorded_run_only_what_is_asked_for_is_kept(self, server, tmp_path):
        gm.complete("small", "hi", temperature=0)
        gm.complete("small", "hi", temperature=0)
        assert (len(server.asked), (tmp_path / ".graphmill").exists()) == (2, False)
        gm.complete("small", "hi", cache=True)
        assert gm.complete("small", "hi", cache=True).metadata["cached"] is True
        assert len(server.asked) == 3
        assert (tmp_path / ".graphmill" / "runs.db-cache").stat().st_mode & 0o777 == 0o600

    def test_odd_texts_come_back_as_they_were(self, server):
        odd = "é \u2028 \x00 \U0001f600 " + "long " * 1000
        server.answer = lambda asked: said(odd)
        assert [run()[0].output["response"] for _ in range(2)] == [odd, odd]
        assert len(server.asked) == 1

    def test_half_of_a_surrogate_pair_is_kept_too(self, server):
        server.answer = lambda asked: said("x\ud83d")
        first, second = run()[0].output["response"], run()[0].output["response"]
        assert (first, len(server.asked)) == (second, 1)

    def test_what_the_script_of_a_rehearsal_says_is_never_used_again(self, server):
        data = {
            "nodes": [
                {
                    "id": "ask",
                    "type": "llm",
                    "params": {"model": "scripted/x", "prompt": "p", "temperature": 0, "cache": True},
                }
            ]
        }
        Path("s.yaml").write_text(json.dumps(data))
        outputs = [result.output for _ in range(2) for result in gm.batch("s.yaml", [{}], journal="runs.db").results()]
        assert [output["metadata"] for output in outputs] == [{"calls": 1}, {"calls": 1}]


class TestLimits:
    """What is known is no call, and waits for none."""

    @pytest.mark.parametrize("limits", ["tokens_per_minute: 1200", "requests_per_minute: 60"])
    def test_it_takes_nothing_of_what_a_minute_allows(self, server, limits):
        run(["known"])
        settings(server, f", limits: {{{limits}}}")
        items = [{"text": "known", "n": number} for number in range(40)]
        report = gm.batch(workflow(max_tokens=None), items, journal="runs.db", policy=gm.Policy(batch_timeout_s=15))
        assert (report.statistics.succeeded, len(server.asked)) == (40, 1)  # as calls they would take more than that

    def test_nor_outside_of_a_batch(self, server):
        gm.complete("small", "known", cache=True)
        settings(server, ", limits: {requests_per_minute: 1}")
        began = time.monotonic()
        answers = {gm.complete("small", "known", cache=True).text for _ in range(10)}
        assert (answers, len(server.asked)) == ({"heard known"}, 1)
        assert time.monotonic() - began < HANG_S  # as calls they would take nine minutes

    @pytest.mark.parametrize("limits", ["requests_per_minute: 1", "concurrency: 1"])
    def test_a_function_is_given_it_while_its_model_is_busy(self, server, limits):
        came, was_given = threading.Event(), threading.Event()

        async def slow(writer):
            came.set()
            await asyncio.to_thread(was_given.wait, 15)
            writer.write(said("slow"))
            return True

        async def ask(text):
            if text == "known":
                await asyncio.to_thread(came.wait, 15)
            made = await gm.complete("small", text, temperature=0)
            if text == "known":
                was_given.set()
            return made.metadata.get("cached", False)

        run(["known"])
        settings(server, f", limits: {{{limits}}}")
        server.answer = lambda _: slow
        given, policy = [], gm.Policy(concurrency=2, batch_timeout_s=25)
        report = gm.batch(
            ask, ["new", "known"], journal="runs.db", policy=policy, on_result=lambda _, result: given.append(result)
        )
        assert [(result.input, result.output) for result in given] == [("known", True), ("new", False)]
        assert report.statistics.usage["local/m"].reused == 1

    def test_a_function_is_given_it_while_its_model_is_not_available(self, server):
        async def ask(text):
            return (await gm.complete("small", text, temperature=0)).metadata.get("cached", False)

        run(["known"])
        server.answer = lambda _: reply({"error": {"message": "no such key"}}, 401)
        policy = gm.Policy(concurrency=1, park_after_s=0.5)
        report = gm.batch(ask, ["new", "known"], journal="runs.db", policy=policy)
        assert [(result.input, result.output) for result in report.results()] == [("known", True)]

    def test_outside_of_a_batch_it_is_given_at_once(self, server):
        settings(server, ", limits: {requests_per_minute: 1}")
        began = time.monotonic()
        asked = [gm.complete("small", "known", cache=True) for _ in range(3)]
        assert [made.metadata.get("cached", False) for made in asked] == [False, True, True]
        assert time.monotonic() - began < 30  # its turn would come after a minute


class TestSamples:
    """The samples of an item are questions of their own."""

    def test_each_is_asked_and_each_is_known_again_by_its_number(self, server):
        numbers = iter(range(100))
        server.answer = lambda asked: said(f"answer {next(numbers)}")
        reports = [gm.batch(workflow(), [{"text": "x"}], journal="runs.db", samples=3) for _ in range(2)]
        first, second = (
            {result.job_id: result.output["response"] for result in report.results()} for report in reports
        )
        assert (first, len(set(first.values())), len(server.asked)) == (second, 3, 3)

    def test_the_first_is_what_is_known_without_samples(self, server):
        run(["x"])
        gm.batch(workflow(), [{"id": "a", "text": "x"}], journal="runs.db", samples=2)
        assert len(server.asked) == 2


class TestShapes:
    """Answers of a shape."""

    def test_the_last_of_several_calls_is_kept_and_read_as_it_was(self, server):
        answers = iter(["nonsense", '```json\n{"a": 1}\n```'])
        server.answer = lambda asked: said(next(answers))
        (first,), (second,) = run(output_schema=SCHEMA), run(output_schema=SCHEMA)
        assert first.output["response"] == second.output["response"] == {"a": 1}
        assert second.output["metadata"] | {"original_usage": None} == {
            "calls": 0,
            "repaired": "fence",
            "cached": True,
            "original_usage": None,
        }
        assert second.output["metadata"]["original_usage"]["requests"] == 2

    def test_what_never_had_its_shape_is_not_kept(self, server):
        server.answer = lambda asked: said("nonsense")
        assert [result.status for result in (*run(output_schema=SCHEMA), *run(output_schema=SCHEMA))] == [
            "failed",
            "failed",
        ]
        assert len(server.asked) == 6

    def test_a_call_of_a_tool_is_an_answer(self, server):
        call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"x": 1}'}}
        server.answer = lambda asked: said(None, "tool_calls", tool_calls=[call])
        first, second = (run(tools=[{"name": "look"}], output_schema=SCHEMA)[0].output for _ in range(2))
        assert first["tool_calls"] == second["tool_calls"] == [{"id": "1", "name": "look", "arguments": {"x": 1}}]
        assert len(server.asked) == 1


class TestNotKept:
    """What is no answer."""

    @pytest.mark.parametrize(
        "given",
        [
            said("half", "length"),
            said("", "content_filter"),
            said(None, refusal="no"),
            said(" "),
            reply({"error": {}}, 500),
        ],
    )
    def test_a_failure_is_asked_again(self, server, given):
        server.answer = lambda asked: given
        assert run()[0].is_failure
        before = len(server.asked)
        server.answer = lambda asked: said("fine")
        assert run()[0].output["response"] == "fine"
        assert len(server.asked) == before + 1


class TestFaults:
    """A cache that can not be used is told once, and done without."""

    @pytest.mark.parametrize("content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000])
    def test_a_damaged_file(self, server, tmp_path, caplog, content):
        (tmp_path / "runs.db-cache").write_bytes(content)
        assert [run()[0].status for _ in range(2)] == ["succeeded"] * 2
        assert (len(server.asked), (tmp_path / "runs.db-cache").read_bytes()) == (2, content)
        assert len([record for record in caplog.records if "delete the file" in record.message]) == 1

    def test_a_database_of_others_is_left_alone(self, server, tmp_path, caplog):
        with sqlite3.connect(tmp_path / "runs.db-cache") as connection:
            connection.execute("CREATE TABLE mine (x)")
        connection.close()
        assert run()[0].is_success
        assert "is not a cache of Graphmill" in caplog.text

    def test_one_of_a_later_version(self, server, tmp_path, caplog):
        run()
        with sqlite3.connect(tmp_path / "runs.db-cache") as connection:
            connection.execute("PRAGMA user_version = 99")
        connection.close()
        assert run()[0].is_success
        assert (len(server.asked), "later version" in caplog.text) == (2, True)

    def test_a_folder_in_its_place(self, server, tmp_path, caplog):
        (tmp_path / "runs.db-cache").mkdir()
        assert run()[0].is_success
        assert "answers are not cached" in caplog.text

    @pytest.mark.parametrize(
        ("hindrance", "said"),
        [("PRAGMA max_page_count = 1", "full"), ("PRAGMA query_only = ON", "readonly")],
        ids=["full", "readonly"],
    )
    def test_a_disk_that_is_full_is_told_once_and_what_is_kept_is_still_used(
        self, server, monkeypatch, caplog, hindrance, said
    ):
        run(["known"])

        def hindered(path, *, busy_s):
            connection = connect(path, busy_s=busy_s)
            connection.execute(hindrance)
            return connection

        monkeypatch.setattr(cache_module, "connect", hindered)
        new = [f"{number} " + "".join(map(str, range(3000))) for number in range(5)]
        results = run([*new, "known"]) + run([*new, "known"])
        assert {result.status for result in results} == {"succeeded"}
        assert [result.output["metadata"].get("cached", False) for result in results] == [*[False] * 5, True] * 2
        assert len([record for record in caplog.records if said in record.message]) == 1

    def test_a_cache_that_others_write_to_without_a_pause_holds_nobody_up(self, server, tmp_path, monkeypatch, caplog):
        run(["known"])
        monkeypatch.setattr(cache_module, "_BUSY_S", 0.01)
        with closing(sqlite3.connect(tmp_path / "runs.db-cache", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            results = run(["known", "new"])
        assert [result.output["metadata"].get("cached", False) for result in results] == [True, False]
        assert "answers are not cached" not in caplog.text

    def test_a_file_that_is_deleted_under_a_run_fails_nothing(self, server, tmp_path):
        def delete(job, result):
            for path in tmp_path.glob("runs.db-cache*"):
                path.unlink(missing_ok=True)

        items = [{"text": f"text {number}"} for number in range(20)]
        report = gm.batch(workflow(), items, journal="runs.db", policy=NOW, concurrency=1, on_result=delete)
        assert report.statistics.succeeded == 20

    def test_a_changed_byte_is_asked_again_and_kept_anew(self, server, tmp_path):
        run()
        with sqlite3.connect(tmp_path / "runs.db-cache") as connection:
            connection.execute("UPDATE answers SET body = replace(body, 'heard', 'feard')")
        connection.close()
        assert [run()[0].output["response"] for _ in range(2)] == ["heard hi"] * 2
        assert len(server.asked) == 2

    def test_a_body_that_is_none_of_ours_is_asked_again(self, server, tmp_path, monkeypatch):
        monkeypatch.setattr("graphmill.graph.models.completion._encode", lambda made: b"[1]")
        run()
        assert run()[0].output["response"] == "heard hi"
        assert len(server.asked) == 2


MANY = """
import graphmill as gm

async def ask(number):
    return (await gm.complete("small", f"{number}", temperature=0)).text

report = gm.batch(ask, range(200), journal="runs.db", concurrency=16)
print(report.statistics.succeeded)
"""


class TestProcesses:
    """Several processes, and such as are killed."""

    def test_many_may_use_one_cache_at_once(self, server, tmp_path):
        Path("many.py").write_text(MANY)
        started = [
            subprocess.Popen(
                [sys.executable, "many.py", str(number)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for number in range(3)
        ]
        ended = [process.communicate(timeout=60) for process in started]
        assert [(out.strip(), err) for out, err in ended] == [("200", "")] * 3
        assert 200 <= len(server.asked) <= 600
        before = len(server.asked)
        assert (
            subprocess.run([sys.executable, "many.py", "4"], capture_output=True, text=True, check=True).stdout
            == "200\n"
        )
        assert len(server.asked) == before

    def test_after_a_kill_what_was_kept_is_used_and_the_rest_asked(self, server):
        Path("many.py").write_text(MANY)
        with subprocess.Popen([sys.executable, "many.py"], stdout=subprocess.DEVNULL) as process:
            _until(lambda: len(server.asked) >= 60)
            process.kill()
        before = len(server.asked)
        assert subprocess.run([sys.executable, "many.py"], capture_output=True, text=True, check=True).stdout == "200\n"
        assert len(server.asked) - before < 200  # what waited to be put away is lost, and asked for again


class TestAtOnce:
    """The same call several times at one moment."""

    def test_it_is_one_request_and_each_item_has_the_answer(self, server):
        results = run(["same"] * 20, temperature=0)
        assert [result.output["response"] for result in results] == ["heard same"] * 20
        assert len(server.asked) == 1
        assert sum(result.usage["requests"] for result in results) == 1
        assert sum(result.output["metadata"].get("cached", False) for result in results) == 19

    def test_also_without_a_journal(self, server):
        items = [{"id": str(number), "text": "same"} for number in range(5)]
        report = gm.batch(workflow(), items, policy=NOW)
        assert (report.statistics.succeeded, len(server.asked)) == (5, 1)

    def test_not_where_each_is_to_have_its_own_answer(self, server):
        run(["same"] * 5, temperature=1)
        assert len(server.asked) == 5

    def test_a_failure_is_that_of_one_attempt_and_the_next_one_asks(self, server):
        answers = iter([reply({"error": {"message": "bad"}}, 400)] * 2)
        server.answer = lambda asked: next(answers, None) or said("fine")
        results = run(["same"] * 6)
        assert sorted(result.status for result in results) == ["failed"] * 2 + ["succeeded"] * 4
        assert len(server.asked) == 3

    def test_what_one_of_them_changes_in_its_answer_is_its_own(self, server):
        server.answer = lambda asked: said('{"a": 1}')

        async def ask(name):
            answer = await gm.complete("small", "hi", schema=SCHEMA, temperature=0)
            answer[name] = True
            return answer

        async def drive():
            async with asyncio.TaskGroup() as group:
                calls = [group.create_task(ask(name)) for name in ("first", "second")]
            return [call.result() for call in calls]

        assert asyncio.run(drive()) == [{"a": 1, "first": True}, {"a": 1, "second": True}]
        assert len(server.asked) == 1

    def test_who_asks_may_be_cancelled_and_the_others_have_their_answer(self, server):
        first, go = threading.Event(), threading.Event()

        def answer(asked):
            async def play(writer):
                if not first.is_set():
                    first.set()
                    return await asyncio.Event().wait()
                await asyncio.to_thread(go.wait, 30)
                writer.write(said("fine"))
                await writer.drain()
                return True

            return play

        server.answer = answer

        async def drive():
            async with asyncio.TaskGroup() as group:
                calls = [group.create_task(_ask()) for _ in range(4)]
                await asyncio.to_thread(first.wait, 30)
                calls[0].cancel()
                go.set()
            return calls[0].cancelled(), [call.result() for call in calls[1:]]

        async def _ask():
            return (await gm.complete("small", "hi", temperature=0)).text

        assert asyncio.run(drive()) == (True, ["fine"] * 3)
        assert len(server.asked) == 2

    def test_also_of_calls_on_loops_of_their_own(self, server):
        arrived, go = threading.Event(), threading.Event()

        def answer(asked):
            async def play(writer):
                arrived.set()
                await asyncio.to_thread(go.wait, 30)
                writer.write(said("fine"))
                await writer.drain()
                return True

            return play

        server.answer, found = answer, []
        threads = [
            threading.Thread(target=lambda: found.append(gm.complete("small", "hi", temperature=0).text))
            for _ in range(3)
        ]
        threads[0].start()
        assert arrived.wait(HANG_S)
        for thread in threads[1:]:
            thread.start()
        _until(lambda: sum(map(len, _flights().values())) == 2)
        go.set()
        for thread in threads:
            thread.join(HANG_S)
        assert (found, len(server.asked)) == (["fine"] * 3, 1)


def _shown(*words):
    return answered(Path.cwd(), *words)


def _flights():
    return cache._single_flight._waiting


def _until(holds):
    for _ in range(30_000):
        if holds():
            return
        threading.Event().wait(0.001)
    raise AssertionError("it never held")
