"""Requests for one row each, gathered into one call of the kernel for many.

A call is made as soon as one row waits; what comes while a thread is busy with it is the next batch. Nobody waits for a batch
to fill, and the busier the server is, the larger the batches are. `make bench-serve` prints what that is worth. Short calls on
the event loop itself were tried: a lone request was answered a tenth of a millisecond sooner, but 50 clients got a quarter less
done, because batches were smaller.
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
        Where requests are counted, and whose threads make the calls.
    observe : callable
        Is told how many rows a call had.

    """

    def __init__(self, desk: Desk, observe: Callable[[int], None]) -> None:
        self.desk, self.observe = desk, observe
        self.waiting: dict[Key, list[_One]] = {}
        self.busy: set[Key] = set()

    async def solve(self, until: float, asked: Asked, kind: str, value: float) -> Found:
        """The answers of a batch, and which of them is this row's; ``kind`` is "lam" or "prob"."""
        loop = asyncio.get_running_loop()
        one = _One(asked, value, until, loop.create_future())
        key = (asked.served, kind)
        self.desk.enter()
        too_late = loop.call_later(
            until - monotonic(), _tell, one, RefusedError("the time for this request is over", None, 504)
        )
        try:
            if key in self.waiting:
                self.waiting[key].append(one)
            else:
                self.waiting[key] = [one]
                if key not in self.busy:
                    loop.call_soon(self._call, key)
            return await one.done
        finally:
            too_late.cancel()
            self.desk.leave()

    def _call(self, key: Key) -> None:
        """Give all that wait to a thread."""
        ones = self.waiting.pop(key)
        if len(ones) > MOST:
            ones, self.waiting[key] = ones[:MOST], ones[MOST:]
        self.busy.add(key)
        loop = asyncio.get_running_loop()
        job = self.desk.pool.submit(_solved, key, ones)
        job.add_done_callback(lambda _: loop.call_soon_threadsafe(self._back, key, ones, job.result()))

    def _back(self, key: Key, ones: list[_One], found: list[Found | Exception]) -> None:
        self.busy.discard(key)
        if key in self.waiting:
            self._call(key)
        self.observe(len(ones))
        for one, result in zip(ones, found, strict=True):
            _tell(one, result)


def _tell(one: _One, result: Found | Exception) -> None:
    """The answer, or what is wrong, to one who may no longer wait for it."""
    if one.done.done():
        return
    if isinstance(result, Exception):
        one.done.set_exception(result)
    else:
        one.done.set_result(result)


def _solved(key: Key, ones: list[_One]) -> list[Found | Exception]:
    """One call for all of them; where that fails, one for each, so that nobody pays for a neighbour's numbers."""
    served, kind = key
    rows, targets, values = zip(*((one.asked.rows[0], one.asked.target, one.value) for one in ones), strict=True)
    try:
        answers = solve_many(served, list(rows), list(targets), kind, list(values))
    except Exception as error:
        return [error] if len(ones) == 1 else [found for one in ones for found in _solved(key, [one])]
    return [(answers, i) for i in range(len(ones))]
