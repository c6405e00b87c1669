"""What is written down: a log of one JSON object a line, without anything that applicants said, and Prometheus's counters."""

import asyncio
import logging
import sys
import traceback
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

from ifonly.server.wire import encode

__all__ = ["Journal", "Metrics"]

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Journal(logging.Handler):
    """Writes events as lines of JSON, to stderr; ``data`` is whether messages may stand in it, which can hold what was said.

    What libraries log goes into it as well, where they are told to.
    """

    def __init__(self, *, data: bool = False) -> None:
        super().__init__(logging.WARNING)
        self.stream, self.data = sys.stderr.buffer, data
        self.lines, self.held = deque[bytes](), False  # what waits, and whether that is for the event loop to come round

    def emit(self, record: logging.LogRecord) -> None:
        """What a library has to say."""
        self.write("server", level=record.levelname.lower(), message=record.getMessage())

    def write(self, event: str, **fields: Any) -> None:
        """One line; of the event loop, with all others of one round of it: a call of the system for each takes longer."""
        self.lines.append(encode({"time": datetime.now(UTC), "event": event, **fields}) + b"\n")
        if self.held:
            return
        try:
            asyncio.get_running_loop().call_soon(self.flush)
            self.held = True
        except RuntimeError:  # before it began, after its end, or in a thread
            self.flush()

    def flush(self) -> None:
        """Hand over what was written."""
        self.held = False
        lines = []
        with suppress(IndexError):  # the last is out; a thread may take some too
            while True:
                lines.append(self.lines.popleft())
        with suppress(OSError):  # that nobody reads the log any more is no reason not to answer
            self.stream.write(b"".join(lines))
            self.stream.flush()

    def failed(self, event: str, error: BaseException, **fields: Any) -> None:
        """An error that nobody expected: its type and where it came from; its words only if data may be written."""
        frames = traceback.extract_tb(error.__traceback__)
        where = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
        words = {"message": str(error)} if self.data else {}
        self.write(event, level="error", error=type(error).__name__, where=where, **words, **fields)


class Metrics:
    """What a server counts, with Prometheus's own client, in a registry of its own."""

    def __init__(self) -> None:
        disable_created_metrics()
        self.registry = own = CollectorRegistry()
        count, spread = partial(Counter, registry=own), partial(Histogram, registry=own)
        requests = count("ifonly_requests_total", "Requests by address and HTTP status.", ("method", "path", "status"))
        seconds = spread("ifonly_request_seconds", "From the headers of a request to its answer.", ("path",), buckets=SECONDS)
        rows = count("ifonly_rows_total", "Rows that were answered.", ("model",))
        self.batches = spread("ifonly_batch_rows", "Requests for one row that were solved together.", buckets=ROWS)
        self.loads = count("ifonly_model_loads_total", "Models that were loaded, or could not be.", ("model", "result"))
        # To look up a child takes three times as long as to count; there are few: models, addresses and methods are known ones.
        self.rows = cache(rows.labels)
        self._of = cache(lambda method, path, status: (requests.labels(method, path, status), seconds.labels(path)))

    def answered(self, method: str, path: str, status: int, seconds: float) -> None:
        """One more request."""
        count, times = self._of(method if method in METHODS else "other", path, str(status))
        count.inc()
        times.observe(seconds)
