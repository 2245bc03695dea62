"""Limits of models: what is set is kept to, by all calls of a run, and no more slowly than it must be."""

import asyncio
import threading
import time
from itertools import pairwise

import pytest

import graphmill as gm
from graphmill.core.usage import RateLimit, RateLimits
from support.asked_model import answer
from support.driving import virtual
from support.flows import now

WORKFLOW = (
    "{inputs: {n: {}}, nodes: [{id: ask, type: llm, params: {model: scripted/play, prompt: x, max_tokens: 100}}]}"
)


SCHEMA = {"type": "object", "required": ["a"], "description": "d" * 440}
TOOL = {"name": "look", "description": "d" * 440, "parameters": {"type": "object"}}


async def call(_):
    return (await gm.complete("scripted/play", "x", max_tokens=100)).text


class Server:
    """Takes a second for each answer; notes when each call came and how many were there at once."""

    def __init__(self, played):
        self.came, self.at_once, self._now = [], 0, 0
        played.by = self

    def __call__(self, request):
        return self._answered()

    async def _answered(self):
        self.came.append(now())
        self._now += 1
        self.at_once = max(self.at_once, self._now)
        await asyncio.sleep(1)
        self._now -= 1
        return answer("fine", tokens=(10, 10))


def run(played, graph, count, limits, **policy):
    played.settings("", provider=f", limits: {limits}")
    server = Server(played)
    function = played.graph(WORKFLOW) if graph == "workflow" else call
    jobs = [gm.Job(id=str(number), graph=function, input={"n": number}) for number in range(count)]
    results, run = virtual(jobs, concurrency=50, **policy)
    assert {result.status for result in results} == {"succeeded"}
    return server, run


@pytest.mark.parametrize("graph", ["workflow", "function"])
class TestLimits:
    """In a workflow's nodes, and in functions."""

    def test_requests_are_spread_over_the_minute(self, played, graph):
        server, run_ = run(played, graph, 120, "{requests_per_minute: 60}")
        assert all(later - start >= 60 - 1e-6 for start, later in zip(server.came, server.came[60:], strict=False))
        assert 119 <= run_.statistics().elapsed_s <= 122

    def test_tokens_are_reserved_as_estimated_and_settled_as_used(self, played, graph):
        server, run_ = run(played, graph, 60, "{tokens_per_minute: 1200}")
        assert (
            55 <= run_.statistics().elapsed_s <= 75
        )  # 60 calls of 20 tokens; unsettled reservations of 100 would take five minutes
        assert len(server.came) == 60

    def test_a_schema_and_tools_are_reserved_too_whoever_asks_and_asks_again(self, played, graph):
        played.settings("", provider=", limits: {tokens_per_minute: 350}")
        came = []

        async def answered(_):
            came.append(now())
            text = "{}" if len(came) <= 2 else '{"a": 1}'
            await asyncio.sleep(100)  # so that what is reserved counts, not what is used
            return answer(text)

        async def ask(_):
            return await gm.complete("scripted/play", "x", schema=SCHEMA, tools=[TOOL], max_tokens=100)

        played.by = answered
        node = {"model": "scripted/play", "prompt": "x", "output_schema": SCHEMA, "tools": [TOOL], "max_tokens": 100}
        function = (
            ask if graph == "function" else played.graph({"nodes": [{"id": "ask", "type": "llm", "params": node}]})
        )
        results, _ = virtual([gm.Job(id=str(number), graph=function, input={}) for number in range(2)], concurrency=50)
        assert {result.status for result in results} == {"succeeded"}
        assert [later - one for one, later in pairwise(came)] == [pytest.approx(60, abs=8)] * 3

    def test_no_more_calls_at_once_than_are_set(self, played, graph):
        server, run_ = run(played, graph, 40, "{concurrency: 4}")
        assert server.at_once == 4
        assert 10 <= run_.statistics().elapsed_s <= 11


@pytest.mark.parametrize("graph", ["workflow", "function"])
def test_calls_that_waited_for_the_budget_wait_for_their_turn_again(played, graph):
    settings = "prices: {scripted/play: {input: 0, output: 1000}}"  # at most ten cents each, and really one
    played.settings(settings, provider=", limits: {requests_per_minute: 3}")
    came = []

    async def answered(request):
        came.append(now())
        await asyncio.sleep(75 if len(came) == 1 else 1)
        return answer("fine", tokens=(10, 10))

    played.by = answered
    function = played.graph(WORKFLOW) if graph == "workflow" else call
    jobs = [gm.Job(id=str(number), graph=function, input={"n": number}) for number in range(6)]
    results, _ = virtual(jobs, concurrency=50, budget_usd=0.19)  # one call at a time
    assert {result.status for result in results} == {"succeeded"}
    assert [later - earlier < 60 for earlier, later in zip(came, came[3:], strict=False)] == [False] * 3


