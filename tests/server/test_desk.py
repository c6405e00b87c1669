"""The desk, without a clock: work that begins and ends when a test says so."""

import asyncio
import threading
from contextlib import contextmanager
from time import monotonic

import httpx
import numpy as np
import pytest
from helpers.serving import make_toy
from starlette.requests import ClientDisconnect

import ifonly
from ifonly.server.app import create_app
from ifonly.server.desk import FEW, SEATS, Desk, Gatherer, Visit
from ifonly.server.models import Served, Source
from ifonly.server.questions import plain_row
from ifonly.server.schema import Question
from ifonly.server.service import Service, Settings
from ifonly.server.wire import RefusedError

QUESTION = {"row": [0.5, 2.0, 31.0], "target": "approved", "max_changes": 2}  # with limits: not gathered with others
PATIENCE = 60.0  # seconds after which a test that waits has failed


class Search:
    """Work that has begun, and ends when it is told to."""

    def __init__(self):
        self.begun, self.end = threading.Event(), threading.Event()

    def __call__(self, *_):
        self.begun.set()
        assert self.end.wait(PATIENCE)
        return []


async def for_ever():
    await asyncio.Event().wait()


async def at_once():
    """Of somebody who is not there any more."""
    return {"type": "http.disconnect"}


async def until(condition):
    end = monotonic() + PATIENCE
    while not condition():
        assert monotonic() < end
        await asyncio.sleep(0.001)


def visit(seconds=PATIENCE, receive=for_ever):
    return Visit(monotonic() + seconds, receive)


@contextmanager
def one_seat():
    """A desk with one seat, and the search that has it."""
    desk, search = Desk(1, 10), Search()
    try:
        yield desk, search
    finally:
        search.end.set()
        desk.close()


def test_a_full_queue_says_when_to_come_back(tmp_path, monkeypatch):
    model, data = make_toy(tmp_path)
    service = Service([Source("toy", model, data)], Settings(queue=2))
    search = Search()
    monkeypatch.setattr(service, "_invert", search)

    async def ask():
        transport = httpx.ASGITransport(create_app(service))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            first = [asyncio.ensure_future(client.post("/v1/invert", json=QUESTION)) for _ in range(2)]
            await until(lambda: service.desk.full)
            others = [await client.post("/v1/invert", json=QUESTION) for _ in range(4)], await client.get("/readyz")
            search.end.set()
            answered = await asyncio.gather(*first)
            await until(lambda: not service.desk.full)
            return answered, *others, await client.get("/readyz"), await client.get("/healthz")

    answered, refused, full, ready, health = asyncio.run(ask())
    service.close()
    assert [reply.status_code for reply in answered] == [200, 200]
    assert [reply.status_code for reply in refused] == [503] * 4
    for reply in refused:
        assert reply.headers["retry-after"] == "1"
        assert reply.json()["error"]["code"] == "busy"
    assert (full.status_code, full.json()["status"]) == (503, "full")
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    assert health.is_success


def test_a_short_question_does_not_wait_for_long_ones():
    async def ask():
        desk, searches = Desk(SEATS, 100), [Search() for _ in range(SEATS - 1)]
        long_ones = [asyncio.ensure_future(desk.run(visit(), search)) for search in searches]
        await until(lambda: all(search.begun.is_set() for search in searches))
        found = await desk.run(visit(), lambda: "found")
        running = not any(job.done() for job in long_ones)
        for search in searches:
            search.end.set()
        await asyncio.gather(*long_ones)
        desk.close()
        return found, running

    assert asyncio.run(ask()) == ("found", True)


def test_work_that_nobody_waits_for_is_not_begun():
    async def ask():
        with one_seat() as (desk, search):
            first, second = asyncio.ensure_future(desk.run(visit(), search)), Search()
            await until(search.begun.is_set)
            with pytest.raises(ClientDisconnect):
                await desk.run(visit(receive=at_once), second)
            search.end.set()
            await first
            assert await desk.run(visit(), lambda: "the next") == "the next"
            await until(lambda: desk.waiting == 0)
            return second.begun.is_set()

    assert asyncio.run(ask()) is False


