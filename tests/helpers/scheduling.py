"""Which tests go to one worker together."""

from itertools import chain, groupby

import pytest
from xdist.scheduler import LoadScopeScheduling

# Each of these files makes something that takes long, once: a browser, a cluster, a server, references, an import.
WHOLE_FILES = (
    "tests/browser/",
    "tests/cluster/",
    "tests/server/",
    "tests/engines/test_exact.py",
    "tests/model/readers/test_dense.py",
)
# Half of the time of these is spent waiting, for a browser, a server, a cluster: the longest first.
WAITING = ("tests/browser/", "tests/cluster/", "tests/slow/", "tests/server/")
# What takes seconds begins before what does not, so that no worker is left with it at the end.
LONG = ("tests/limits/test_random.py", "tests/golden/", "tests/engines/", "tests/native/")
BY = 0.7  # of what computes: by then all that waits has begun


class Scheduling(LoadScopeScheduling):
    """One file of those above after the other, then all cases of one test."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """What a test goes to a worker with."""
    file = nodeid.partition("::")[0]
    return file if file.startswith(WHOLE_FILES) else nodeid.partition("[")[0]


def in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """The order in which a run with workers begins: what waits among what computes, so that no core is idle."""
    waiting = sorted((item for item in items if item.nodeid.startswith(WAITING)), key=lambda item: _place(item, WAITING))
    others = sorted((item for item in items if not item.nodeid.startswith(WAITING)), key=lambda item: _place(item, LONG))
    groups = [list(group) for _, group in groupby(waiting, key=lambda item: scope_of(item.nodeid))]
    gap = int(BY * len(others) / max(len(groups), 1))
    parts = [group + others[i * gap : (i + 1) * gap] for i, group in enumerate(groups)]
    return [*chain.from_iterable(parts), *others[len(groups) * gap :]]


def _place(item: pytest.Item, prefixes: tuple[str, ...]) -> int:
    return next((i for i, prefix in enumerate(prefixes) if item.nodeid.startswith(prefix)), len(prefixes))