def test_the_wait_of_a_node_is_no_part_of_its_attempt_s_time(played):
    run(played, "workflow", 60, "{requests_per_minute: 60}", timeout_s=2.0)


def test_adaptive_concurrency_stays_within_what_is_set(played):
    server, _ = run(played, "workflow", 60, "{concurrency: 3}", adaptive=True)
    assert server.at_once <= 3


def test_a_limit_at_the_wrong_place_is_told(played):
    played.settings("", provider=", requests_per_minute: 60")
    with pytest.raises(gm.UsageError, match="unknown key 'requests_per_minute'"):
        gm.complete("scripted/play", "x")


def test_the_wait_of_a_call_is_no_part_of_its_function_s_time(played):
    run(played, "function", 60, "{requests_per_minute: 60}", timeout_s=2.0)


def test_nodes_and_functions_keep_to_one_limit_together(played):
    played.settings("", provider=", limits: {requests_per_minute: 60}")
    server, graph = Server(played), played.graph(WORKFLOW)
    jobs = [gm.Job(id=str(number), graph=call if number % 2 else graph, input={"n": number}) for number in range(100)]
    results, _ = virtual(jobs, concurrency=50)
    assert {result.status for result in results} == {"succeeded"}
    assert all(later - start >= 60 for start, later in zip(server.came, server.came[60:], strict=False))


@pytest.mark.parametrize("graph", ["workflow", "function"])
@pytest.mark.parametrize("is_adaptive", [False, True])
def test_jobs_that_go_by_the_name_of_their_model_do_not_stand_in_its_way(played, graph, is_adaptive):
    played.settings("", provider=", limits: {requests_per_minute: 60, concurrency: 2}")
    server, function = Server(played), played.graph(WORKFLOW) if graph == "workflow" else call
    jobs = [gm.Job(id=str(number), graph=function, input={"n": number}, key="scripted/play") for number in range(30)]
    results, run_ = virtual(jobs, concurrency=20, adaptive=is_adaptive)
    assert {result.status for result in results} == {"succeeded"}
    assert server.at_once <= 2
    assert run_.statistics().elapsed_s < 40


