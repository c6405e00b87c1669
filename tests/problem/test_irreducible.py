"""The deletion filter: against all subsets."""

import itertools

import numpy as np
import pytest

from ifonly.problem.irreducible import irreducible


def monotone(rng, n):
    """A random monotone property of subsets of n parts that the whole has, by its minimal sets."""
    sets = [
        frozenset(rng.choice(n, int(rng.integers(0, n + 1)), replace=False).tolist()) for _ in range(int(rng.integers(1, 5)))
    ]
    return lambda some: any(known <= set(some) for known in sets)


@pytest.mark.parametrize("run", [1, 3, 100])
def test_what_is_left_holds_and_nothing_of_it_can_go(rng, run):
    for _ in range(200):
        n = int(rng.integers(0, 9))
        holds = monotone(rng, n)
        order = rng.permutation(n).tolist()
        found = irreducible(order, holds, run=run)
        assert found.proved
        assert holds(found.parts)
        assert found.parts == [part for part in order if part in found.parts]  # in their order
        assert not any(holds([p for p in found.parts if p != part]) for part in found.parts)
        smaller = [s for r in range(len(found.parts)) for s in itertools.combinations(found.parts, r)]
        assert not any(holds(s) for s in smaller)


def test_what_stands_last_goes_first():
    assert irreducible("abcd", lambda some: len(some) >= 2).parts == ["a", "b"]
    assert irreducible("abcd", lambda some: {"c", "d"} <= set(some) or "a" in some).parts == ["a"]


def test_few_that_are_needed_take_few_trials():
    trials = []

    def holds(some):
        trials.append(some)
        return {7, 400, 900} <= set(some)

    assert irreducible(range(1000), holds).parts == [7, 400, 900]
    assert len(trials) < 80
    trials.clear()
    irreducible(range(1000), lambda some: not trials.append(some) and len(some) == 1000)
    assert len(trials) == 1000  # all are needed: one trial each


def test_what_is_not_known_is_kept_and_said():
    found = irreducible("abc", lambda some: None if "b" not in some else "a" in some)
    assert found.parts == ["a", "b"]
    assert not found.proved


def test_stopped_early_it_still_holds():
    asked = []

    def holds(some):
        asked.append(some)
        return len(some) >= 3

    found = irreducible(range(100), holds, late=lambda: len(asked) >= 4)
    assert holds(found.parts)
    assert 3 < len(found.parts) < 100
    assert not found.proved
    assert irreducible([], lambda some: True, late=lambda: True) == ([], True)


def test_numbers_of_numpy_are_parts_too():
    assert irreducible(np.arange(4), lambda some: 2 in some).parts == [2]
