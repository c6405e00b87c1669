"""Which tests go to one worker together."""

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
# What takes a minute or more begins first, so that no worker is left with it at the end while the others have nothing to do.
LONG = (
    "tests/limits/test_random.py",
    "tests/browser/",
    "tests/cluster/",
    "tests/slow/",
    "tests/server/",
    "tests/golden/",
    "tests/engines/",
)


class Scheduling(LoadScopeScheduling):
    """One file of those above after the other, then all cases of one test."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if file.startswith(WHOLE_FILES) else nodeid.partition("[")[0]


def longest_first(item: pytest.Item) -> int:
    """The place of a test in the order in which a run with workers begins."""
    return next((i for i, prefix in enumerate(LONG) if item.nodeid.startswith(prefix)), len(LONG))