@pytest.mark.parametrize(("begun", "status", "headers"), [(True, 504, {}), (False, 503, {"Retry-After": "1"})])
def test_what_is_not_done_in_time_is_refused(begun, status, headers):
    async def ask():
        with one_seat() as (desk, search):
            if not begun:
                other = asyncio.ensure_future(desk.run(visit(), search))
                await until(search.begun.is_set)
            with pytest.raises(RefusedError) as refused:
                await desk.run(visit(0.05 if not begun else 1.0), search)
            assert search.begun.is_set()
            assert desk.waiting == (1 if begun else 2)  # until its thread is free again
            search.end.set()
            if not begun:
                await other
            await until(lambda: desk.waiting == 0)
            return refused.value

    error = asyncio.run(ask())
    assert (error.status, error.headers) == (status, headers)


# ---- rows that are gathered ----


class Threads:
    """A pool that counts what it is given."""

    def __init__(self, pool):
        self.pool, self.jobs = pool, 0

    def submit(self, *job):
        self.jobs += 1
        return self.pool.submit(*job)

    def shutdown(self, **how):
        self.pool.shutdown(**how)


def gathered(model, questions):
    """The answers to questions that come at once, how many rows each call had, and how many calls were made in threads."""
    served, calls = Served("rows", model), []
    requests = [plain_row(served, Question(**question)) for question in questions]

    async def ask():
        desk = Desk(1, 1000)
        gatherer = Gatherer(desk, 1, calls.append)
        gatherer.pool = threads = Threads(gatherer.pool)
        jobs = (gatherer.solve(visit(), request) for request in requests)
        found = await asyncio.gather(*jobs, return_exceptions=True)
        gatherer.close()
        desk.close()
        assert desk.waiting == 0
        return found, threads.jobs

    found, jobs = asyncio.run(ask())
    return [answers if isinstance(answers, Exception) else answers[0] for answers in found], calls, jobs


@pytest.fixture
def wide():
    rng = np.random.default_rng(11)
    return ifonly.Model(rng.normal(size=(4, 30)), rng.normal(size=4), ["a", "b", "c", "d"])


@pytest.mark.parametrize("goal", [{"prob": 0.8}, {"lam": 0.1}])
@pytest.mark.parametrize(("rows", "jobs"), [(1, 0), (FEW, 0), (FEW + 1, 1), (20, 1)])
def test_few_rows_are_solved_at_once_and_more_in_a_thread(wide, goal, rows, jobs):
    X = np.random.default_rng(12).normal(size=(rows, 30))
    answers, calls, in_threads = gathered(wide, [{"row": x.tolist(), "target": "b", **goal} for x in X])
    assert (calls, in_threads) == ([rows], jobs)
    for x, answer in zip(X, answers, strict=True):
        alone = ifonly.invert(wide, x, "b", **goal)
        np.testing.assert_allclose(answer["x"], alone.x, rtol=1e-11, atol=1e-11)
        assert (answer["status"], answer["target"], answer["prob"]) == ("exact", "b", goal.get("prob"))
        for name in ("lam", "distance", "cost", "objective"):
            assert answer[name] == pytest.approx(getattr(alone, name), rel=1e-9)


@pytest.mark.parametrize("question", [{"target": None}, {"target": "other"}])
def test_what_may_take_long_is_done_in_a_thread(wide, question):
    answers, calls, in_threads = gathered(wide, [{"row": [0.1] * 30, **question}])
    assert (answers[0]["status"], calls, in_threads) == ("exact", [1], 1)


def test_many_classes_of_few_features_are_solved_in_a_thread():
    rng = np.random.default_rng(13)
    model = ifonly.Model(rng.normal(size=(8, 3)), rng.normal(size=8))
    assert gathered(model, [{"row": [0.1, 0.2, 0.3], "target": 2}])[1:] == ([1], 1)


@pytest.mark.parametrize("rows", [1, FEW, FEW + 1])
def test_a_row_that_overflows_is_refused_and_its_neighbours_are_not(wide, rows):
    questions = [{"row": [1.7e308] * 30, "target": "b"}, *[{"row": [0.1] * 30, "target": "b"}] * (rows - 1)]
    refused, *others = gathered(wide, questions)[0]
    assert isinstance(refused, RefusedError)
    assert (refused.status, refused.field) == (422, "row")
    assert {answer["status"] for answer in others} <= {"exact"}
