"""Where work is done: a bounded number of requests at a time, each until its time is over; rows of many requests together."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from starlette.requests import ClientDisconnect

from ifonly.answers import Counterfactuals
from ifonly.api import Ask
from ifonly.engines.row_loops import any_cut
from ifonly.model.errors import InputError
from ifonly.problem.question import Question
from ifonly.problem.status import Status
from ifonly.server.models import Served
from ifonly.server.questions import Request
from ifonly.server.replies import Answer, of_answer, of_batch
from ifonly.server.wire import RefusedError

__all__ = ["LEAST", "SEATS", "Desk", "Gatherer", "Visit"]

OVER = "the time for this request is over"
BUSY = "other requests took all of the time for this one; try again soon"
SHARE = 0.8  # of the time left that a search may take: the rest is for telling what it found
SEATS = 16  # see `Desk`
LEAST = 1e-3  # seconds: a search that has begun gets so much
MOST = 256  # rows of one call
TARGETS = 3  # of one call, see `Gatherer`
FEW = 3  # rows that are solved sooner one by one than by a call for many
QUICK = 2**19  # numbers that a row goes through in less than a millisecond, so that nobody waits for it to be solved

Result = TypeVar("Result")
Key = tuple[Served, str, Any]


class Visit(NamedTuple):
    """One request: until when it has to be answered (by `time.monotonic`), and what comes from whoever asked."""

    until: float
    receive: Callable[[], Awaitable[Any]]

    async def gone(self) -> None:
        """Comes back when nobody waits any more."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    def left(self) -> float:
        """Seconds that a search may still take."""
        return max(SHARE * (self.until - monotonic()), LEAST)

    def check(self, rows: int) -> None:
        """Whether there is time for one more row."""
        if monotonic() > self.until:
            raise RefusedError(f"{OVER}, after {rows} rows", None, 504)


class Desk:
    """A bounded queue in front of ``seats``, a thread each.

    How long a search takes nobody knows beforehand. There are therefore more seats than cores: searches share the time, each
    stops when its own is over, and a short question is not behind them but among them. With one seat a core, it would
    wait until one of two long searches is over.
    """

    def __init__(self, seats: int, queue: int) -> None:
        self.queue = queue
        self.waiting = 0  # requests that were taken and are not done; of one whose time is over, until its thread is free again
        self.pool = ThreadPoolExecutor(seats, thread_name_prefix="ifonly")

    @property
    def full(self) -> bool:
        """Whether one more would be sent away."""
        return self.waiting >= self.queue

    def enter(self) -> None:
        """Take a request, or send it away."""
        if self.full:
            raise RefusedError(f"{self.waiting} requests are waiting already; try again soon", None, 503)
        self.waiting += 1

    def leave(self) -> None:
        """It is done."""
        self.waiting -= 1

    async def run(self, visit: Visit, work: Callable[[], Result]) -> Result:
        """Do it in a thread, as long as there is time and somebody waits for it."""
        self.enter()
        loop = asyncio.get_running_loop()
        try:
            job: Future[Result] = self.pool.submit(work)
        except BaseException:
            self.leave()
            raise
        job.add_done_callback(lambda _: loop.call_soon_threadsafe(self.leave))
        waiter, leaver = asyncio.wrap_future(job), asyncio.ensure_future(visit.gone())
        try:
            await asyncio.wait({waiter, leaver}, timeout=visit.until - monotonic(), return_when=asyncio.FIRST_COMPLETED)
            if waiter.done():
                return waiter.result()
            if leaver.done():
                raise ClientDisconnect
            if job.cancel():  # no seat was free in all that time
                raise RefusedError(BUSY, None, 503)
            raise RefusedError(OVER, None, 504)
        finally:
            job.cancel()  # what has not begun never will; what has is stopped by its own time limit
            waiter.cancel()
            leaver.cancel()

    def close(self) -> None:
        """No more work."""
        self.pool.shutdown(wait=False, cancel_futures=True)


class _One(NamedTuple):
    """A row that waits to be solved."""

    request: Request
    key: Key  # what has to be the same for those that are solved together; the target may be one of a few
    done: "asyncio.Future[Answer]"


