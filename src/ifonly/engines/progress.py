"""A progress bar that appears only when someone is waiting and looking."""

import sys
import time
from typing import Any

from ifonly.model.extras import missing

__all__ = ["Progress"]

PATIENCE = 2.0  # seconds before a bar is worth its place on the screen


class Progress:
    """Counts rows; shows a tqdm bar once a call has run for two seconds, in a terminal or notebook.

    ``show=True`` forces a bar, ``show=False`` forbids it, None leaves it to the above (and does without where tqdm is missing).
    """

    def __init__(self, total: int | None, show: bool | None) -> None:
        self.bar: Any = None
        self.total, self.done = total, 0
        self.began = time.monotonic()
        self.wanted = sys.stderr.isatty() or "ipykernel" in sys.modules if show is None else show
        if show:
            self._bar()

    def advance(self, rows: int) -> None:
        """Some more rows are done."""
        self.done += rows
        if self.bar is not None:
            self.bar.update(rows)
        elif self.wanted and time.monotonic() - self.began > PATIENCE:
            try:
                self._bar()
            except ImportError:
                self.wanted = False  # nobody asked for a bar by name

    def _bar(self) -> None:
        try:
            from tqdm.auto import tqdm
        except ImportError as error:
            raise missing("progress=True needs tqdm", "frames") from error
        self.bar = tqdm(total=self.total, initial=self.done, unit=" rows", unit_scale=True)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.close()
