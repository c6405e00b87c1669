"""Where work is done: a bounded number of requests at a time, in a few threads, each until its time is over."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic
from typing import Any, TypeVar

from ifonly.server.refusals import RefusedError

__all__ = ["Desk", "GoneError"]

Result = TypeVar("Result")

RETRY_AFTER = "1"  # seconds


class GoneError(Exception):
    """Whoever asked is no longer there."""


class Desk:
    """A bounded queue in front of a few threads.

    Attributes
    ----------
    waiting : int
        Requests that were taken and are not done; of one whose time is over, until its thread is free again.

    """

    def __init__(self, threads: int, queue: int) -> None:
        self.queue, self.waiting = queue, 0
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="ifonly")

    @property
    def full(self) -> bool:
        """Whether one more would be sent away."""
        return self.waiting >= self.queue

    def enter(self) -> None:
        """Take a request, or send it away."""
        if self.full:
            raise RefusedError(
                f"{self.waiting} requests are waiting already; try again soon", None, 503, Retry_After=RETRY_AFTER
            )
        self.waiting += 1

    def leave(self) -> None:
        """It is done."""
        self.waiting -= 1

    async def run(self, until: float, gone: Callable[[], Awaitable[Any]] | None, work: Callable[[], Result]) -> Result:
        """Do it in a thread, until a time of `time.monotonic`; ``gone`` comes back when nobody waits for it any more."""
        self.enter()
        loop = asyncio.get_running_loop()
        try:
            job: Future[Result] = self.pool.submit(work)
        except BaseException:
            self.leave()
            raise
        job.add_done_callback(lambda _: loop.call_soon_threadsafe(self.leave))
        waiter = asyncio.wrap_future(job)
        leaver = None if gone is None else asyncio.ensure_future(gone())
        try:
            both = {waiter} if leaver is None else {waiter, leaver}
            await asyncio.wait(both, timeout=until - monotonic(), return_when=asyncio.FIRST_COMPLETED)
            if waiter.done():
                return waiter.result()
            if leaver is not None and leaver.done():
                raise GoneError
            raise RefusedError("the time for this request is over", None, 504)
        finally:
            waiter.cancel()  # what has not begun never will; what has is stopped by its own time limit
            if leaver is not None:
                leaver.cancel()

    def close(self) -> None:
        """No more work."""
        self.pool.shutdown(wait=False, cancel_futures=True)
