"""A run that its limits hold back says so, in its live progress and to those who look at it from elsewhere; and not when nothing waits."""

import asyncio
import json
import math
import threading

import pytest

import graphmill as gm
from graphmill.core.usage import RateLimit, RateLimits
from graphmill.report.progress import progress_line
from support.asked_model import answer
from support.command import HANG_S, Command, run, write_items
from support.driving import virtual
from support.model_server import ModelServer, reply, said

WORKFLOW = (
    "{inputs: {n: {}}, nodes: [{id: ask, type: llm, params: {model: scripted/play, prompt: x, max_tokens: 100}}]}"
)


async def call(_):
    return (await gm.complete("scripted/play", "x", max_tokens=100)).text


def readings(played, graph, count, *, limits="", every_s=1.0, **policy):
    """Run so many jobs; give a reading of each second, of the lane of the model."""
    played.settings("", provider=limits and f", limits: {limits}")
    function, found = played.graph(WORKFLOW) if graph == "workflow" else call, []

    def look(run):
        loop = asyncio.get_running_loop()

        def again():
            found.append(run.progress())
            loop.call_later(every_s, again)

        loop.call_later(every_s / 2, again)

    jobs = [gm.Job(id=str(number), graph=function, input={"n": number}) for number in range(count)]
    virtual(jobs, on_run=look, **{"concurrency": 5, **policy})
    return found


def waits(progress):
    (lane,) = [lane for lane in progress.lanes if lane.key == "scripted/play"]
    return lane.waits_for, None if lane.next_s is None else math.ceil(lane.next_s)


@pytest.mark.parametrize("graph", ["workflow", "function"])
class TestWaits:
    """In a workflow's nodes, and in functions."""

    def test_a_limit_of_requests_that_is_set(self, played, graph):
        found = readings(played, graph, 3, limits="{requests_per_minute: 6}")
        assert [waits(each) for each in found[:3]] == [
            ("its limit of 6 requests a minute", left) for left in (10, 9, 8)
        ]
        assert (
            progress_line(found[1], 80)
            == "1/3 · scripted/play: waits for its limit of 6 requests a minute, next in 9 s"
        )

    def test_a_limit_of_tokens_that_is_set(self, played, graph):
        found = readings(played, graph, 3, limits="{tokens_per_minute: 60}")
        assert waits(found[0])[0] == "its limit of 60 tokens a minute"

    @pytest.mark.parametrize(
        ("back_s", "words"), [(55.0, "its limit of 50 requests a minute"), (20.0, "its limit of requests")]
    )
    def test_a_limit_that_an_answer_tells(self, played, graph, back_s, words):
        played.by = lambda _: answer(
            "fine", limits=RateLimits(requests=RateLimit(allowed=50, remaining=0, reset_s=back_s))
        )
        found = readings(played, graph, 3, concurrency=1)
        assert waits(found[3]) == (words, back_s - 3)

    def test_a_wait_that_the_server_asks_for(self, played, graph):
        refused = []

        def answered(_):
            refused.append(1)
            return gm.Throttled("slow", retry_after_s=30) if len(refused) <= 5 else answer("fine")

        played.by = answered
        found = readings(played, graph, 5, retry=gm.Retry(attempts=3, wait_s=0, cap_s=60))
        assert waits(found[4])[0] == "the server's Retry-After"
        assert "scripted/play: waits for the server's Retry-After, next in 2" in progress_line(found[4], 80)

    def test_a_storm_of_refusals_without_a_wait_is_told_and_while_nothing_gets_through_there_is_no_time_to_go(
        self, played, graph
    ):
        asked = []

        async def answered():
            asked.append(1)
            is_fine = len(asked) <= 10 or (len(asked) > 60 and len(asked) % 2)
            await asyncio.sleep(0.1)
            if not is_fine:
                raise gm.Throttled("slow down")
            return answer("fine")

        played.by = lambda _: answered()
        found = readings(played, graph, 60, retry=gm.Retry(attempts=3, wait_s=1, cap_s=2), every_s=0.5)
        lines = [progress_line(each) for each in found]
        stopped = [line for line in lines if "throttled, the last " in line]
        assert stopped
        assert all(" calls refused: scripted/play: slow down" in line and "eta" not in line for line in stopped)
        assert any("eta" in line and " of the last " in line for line in lines)

    def test_nothing_waits_where_the_calls_themselves_take_long(self, played, graph):
        async def slow():
            await asyncio.sleep(20)
            return answer("fine")

        played.by = lambda _: slow()
        found = readings(played, graph, 10, limits="{requests_per_minute: 600}", concurrency=2)
        assert {waits(each) for each in found} == {("", None)}
        assert "waits" not in "".join(progress_line(each) for each in found)


