"""The same problems, asked in other ways, judged: ``python -m tests.limits.ways --seed S --count N [--way W] [--family F]``.

In a table, by a question that was pickled, for the nearest class, for a menu of plans, in single precision, with a search that
is stopped: answers have to be right for each, and to agree where the question is the same.
"""

import argparse
import itertools
import math
import pickle
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import ifonly
from ifonly import Counterfactual, InputError, Status
from tests.limits.families import FAMILIES, make
from tests.limits.problem import Limits, Problem
from tests.limits.truth import Truth, truth
from tests.limits.verdict import Verdict, held

__all__ = ["WAYS", "complaints"]

SAME = 1e-7  # relative: two values of one problem
SECONDS = 5.0
ROWS = 3  # of a table: the source, one nearby, the source again
MOST_ITEMS = 6  # of a menu that is enumerated


def question(problem: Problem, target: Any = "own", **more: Any) -> "ifonly.Ask":
    """A problem's question, to be kept."""
    target = problem.target if isinstance(target, str) else target
    timed = {"time_limit": SECONDS} if problem.limited else {}
    return ifonly.ask(problem.model, target, **{problem.goal: problem.want}, **problem.options, **timed | more)


def asked(ask: Callable[[Any], Any], x: Any) -> Any:
    """An answer, or the library's refusal."""
    try:
        return ask(x)
    except InputError as error:
        return error


def value(problem: Problem, cf: Counterfactual) -> float:
    """What is minimised."""
    return cf.objective if problem.goal == "lam" else cf.cost


def room(problem: Problem, *cfs: Counterfactual) -> float:
    """By how much the values of answers may differ."""
    points = [cf.coordinates[1] for cf in cfs]
    return sum(SAME * abs(value(problem, cf)) + cf.gap for cf in cfs) + 4 * sum(problem.rounding(x) for x in points)


def there(cf: Any) -> bool:
    """Whether there is an answer with a point."""
    return isinstance(cf, Counterfactual) and bool(np.isfinite(cf.coordinates[1]).all())


def settled(cf: Counterfactual) -> bool:
    """Whether an answer is known to be the best there is where its goal is out of reach."""
    return cf.status is not Status.UNREACHABLE or "the best that was found" not in cf.message


# ---- the ways ----


def table(problem: Problem, rng: np.random.Generator) -> list[str]:
    """A table has the answers that its rows have alone; a row that is not finite has none."""
    still = {d for group in problem.actions.get("one_of", ()) for d in group}
    still |= {*problem.actions.get("integer", ()), *problem.actions.get("step", ())}
    loose = [d for d in range(problem.x.size) if d not in still]
    X = np.tile(problem.x, (ROWS + 1, 1))
    X[1, loose] += 0.3 * rng.normal(size=len(loose))
    X[ROWS] = np.nan
    ask, out = question(problem), []
    many = ask(X)
    out += ["a row of NaN is not INVALID"] if many[ROWS].status is not Status.INVALID else []
    for i in range(ROWS):
        here, one, row = replace(problem, x=X[i].copy()), asked(ask, X[i]), many[i]
        if there(one) != there(row) and Status.STOPPED not in (row.status, getattr(one, "status", None)):
            out.append(f"row {i} is {row.status.name}, alone it is {one!r:.80}")
        if not (there(one) and there(row)):
            continue
        out += [f"row {i}: {v}" for v in held(here, truth(here), row)] if i == 1 else []
        both = {row.status, one.status}
        if Status.UNREACHABLE in both and not (settled(row) and settled(one)):
            continue  # what comes nearest was looked for until the time was up
        if Status.STOPPED not in both and (len(both) > 1 or abs(value(here, row) - value(here, one)) > room(here, row, one)):
            found = [(cf.status.name, value(here, cf), cf.gap) for cf in (row, one)]
            out.append(f"row {i}: {found[0]} in a table, {found[1]} alone")
    return out


def pickled(problem: Problem, rng: np.random.Generator) -> list[str]:
    """A question and an answer that were sent elsewhere, a record of it in fractions, what it says of itself."""
    cf = asked(pickle.loads(pickle.dumps(question(problem))), problem.x)
    if not there(cf):
        return []
    again, text = pickle.loads(pickle.dumps(cf)), cf.to_json()
    again.verify()
    found = [ifonly.verify(text, problem.model, exact=exact) for exact in (False, True)]
    assert cf.message
    assert repr(cf)
    assert isinstance(cf.blocking, tuple)
    return [f"{cf.status.name} is {v.claim}: {v.unproved}" for v in found if cf.status is Status.EXACT and v.claim != "proved"]


def nearest(problem: Problem, rng: np.random.Generator) -> list[str]:
    """No other class has a cheaper answer, as far as one is said to be optimal."""
    now = int(problem.model.scores(problem.x).argmax())
    known = {k: truth(replace(problem, target=k)) for k in range(len(problem.b)) if k != now}
    cf = asked(question(problem, None), problem.x)
    clear = {k: t for k, t in known.items() if t.firm and t.reachable}
    if isinstance(cf, InputError):
        return [f"refused, but a point keeps all limits: {cf}"] if any(t.firm for t in known.values()) else []
    k = problem.model.classes.tolist().index(cf.target)
    out = [str(v) for v in held(replace(problem, target=k), known[k], cf)]
    least = min((t.least for t in clear.values() if t.least is not None), default=math.inf)
    if cf.status is Status.UNREACHABLE and clear:
        out.append(f"UNREACHABLE, but a class costs {least!r}")
    if (cf.status.ok and value(problem, cf) > least + room(problem, cf)) or (
        there(cf) and cf.bound > least + room(problem, cf)
    ):
        out.append(f"{cf.status.name} at {value(problem, cf)!r}, bound {cf.bound!r}, but a class costs {least!r}")
    return out


