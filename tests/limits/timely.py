"""Hard problems of users' sizes with little time: ``python -m tests.limits.timely --seed S --count N``.

K up to 1000, D up to 2000, every kind of limit and cost, for one class, the nearest, or a menu. What is the optimum nobody
knows; but an answer comes within its time, keeps every limit, and nothing that it says of itself is false.
"""

import argparse
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

import ifonly
from tests.limits.families import DISCRETE, KINDS, Wish, draw
from tests.limits.problem import Limits, Problem
from tests.limits.verdict import SPARE, Verdict, timed

__all__ = ["complaints", "hard"]

MOST_WEIGHTS = 1_300_000  # of a model
MANY = 400  # features on grids: more than in problems that are enumerated
ROOM = 2  # steps of a grid from a source to its bounds, at least
MIXTURES = (KINDS, DISCRETE, {"bounds": 1.0}, {"integer": 1.0}, {"free": 1.0})
RULES = ((1.0, 0.0, 0.0), (0.3, 0.4, 0.3), (0.0, 0.0, 1.0))
COSTS = ("none", "scale", "l1", "matrix", "matrix, l1")
FIRST_TIED, MOST_TIED = 3, 784  # where those with a matrix begin, which takes a second to make where there are more features


def hard(number: int, seed: int) -> tuple[Problem, dict[str, Any]]:
    """A problem, and how it is asked."""
    rng = np.random.default_rng([seed, number])
    D, K = int(rng.choice([10, 20, 30, 60, 100, 200, 400, 784, 2000])), int(rng.choice([2, 2, 3, 3, 5, 10, 30, 300, 1000]))
    D = min(D, MOST_WEIGHTS // K)
    goal = str(rng.choice(["prob", "margin", "lam"], p=[0.6, 0.25, 0.15]))
    costs = COSTS[: None if D <= MOST_TIED else FIRST_TIED]
    wish = Wish(K=K, D=D, goal=goal, cost=str(rng.choice(costs)), few=bool(rng.random() < 0.6))
    wish = replace(
        wish,
        groups=rng.choice([0.0, 0.3, 0.9]),
        kinds=MIXTURES[rng.integers(5)],
        rules=RULES[rng.integers(3)],
        outside=0.0,
        off="never",
    )
    problem = draw(rng, replace(wish, grids=MANY, room=ROOM))
    if problem.max_changes is not None:
        problem = replace(problem, max_changes=int(rng.integers(1, min(12, D))))
    asked: dict[str, Any] = {"time_limit": float(rng.choice([0.05, 0.1, 0.3, 0.6, 1.0]))}
    way = str(rng.choice(["own", "own", "own", "nearest", "menu"]))
    asked |= {"n": 3} if way == "menu" and goal != "lam" else {}
    asked["target"] = None if way == "nearest" else problem.target
    return replace(problem, name=f"hard {number} (seed {seed})"), asked


def complaints(number: int, seed: int) -> list[Verdict]:
    """What is wrong with the answer to a hard problem."""
    problem, asked = hard(number, seed)
    asked |= {problem.goal: problem.want} | problem.options
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        found, seconds = timed(lambda: ifonly.invert(problem.model, problem.x, **asked))
        if seconds > asked["time_limit"] + SPARE:  # once more: the machine may have been busy
            seconds = min(seconds, timed(lambda: ifonly.invert(problem.model, problem.x, **asked))[1])
        wrong = _held(problem, found)
    if seconds > asked["time_limit"] + SPARE:
        wrong.append(Verdict("LATE", f"{seconds:.2f} s"))
    return [replace(v, text=f"{problem.name}, {_outline(problem, asked)}: {v.text}") for v in wrong]


def _held(problem: Problem, found: Any) -> list[Verdict]:
    """What is wrong with an answer, or with each of some plans; limits may contradict each other."""
    if isinstance(found, Exception):
        return [] if isinstance(found, ifonly.InputError) else [Verdict("CRASH", f"{type(found).__name__}: {found}")]
    wrong, limits = [], Limits(problem)
    for cf in [found] if isinstance(found, ifonly.Counterfactual) else found:
        if not np.isfinite(cf.x).all():
            continue
        try:
            cf.verify()
        except ifonly.CertificateError as error:
            wrong.append(Verdict("VERIFY", str(error)))
        wrong += [Verdict("LIMIT", broken)] if (broken := limits.broken(cf.x)) else []
    return wrong


def _outline(problem: Problem, asked: dict[str, Any]) -> str:
    K, D = problem.A.shape
    limits = {name: len(value) for name, value in problem.actions.items()} | {"max_changes": problem.max_changes}
    goal, how = f"{problem.goal} {problem.want:g}", {name: asked.get(name) for name in ("target", "n", "time_limit")}
    return f"K = {K}, D = {D}, {goal}, {'+'.join(problem.cost or ())} {limits} {how}"


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    given, wrong = parser.parse_args(), 0
    for number in range(given.count):
        found = complaints(number, given.seed)
        wrong += bool(found)
        for v in found:
            print(v, flush=True)
    print(f"{given.count} problems, {wrong} of them wrong")


if __name__ == "__main__":
    main()