@pytest.mark.parametrize("graph", ["workflow", "function"])
class TestWhatAnswersSay:
    """Of limits, and how it is kept to."""

    def test_nothing_is_sent_that_is_known_to_be_refused(self, played, graph):
        played.settings("")
        came = []

        def answered(_):
            came.append(now())
            left = 3 - len(came) % 4
            return answer("fine", limits=RateLimits(requests=RateLimit(remaining=left, reset_s=20.0)))

        played.by = answered
        function = played.graph(WORKFLOW) if graph == "workflow" else call
        jobs = [gm.Job(id=str(number), graph=function, input={"n": number}) for number in range(12)]
        results, _ = virtual(jobs, concurrency=1)
        assert {result.status for result in results} == {"succeeded"}
        assert [round(each) for each in came] == [0] * 3 + [20] * 4 + [40] * 4 + [60]

    def test_a_wait_that_several_were_told_is_everybody_s(self, played, graph):
        played.settings("")
        came = []

        def answered(_):
            came.append(now())
            if now() < 30:
                raise gm.Throttled("slow down", retry_after_s=30.0)
            return answer("fine")

        played.by = answered
        function = played.graph(WORKFLOW) if graph == "workflow" else call
        jobs = [gm.Job(id=str(number), graph=function, input={"n": number}) for number in range(60)]
        results, _ = virtual(jobs, concurrency=3, retry=gm.Retry(jitter=False))
        assert {result.status for result in results} == {"succeeded"}
        assert sum(at < 30 for at in came) <= 6

    def test_an_unavailable_model_parks_the_run_and_fails_no_item(self, played, graph):
        played.settings("")
        played.answers = ["fine"] * 20 + [gm.Unavailable("no credit")]
        function = played.graph(WORKFLOW) if graph == "workflow" else call
        jobs = [gm.Job(id=str(number), graph=function, input={"n": number}) for number in range(60)]
        results, run_ = virtual(jobs, concurrency=5)
        assert {str(result.status) for result in results} == {"succeeded", "pending"}
        assert sum(result.status == "succeeded" for result in results) == 20
        assert run_.stopped == "outage"
        assert "scripted/play: no credit" in run_.stopped_because

    def test_a_model_that_throttles_for_good_parks_the_run_and_fails_no_item(self, played, graph):
        played.settings("")
        played.answers = [gm.Throttled("slow down", retry_after_s=2.0)]
        function = played.graph(WORKFLOW) if graph == "workflow" else call
        jobs = [gm.Job(id=str(number), graph=function, input={"n": number}) for number in range(10)]
        results, run_ = virtual(jobs, concurrency=5, retry=gm.Retry(throttle_budget_s=30.0))
        assert {str(result.status) for result in results} == {"pending"}
        assert run_.stopped == "outage"

    def test_an_outage_costs_no_attempt_and_no_time_and_only_probes_are_sent_into_it(self, played, graph):
        played.settings("")
        came = []

        def answered(_):
            came.append(now())
            if 10 < now() < 40:
                raise gm.Unavailable("down")
            return answer("fine")

        async def slowly(request):
            await asyncio.sleep(1)
            return answered(request)

        played.by = slowly
        function = played.graph(WORKFLOW) if graph == "workflow" else call
        jobs = [gm.Job(id=str(number), graph=function, input={"n": number}) for number in range(100)]
        results, _ = virtual(jobs, concurrency=5, timeout_s=3.0, retry=gm.Retry(attempts=1))
        assert {result.status for result in results} == {"succeeded"}
        assert sum(10 < at < 40 for at in came) <= 5 + 6

    def test_throttles_teach_the_lane_of_the_model(self, played, graph):
        played.settings("")
        at_once = [0]
        changed = []

        async def busy():
            at_once[0] += 1
            try:
                if at_once[0] > 12:
                    raise gm.Throttled("too many", retry_after_s=0.2)
                await asyncio.sleep(0.5)
                return answer("fine")
            finally:
                at_once[0] -= 1

        played.by = lambda _: busy()
        function = played.graph(WORKFLOW) if graph == "workflow" else call
        jobs = [gm.Job(id=str(number), graph=function, input={"n": number}, key="jobs") for number in range(600)]
        observers = [lambda event: changed.append(event) if isinstance(event, gm.ConcurrencyChanged) else None]
        results, _ = virtual(jobs, concurrency=64, adaptive=True, observers=observers)
        assert {result.status for result in results} == {"succeeded"}
        of_model = [event for event in changed if event.key == "scripted/play"]
        assert any(event.after < event.before for event in of_model)
        assert not any("throttled" in event.reason for event in changed if event.key == "jobs")


@pytest.mark.parametrize("graph", ["workflow", "function"])
def test_an_answer_that_is_asked_for_again_counts_as_another_request_and_waits_outside_of_its_attempt_s_time(
    played, graph
):
    played.settings("", provider=", limits: {requests_per_minute: 60, tokens_per_minute: 100000, concurrency: 8}")
    came = []

    def answered(request):
        came.append(now())
        return answer("7" if sum(message.role == "assistant" for message in request.messages) == 2 else "no")

    played.by = answered

    async def ask(_):
        return await gm.complete("scripted/play", "x", schema={"type": "integer"})

    node = "{id: ask, type: llm, params: {model: scripted/play, prompt: x, output_schema: {type: integer}}}"
    function = played.graph(f"{{inputs: {{n: {{}}}}, nodes: [{node}]}}") if graph == "workflow" else ask
    jobs = [gm.Job(id=str(number), graph=function, input={"n": number}) for number in range(30)]
    results, _ = virtual(jobs, concurrency=20, timeout_s=2.0)
    assert {result.status for result in results} == {"succeeded"}
    assert len(came) == 90
    assert all(later - start >= 60 for start, later in zip(came, came[60:], strict=False))


def test_runs_of_one_process_share_a_limit(played):
    played.settings("", provider=", limits: {requests_per_minute: 1200}")
    came = []

    def answered(_):
        came.append(time.monotonic())
        return answer("fine")

    played.by = answered
    threads = [threading.Thread(target=gm.batch, args=(call, range(20))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    came.sort()
    assert len(came) == 40
    assert max(sum(start <= at < start + 1 for at in came) for start in came) <= 24


def test_calls_outside_of_a_batch_keep_to_the_limit_of_their_process(played):
    played.settings("", provider=", limits: {requests_per_minute: 600}")
    began = time.monotonic()
    for _ in range(6):
        assert gm.complete("scripted/play", "x").text == "fine"
    assert time.monotonic() - began >= 0.35