def menu(problem: Problem, rng: np.random.Generator) -> list[str]:
    """The plans of a menu change minimal sets, each at the least cost; all of them, where it says so."""
    limits = Limits(problem)
    grouped = {d for group in limits.groups for d in group}
    items = [[d] for d in range(problem.x.size) if d not in grouped] + limits.groups
    if problem.goal == "lam" or len(items) > MOST_ITEMS or limits.wrong or not all(map(limits.rests, range(problem.x.size))):
        return []
    plans = asked(question(problem, n=100), problem.x)
    if isinstance(plans, InputError) or not there(plans[0]) or plans[0].status is Status.UNREACHABLE:
        return []
    for plan in plans:
        plan.verify()
    enough: dict[frozenset[int], Truth] = {}
    for some in itertools.chain.from_iterable(itertools.combinations(range(len(items)), n) for n in range(len(items) + 1)):
        if any(known <= set(some) for known in enough):
            continue
        frozen = {d for i, item in enumerate(items) if i not in some for d in item} | set(problem.actions.get("frozen", ()))
        found = truth(replace(problem, actions={**problem.actions, "frozen": sorted(frozen)}))
        if found.reachable and found.firm:
            enough[frozenset(some)] = found
        elif not found.contradictory and (found.reachable is None or not found.firm):
            return []  # not clear
    sets = [frozenset(i for i, item in enumerate(items) if (p.x[item] != problem.x[item]).any()) for p in plans]
    out = [f"{sorted(s)} is no minimal set" for s in sets[1:] if s not in enough]
    out += ["a set is there twice"] if len(set(sets)) < len(sets) else []
    out += [f"complete, without {sorted(s)}" for s in enough if plans.complete and s not in sets]
    for plan, s in zip(plans, sets, strict=True):
        least = enough[s].least if s in enough else None
        if least is not None and plan.status.ok and plan.cost > least + room(problem, plan):
            out.append(f"{sorted(s)} costs {plan.cost!r}, and a point {least!r}")
    return out


def single(problem: Problem, rng: np.random.Generator) -> list[str]:
    """A model in single precision: its own probabilities reach the goal, and every limit is kept."""
    A, b, x = (np.asarray(v, dtype=np.float32) for v in (problem.A, problem.b, problem.x))
    here = replace(problem, A=A.astype(float), b=b.astype(float), x=x.astype(float))
    model = ifonly.Model(A, b)
    timed = {"time_limit": SECONDS} if problem.limited else {}
    cf = asked(ifonly.ask(model, problem.target, **{problem.goal: problem.want}, **problem.options, **timed), x)
    if not there(cf):
        return []
    cf.verify()
    ifonly.verify(cf.to_json(), model)
    broken, p = Limits(here).broken(cf.coordinates[1]), float(model.predict_proba(cf.x)[problem.target])
    short = problem.goal == "prob" and cf.status is not Status.UNREACHABLE and p < problem.want
    return ([broken] if broken else []) + ([f"p is {p!r}"] if short else [])


def stopped(problem: Problem, rng: np.random.Generator) -> list[str]:
    """What stops early says nothing false, and has a plan if there is one, in a table too."""
    known, out = truth(problem), []
    for stop in ({"time_limit": 1e-6}, {"time_limit": 0.02}, {"node_limit": 1}, {"gap": 0.3}, {"backend": "reference"}):
        if not problem.limited or (set(stop) & {"node_limit", "gap"} and not question(problem).conditions.discrete):
            continue
        ask = question(problem, **stop)
        for cf in (asked(ask, problem.x), ask(problem.x[None])[0]):
            wrong = held(problem, known, cf)
            out += [f"{stop}: {v}" for v in wrong if v.kind != "WORSE" or "gap" not in stop]
    return out


WAYS: dict[str, Callable[[Problem, np.random.Generator], list[str]]] = {
    way.__name__: way for way in (table, pickled, nearest, menu, single, stopped)
}


def complaints(way: str, family: str, number: int, seed: int) -> list[Verdict]:
    """What is wrong with a problem of a family, asked in a way."""
    problem = make(family, number, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        try:
            found = WAYS[way](problem, np.random.default_rng([seed, number]))
        except Exception as error:  # whatever it is, it is what we are here for
            found = [f"{type(error).__name__}: {error}"]
    return [Verdict(way, f"{problem.name} [{problem.goal}]: {text}") for text in found]


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--way", action="append", choices=list(WAYS), help="one or more; by default all")
    parser.add_argument("--family", action="append", choices=list(FAMILIES), help="one or more; by default all but the larger")
    given = parser.parse_args()
    families, total = given.family or [name for name in FAMILIES if name != "larger"], Counter[str]()
    for i, way in itertools.product(range(given.count), given.way or WAYS):
        found = complaints(way, families[i % len(families)], i // len(families), given.seed)
        total[way] += bool(found)
        for v in found:
            print(v, flush=True)
    print(f"{given.count} problems, wrong by way: {dict(total)}")


if __name__ == "__main__":
    main()
