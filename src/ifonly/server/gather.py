"""Requests for one row each, gathered into one call of the kernel for many.

Those that have come by the time the event loop gets round to it are solved together: nobody waits for a batch to fill, and the
busier the server is, the larger the batches are. One call for 50 rows of (784, 10) takes about as long as two calls for one row
(`make bench-serve` prints it), and is over in less than a millisecond: it runs on the event loop itself, because the way to a
thread and back costs more. What is expected to take longer goes to a thread, and meanwhile the next batch gathers.
"""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

from ifonly.answer import Counterfactuals
from ifonly.server.desk import Desk
from ifonly.server.models import Served, solve_many
from ifonly.server.questions import Asked
from ifonly.server.refusals import RefusedError

__all__ = ["Gatherer"]

MOST = 256  # rows of one call
SHORT = 2e-3  # seconds that the event loop may be busy with one call


Key = tuple[Served, str]
Found = tuple[Counterfactuals, int]


class _One(NamedTuple):
    """A row that waits to be solved."""

    asked: Asked
    value: float
    until: float
    done: "asyncio.Future[Found]"


class Gatherer:
    """Collects rows and solves them together.

    Parameters
    ----------
    desk : Desk
        Where requests are counted, and where calls go that take long.
    observe : callable
        Is told how many rows a call had.

    """

    def __init__(self, desk: Desk, observe: Callable[[int], None]) -> None:
        self.desk, self.observe = desk, observe
        self.pending: dict[Key, list[_One]] = {}
        self.away: set[Key] = set()  # whose last batch is with a thread

    async def solve(self, until: float, asked: Asked, kind: str, value: float) -> Found:
        """The answers of a batch, and which of them is this row's; ``kind`` is "lam" or "prob"."""
        loop = asyncio.get_running_loop()
        one = _One(asked, value, until, loop.create_future())
        self.desk.enter()
        try:
            key = (asked.served, kind)
            if key not in self.pending:
                self.pending[key] = []
                if key not in self.away:
                    loop.call_soon(self._flush, key)
            self.pending[key].append(one)
            return await one.done
        finally:
            self.desk.leave()

    def _flush(self, key: Key) -> None:
        waiting = self.pending.pop(key)
        ones, rest = waiting[:MOST], waiting[MOST:]
        loop = asyncio.get_running_loop()
        if rest:
            self.pending[key] = rest
        if key[0].expected(len(ones)) <= SHORT:
            self._tell(ones, _solved(key, ones))
            if rest:
                loop.call_soon(self._flush, key)
            return
        self.away.add(key)
        for one in ones:
            loop.call_later(one.until - monotonic(), _too_late, one)
        job = self.desk.pool.submit(_solved, key, ones)
        job.add_done_callback(lambda _: loop.call_soon_threadsafe(self._back, key, ones, job.result()))

    def _back(self, key: Key, ones: list[_One], found: list[Found | Exception]) -> None:
        self.away.discard(key)
        self._tell(ones, found)
        if key in self.pending:
            self._flush(key)

    def _tell(self, ones: list[_One], found: list[Found | Exception]) -> None:
        self.observe(len(ones))
        for one, result in zip(ones, found, strict=True):
            if one.done.done():
                continue
            if isinstance(result, Exception):
                one.done.set_exception(result)
            else:
                one.done.set_result(result)


def _too_late(one: _One) -> None:
    if not one.done.done():
        one.done.set_exception(RefusedError("the time for this request is over", None, 504))


def _solved(key: Key, ones: list[_One]) -> list[Found | Exception]:
    """One call for all of them; where that fails, one for each, so that nobody pays for a neighbour's numbers."""
    served, kind = key
    rows, targets, values = zip(*((one.asked.rows[0], one.asked.target, one.value) for one in ones), strict=True)
    try:
        answers = solve_many(served, list(rows), list(targets), kind, list(values))
    except Exception as error:
        return [error] if len(ones) == 1 else [found for one in ones for found in _solved(key, [one])]
    return [(answers, i) for i in range(len(ones))]
