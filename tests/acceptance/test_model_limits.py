"""Limits of models: what is set is kept to, by all calls of a run, and no more slowly than it must be."""

import asyncio

import pytest

import graphmill as gm
from support.asked_model import answer
from support.driving import virtual
from support.flows import now

WORKFLOW = "{inputs: {n: {}}, nodes: [{id: ask, type: llm, params: {model: scripted/play, prompt: x, max_tokens: 100}}]}"


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
        assert 55 <= run_.statistics().elapsed_s <= 75  # 60 calls of 20 tokens; unsettled reservations of 100 would take five minutes
        assert len(server.came) == 60

    def test_no_more_calls_at_once_than_are_set(self, played, graph):
        server, run_ = run(played, graph, 40, "{concurrency: 4}")
        assert server.at_once == 4
        assert 10 <= run_.statistics().elapsed_s <= 11


def test_the_wait_of_a_node_is_no_part_of_its_attempt_s_time(played):
    run(played, "workflow", 60, "{requests_per_minute: 60}", timeout_s=2.0)


def test_adaptive_concurrency_stays_within_what_is_set(played):
    server, _ = run(played, "workflow", 60, "{concurrency: 3}", adaptive=True)
    assert server.at_once <= 3


def test_a_limit_at_the_wrong_place_is_told(played):
    played.settings("", provider=", requests_per_minute: 60")
    with pytest.raises(gm.UsageError, match="unknown key 'requests_per_minute'"):
        gm.complete("scripted/play", "x")