class Gatherer:
    """Requests for one row each, gathered into one call of the kernel for many.

    A call is made as soon as one row waits; what comes meanwhile is the next batch. Nobody waits for a batch to fill, and the
    busier the server is, the larger the batches are. The kernel goes target by target, and each costs as much as some ten rows:
    a call therefore takes all rows of the few targets that have waited longest, and leaves the others to gather more. With 50
    clients and ten targets, three targets a call did most, and had the shortest tail (1, 3, 5 and 10 were tried).

    A few rows of a small model, where no call is being made, are solved on the event loop itself and one by one: that takes a
    third less of the processor than to wake a thread for a call. All rows on the loop was tried too: a busy server, which then
    does not read while it solves, had smaller batches and a longer tail. The threads are its own, so that no row waits for
    somebody's long search; ``observe`` is told how many rows a call had.
    """

    def __init__(self, desk: Desk, threads: int, observe: Callable[[int], None]) -> None:
        self.desk, self.threads, self.observe = desk, threads, observe
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="ifonly-rows")
        self.waiting: dict[Key, list[_One]] = {}  # by target: the one that has waited longest comes first
        self.calls = 0  # that are being made

    async def solve(self, visit: Visit, request: Request) -> list[Answer]:
        """The answer for one row."""
        loop, question = asyncio.get_running_loop(), request.ask.question
        key = request.served, "prob" if question.lam is None else "lam", question.target
        one = _One(request, key, loop.create_future())
        self.desk.enter()
        over = loop.call_later(visit.until - monotonic(), _tell, one, None)  # asyncio.timeout would take 6 µs more
        try:
            if not self.waiting:
                loop.call_soon(self._call)
            self.waiting.setdefault(key, []).append(one)
            return [await one.done]
        finally:
            over.cancel()
            self.desk.leave()

    def _call(self) -> None:
        """Solve rows here, or give them to threads as long as there are some that wait and threads that do not."""
        loop = asyncio.get_running_loop()
        while self.waiting and self.calls < self.threads:
            ones = self._next()
            self.calls += 1
            if self.calls == 1 and _is_quick(ones):
                self._back(ones, _solved(ones))
                return
            job = self.pool.submit(_solved, ones)
            job.add_done_callback(lambda job, ones=ones: loop.call_soon_threadsafe(self._back, ones, job.result()))

    def _next(self) -> list[_One]:
        """The rows of the next call."""
        first = next(iter(self.waiting))
        keys = [key for key in self.waiting if key[:2] == first[:2]][:TARGETS]
        ones = [one for key in keys for one in self.waiting.pop(key)]
        for one in ones[MOST:]:
            self.waiting.setdefault(one.key, []).append(one)
        return ones[:MOST]

    def _back(self, ones: list[_One], found: list[Answer | Exception]) -> None:
        self.calls -= 1
        self.observe(len(ones))
        for one, result in zip(ones, found, strict=True):
            _tell(one, result)
        if self.waiting:
            asyncio.get_running_loop().call_soon(self._call)  # after the requests that have come meanwhile

    def close(self) -> None:
        """No more work."""
        self.pool.shutdown(wait=False, cancel_futures=True)


def _tell(one: _One, result: Answer | Exception | None) -> None:
    """The answer, or what is wrong, to one who may no longer wait for it; None is that the time is over."""
    if one.done.done():
        return
    if isinstance(result, dict):
        one.done.set_result(result)
    else:
        one.done.set_exception(result or RefusedError(OVER, None, 504))


def _is_quick(ones: list[_One]) -> bool:
    """Whether they are few, and each goes through few numbers, of A and of a matrix of the rivals, for the class it names.

    Which class is nearest, and models with more classes than their features can tell apart, may take a hundred times as long.
    """
    model, K = ones[0].request.served.model, ones[0].request.served.model.n_classes
    named = all(one.key[2] not in (None, "other") for one in ones)
    return len(ones) <= FEW and named and K * (model.n_features + K * K) <= QUICK and not model.dependent


def _solved(ones: list[_One]) -> list[Answer | Exception]:
    """One call for all of them; where there are few or that fails, one for each: nobody pays for a neighbour's numbers."""
    if len(ones) <= FEW:
        return [_alone(one.request) for one in ones]
    served, goal, _ = ones[0].key
    requests = [one.request for one in ones]
    questions = [request.ask.question for request in requests]
    values: dict[str, Any] = {goal: [getattr(question, goal) for question in questions]}
    try:
        question = Question([question.target for question in questions], **values, backend=any_cut(), threads=1)
        rows = served.columns.table([request.rows[0] for request in requests])
        answers: Counterfactuals = Ask(served.model, question)(rows, progress=False)
        invalid = answers.status == Status.INVALID
        told = zip(invalid, of_batch(requests, answers), strict=True)
        return [RefusedError(str(answers.sources.reject(i)), "row") if no else answer for i, (no, answer) in enumerate(told)]
    except Exception:
        return [_alone(request) for request in requests]


def _alone(request: Request) -> Answer | Exception:
    """One row by itself."""
    try:
        return of_answer(request, request.ask(request.rows[0], progress=False), 0)
    except InputError as error:
        return RefusedError(str(error), "row")
    except Exception as error:
        return error
