"""Work is shared out among this thread and helpers that are kept: all of it is done, once, and in order."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from helpers.compiled import needs_compiled

import ifonly
from ifonly.engines.threads import cuts, on_threads, share_out
from ifonly.native import free

PATIENCE = 30.0  # seconds


def test_results_are_in_order_and_several_threads_make_them():
    met = threading.Barrier(3, timeout=PATIENCE)  # no one goes on until three are at work
    done = on_threads(lambda n: (met.wait() * 0 if n < 3 else 0) + n, range(50), 3)
    assert done == list(range(50))


def test_helpers_are_kept():
    def helpers():
        return sum(thread.name.startswith("ifonly-helper") for thread in threading.enumerate())

    on_threads(lambda _: time.sleep(0.001), range(4), 2)
    before = helpers()
    for _ in range(20):
        on_threads(lambda _: time.sleep(0.001), range(4), 2)
    assert before >= 1
    assert helpers() < before + 10  # where one is not idle yet another starts, but not one for each call


def test_an_error_comes_back_when_all_have_stopped():
    working = set()

    def work(n):
        working.add(n)
        try:
            if n == 1:
                raise ArithmeticError("of one")
            time.sleep(0.01)
        finally:
            working.remove(n)

    with pytest.raises(ArithmeticError, match="of one"):
        on_threads(work, range(8), 4)
    assert not working


def test_work_inside_work_comes_to_an_end():
    inner = on_threads(lambda n: sum(on_threads(lambda m: n * m, range(5), 4)), range(300), 8)
    assert inner == [10 * n for n in range(300)]


@pytest.mark.parametrize(("rows", "threads", "least"), [(0, 4, 10), (1, 1, 1), (9, 4, 10), (100, 1, 10), (1000, 3, 64)])
def test_slices_cover_all_rows_once(rows, threads, least):
    seen = np.zeros(rows, dtype=int)

    def part(s):
        seen[s] += 1

    share_out(rows, threads, least, part)
    assert (seen == 1).all()
    assert all(s.stop - s.start >= least for s in cuts(rows, threads, least)) or rows < least
    assert len(cuts(rows, 1, least)) == 1


FORKED = """
import os
from ifonly.engines.threads import on_threads
on_threads(lambda n: n, range(20), 2)
child = os.fork()
if child == 0:
    os._exit(on_threads(lambda n: n + 1, range(20), 2) != list(range(1, 21)))
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_has_helpers_of_its_own():
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=PATIENCE)


@needs_compiled
def test_rows_of_many_targets_are_shared_out(rng, monkeypatch):
    """Each target has few rows, all of them together are many."""
    K, D = 40, 50
    model, X, targets = ifonly.Model(rng.normal(size=(K, D)), np.zeros(K)), rng.normal(size=(400, D)), np.arange(400) % K
    shared = []

    def watched(work, pieces, threads):
        shared.append((len(pieces), threads))
        return on_threads(work, pieces, threads)

    monkeypatch.setattr(free, "on_threads", watched)
    two, one = (ifonly.invert(model, X, targets, lam=0.1, threads=n, backend="cpu") for n in (2, 1))
    assert shared == [(K, 2), (K, 1)]
    np.testing.assert_array_equal(two.x, one.x)
