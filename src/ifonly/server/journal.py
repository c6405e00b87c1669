"""The log: one JSON object a line, with what happened and how long it took, and without anything that applicants said."""

import sys
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, BinaryIO

from ifonly.server.wire import encode

__all__ = ["Journal"]


class Journal:
    """Writes events as lines of JSON.

    Parameters
    ----------
    stream : binary stream
        Where to; by default stderr.
    data : bool
        Whether messages, questions and answers may stand in it, which can hold what applicants said.

    """

    def __init__(self, stream: BinaryIO | None = None, *, data: bool = False) -> None:
        self.stream, self.data = sys.stderr.buffer if stream is None else stream, data

    def write(self, event: str, **fields: Any) -> None:
        """One line."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        with suppress(OSError):  # that nobody reads the log any more is no reason not to answer
            self.stream.write(encode({"time": now, "event": event, **fields}) + b"\n")
            self.stream.flush()

    def failed(self, event: str, error: BaseException, **fields: Any) -> None:
        """An error that nobody expected: its type and where it came from; its words only if data may be written."""
        frames = traceback.extract_tb(error.__traceback__)
        where = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames]
        words = {"message": str(error)} if self.data else {}
        self.write(event, level="error", error=type(error).__name__, where=where, **words, **fields)