def test_others_see_it_and_see_when_it_is_over(tmp_path):
    is_heard = threading.Event()

    async def late(writer):
        await asyncio.to_thread(is_heard.wait, HANG_S)
        writer.write(said("fine"))
        return True

    def told(*arguments):
        return run(tmp_path, *arguments)[1]

    with ModelServer(answer=lambda _: late) as server:
        provider = {"protocol": "openai", "address": f"{server.url}/v1", "limits": {"requests_per_minute": 1}}
        (tmp_path / "graphmill.yaml").write_text(json.dumps({"providers": {"own": provider}}))
        source = write_items(tmp_path, [{"id": "first", "text": "a"}, {"id": "second", "text": "b"}])
        arguments = ("batch", "--prompt", "${text}", "--model", "own/m", "--source", source, "--run-id", "r")
        with Command(tmp_path, *arguments) as command:
            command.until(lambda: server.asked)
            command.until(
                lambda: ": own/m: waits for its limit of 1 requests a minute, next at " in told("status", "r")
            )
            assert json.loads(told("status", "r", "--json"))["state"] == "running"
            told("cancel", "r", "--item", "second")  # nothing waits any more, and the first goes on
            command.until(lambda: "waits" not in told("status", "r"))
            assert (json.loads(told("status", "r", "--json"))["state"], len(server.asked)) == ("running", 1)
            is_heard.set()
            command.wait()


def test_what_a_run_waited_for_that_was_killed_is_over(tmp_path):
    with ModelServer(answer=lambda _: said("fine")) as server:
        provider = {"protocol": "openai", "address": f"{server.url}/v1", "limits": {"requests_per_minute": 1}}
        (tmp_path / "graphmill.yaml").write_text(json.dumps({"providers": {"own": provider}}))
        source = write_items(tmp_path, [{"id": str(number), "text": str(number)} for number in range(2)])

        def status():
            return run(tmp_path, "status", "r")[1]

        arguments = ("batch", "--prompt", "${text}", "--model", "own/m", "--source", source, "--run-id", "r")
        with Command(tmp_path, *arguments) as command:
            command.until(lambda: "waits for its limit" in status())
            command.process.kill()
            command.wait()
        assert "interrupted" in status()
        assert "waits" not in status()


def test_others_see_that_all_calls_are_refused_and_no_time_to_go(tmp_path):
    refused = {"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}
    with ModelServer() as server:
        server.answer = lambda _: said("fine") if len(server.asked) <= 12 else reply(refused, 429)
        (tmp_path / "graphmill.yaml").write_text(
            json.dumps({"providers": {"own": {"protocol": "openai", "address": f"{server.url}/v1"}}})
        )
        source = write_items(tmp_path, [{"id": str(number), "text": str(number)} for number in range(30)])
        arguments = (
            "batch",
            "--prompt",
            "${text}",
            "--model",
            "own/m",
            "--source",
            source,
            "--run-id",
            "r",
            "--concurrency",
            "4",
        )
        with Command(tmp_path, *arguments) as command:

            def status():
                return run(tmp_path, "status", "r")[1]

            command.until(lambda: "running: throttled, the last " in status())
            stands = status()
            assert (" calls refused: own/m returned 429: Rate limit reached" in stands, "eta" in stands) == (
                True,
                False,
            ), stands
            command.process.kill()
            command.wait()
