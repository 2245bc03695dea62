"""Functions that call models with other people's clients: their errors mean what our own providers' errors mean."""

import asyncio
import urllib.request
from collections import Counter
from contextlib import asynccontextmanager
from random import Random

import aiohttp
import httpx
import openai
import pytest
import requests

import graphmill as gm
from graphmill.engine.failures import kind_of
from support.driving import jobs_of, virtual
from support.model_server import ModelServer, reply, said

ITEMS = 300
REFUSED = 0.4


@pytest.fixture
def server():
    with ModelServer() as found:
        yield found


@asynccontextmanager
async def with_httpx(url):
    async with httpx.AsyncClient() as client:

        async def call(item):
            response = await client.post(f"{url}/v1", json={"item": item})
            return response.raise_for_status().json()["id"]

        yield call


@asynccontextmanager
async def with_aiohttp(url):
    async with aiohttp.ClientSession(raise_for_status=True) as client:

        async def call(item):
            async with client.post(f"{url}/v1", json={"item": item}) as response:
                return (await response.json())["id"]

        yield call


@asynccontextmanager
async def with_openai(url):
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:

        async def call(item):
            messages = [{"role": "user", "content": str(item)}]
            return (await client.chat.completions.create(model="m", messages=messages)).id

        yield call


@asynccontextmanager
async def with_requests(url):
    with requests.Session() as client:
        yield lambda item: client.get(f"{url}/{item}", timeout=30).raise_for_status()


@asynccontextmanager
async def with_urllib(url):
    def call(item):
        with urllib.request.urlopen(f"{url}/{item}", timeout=30) as response:
            return bool(response.read())

    yield call


ASYNC = [with_httpx, with_aiohttp, with_openai]


def batch(client, server, items, **options):
    async def main():
        async with client(server.url) as call:
            return await gm.abatch(call, items, **options)

    return asyncio.run(main())


@pytest.mark.parametrize("client", ASYNC)
def test_of_300_items_whose_calls_are_refused_at_40_percent_none_fails(server, client):
    random = Random(7)

    def answer(_):
        if random.random() < REFUSED:
            return reply({"error": {"message": "slow down"}}, 429, headers={"Retry-After": "0.01"})
        return said("yes")

    server.answer = answer
    report = batch(client, server, range(ITEMS), policy=gm.Policy(retry=gm.Retry(attempts=1, wait_s=0.01)))
    assert Counter(result.status for result in report.results()) == {"succeeded": ITEMS}
    assert len(server.asked) > 1.4 * ITEMS


KINDS = {
    **dict.fromkeys((429, 529), "throttled"),
    **dict.fromkeys((408, 409, 500, 502, 504), "transient"),
    **dict.fromkeys((401, 402, 403, 404), "unavailable"),
    **dict.fromkeys((400, 422), "permanent"),
}


@pytest.mark.parametrize("client", [*ASYNC, with_requests, with_urllib])
def test_each_status_is_of_the_kind_that_our_own_providers_give_it(server, client):
    seen = {}

    async def main():
        async with client(server.url) as call:
            for status in KINDS:
                server.answer = lambda _, status=status: reply({"error": {"message": "no"}}, status)
                try:
                    given = call(status)
                    if asyncio.iscoroutine(given):
                        await given
                except Exception as error:  # noqa: BLE001  each client has its own
                    seen[status] = str(kind_of(error))

    asyncio.run(main())
    assert seen == KINDS


def test_a_used_up_quota_is_no_throttling(server):
    error = {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": "insufficient_quota"}
    server.answer = lambda _: reply({"error": error}, 429)
    report = batch(with_openai, server, range(3))
    assert (report.stopped, "current quota" in report.stopped_because) == ("outage", True)


class RefusedError(Exception):
    status_code = 401


def test_what_never_worked_stops_the_run_within_three_seconds_and_what_did_is_probed_for_a_minute():
    async def call(number):
        await asyncio.sleep(0.1)
        if number >= works_until:
            raise RefusedError("wrong key")

    works_until = 0
    results, run = virtual(jobs_of(call, range(100)))
    assert (run.stopped, run.statistics().elapsed_s < 3) == ("outage", True)
    assert {result.status for result in results} == {gm.Status.PENDING}
    assert "Policy(classify=…)" in run.stopped_because
    works_until = 5
    assert virtual(jobs_of(call, range(100)))[1].statistics().elapsed_s > 60
    works_until = 0
    _, run = virtual(jobs_of(call, range(100)), park_after_s=20)
    assert 20 < run.statistics().elapsed_s < 60
