"""Which tests go to one worker together."""

from xdist.scheduler import LoadScopeScheduling

# Each of these files makes something that takes long, once: a browser, a cluster, a server, references, an import.
WHOLE_FILES = (
    "tests/browser/",
    "tests/cluster/",
    "tests/server/",
    "tests/engines/test_exact.py",
    "tests/model/readers/test_dense.py",
)


class Scheduling(LoadScopeScheduling):
    """One file of those above after the other, then all cases of one test; what has most cases comes first."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if file.startswith(WHOLE_FILES) else nodeid.partition("[")[0]
