"""A progress bar that appears only when someone is waiting and looking."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any

from ifonly.model.extras import missing
from ifonly.problem.results import Results

__all__ = ["watched"]

PATIENCE = 2.0  # seconds before a bar is worth its place on the screen


def watched(parts: Iterable[Results], per_row: int, total: int | None, show: bool | None) -> Iterator[Results]:
    """The same, in a tqdm bar that counts rows once they have taken two seconds, in a terminal or notebook.

    ``show=True`` forces a bar, ``show=False`` forbids it, None leaves it to the above (and does without where tqdm is missing).
    """
    bar, done, began = _bar(total, 0) if show else None, 0, time.monotonic()
    wanted = sys.stderr.isatty() or "ipykernel" in sys.modules if show is None else show
    try:
        for found in parts:
            yield found
            rows = len(found) // per_row
            done += rows
            if bar is not None:
                bar.update(rows)
            elif wanted and time.monotonic() - began > PATIENCE:
                try:
                    bar = _bar(total, done)
                except ImportError:
                    wanted = False  # nobody asked for a bar by name
    finally:
        if bar is not None:
            bar.close()


def _bar(total: int | None, done: int) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise missing("progress=True needs tqdm", "frames") from error
    return tqdm(total=total, initial=done, unit=" rows", unit_scale=True)
