"""Random problems with limits: K from 2 to 6, D from 2 to 8, every kind of limit, and by name the kinds that are hard.

``make(family, number, seed)`` is the same problem on every machine. A family draws a problem as `draw` does, with some things
settled beforehand, or changes one that was drawn.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any
from zlib import crc32

import numpy as np

from tests.limits.problem import Problem

__all__ = ["FAMILIES", "make"]

PROBS = (0.05, 0.3, 0.5, 0.6, 0.8, 0.9, 0.99, 0.9999, 1 - 1e-6, 1 - 1e-9)
EDGES = (1e-9, 0.1, 0.5 - 1e-9, math.nextafter(0.5, 0), 0.5, math.nextafter(0.5, 1), 0.5 + 1e-12, 1 - 1e-12, 1 - 2.0**-50)
STEPS = (0.1, 0.25, 0.3, 0.5, 2.0, 2.5)
KINDS = {"free": 4.0, "bounds": 2.0, "one side": 1.5, "increase": 1.0, "decrease": 1.0, "frozen": 1.0, "integer": 2.0}
KINDS |= {"step": 1.5}
MOST_VALUES = 9  # of a grid with two ends
MOST_GRIDS, MOST_ENDLESS = 3, 2  # features on grids, and those of them without two ends


@dataclass(frozen=True)
class Wish:
    """What is settled beforehand; None, or a share, for what is left to chance.

    Attributes
    ----------
    kinds : dict
        Weights of the kinds of features (`KINDS`), where they differ.
    off : str
        How sources lie off their grids: "some", "all", "ulp", "1e-12", "never".
    outside : float
        The share of bounds that the source is outside of.
    rules : tuple
        Shares of no rule, one and two; ``just`` is the share of those that just hold, ``equal`` of equations.
    ends : float
        The share of grids with two ends.
    grids : int
        At most so many features are on grids.
    room : int
        Bounds of a grid are at least so many steps from the source.

    """

    K: int | None = None
    D: int | None = None
    goal: str | None = None
    cost: str | None = None
    few: bool | None = None
    groups: float = 0.25
    kinds: dict[str, float] | None = None
    off: str = "some"
    outside: float = 0.15
    rules: tuple[float, float, float] = (0.6, 0.25, 0.15)
    just: float = 0.2
    equal: float = 0.2
    ends: float = 0.85
    grids: int = MOST_GRIDS
    room: int = 0


def make(family: str, number: int, seed: int = 0) -> Problem:
    """A problem of a family."""
    rng = np.random.default_rng([seed, number, crc32(family.encode())])
    return replace(FAMILIES[family](rng), name=f"{family} {number}" if seed == 0 else f"{family} {number} (seed {seed})")


# ---- a problem, piece by piece ----


def draw(rng: np.random.Generator, wish: Wish = Wish()) -> Problem:  # noqa: B008
    """A random problem."""
    K = wish.K or int(rng.integers(2, 7))
    D = wish.D or int(rng.integers(2, 9))
    A, b = rng.normal(size=(K, D)) * 10 ** rng.uniform(-1, 0.5), rng.normal(size=K)
    if rng.random() < 0.15:
        A = np.rint(2 * A) / 2 + 0.0
    x = rng.normal(size=D) * 2
    actions = _features(rng, wish, x)
    rules = [_rule(rng, wish, x, actions) for _ in range(int(rng.choice(3, p=wish.rules)))]
    if rules:
        actions["linear"] = rules
    goal = wish.goal or str(rng.choice(["prob", "lam", "margin"], p=[0.5, 0.25, 0.25]))
    few = wish.few if wish.few is not None else rng.random() < 0.35
    z = A @ x + b
    target = int(z.argmin()) if rng.random() < 0.7 else int(rng.integers(K))
    return Problem(
        A, b, x, target, goal, _want(rng, goal), actions, _cost(rng, wish, D), int(rng.integers(0, D + 1)) if few else None
    )


def _want(rng: np.random.Generator, goal: str) -> float:
    if goal == "prob":
        return float(rng.choice(PROBS)) if rng.random() < 0.8 else float(rng.uniform(0.05, 0.99))
    if goal == "lam":
        return float(10 ** rng.uniform(-4, 4))
    return float(rng.choice([0.0, 0.5, 1.0, 3.0, 10.0])) if rng.random() < 0.7 else float(rng.uniform(0, 2))


def _cost(rng: np.random.Generator, wish: Wish, D: int) -> dict[str, Any] | None:
    kind = wish.cost or str(rng.choice(["none", "scale", "l1", "matrix", "matrix, l1"], p=[0.3, 0.15, 0.25, 0.2, 0.1]))
    if kind == "none":
        return None
    l1 = rng.uniform(0, 1.0, D) * (rng.random(D) < 0.8)
    if "matrix" in kind:
        root = rng.normal(size=(D, D)) + 10 ** rng.uniform(-1, 1) * np.eye(D)
        Q = root.T @ root / D
        return {"matrix": (0.5 * (Q + Q.T)).tolist()} | ({"l1": l1.tolist()} if "l1" in kind else {})
    return {"scale": np.exp(rng.normal(size=D) * 0.7).tolist()} | ({"l1": l1.tolist()} if kind == "l1" else {})


def _features(rng: np.random.Generator, wish: Wish, x: np.ndarray) -> dict[str, Any]:
    """Limits on features one by one, and groups; the source is moved onto grids and options."""
    D = x.size
    weights = np.array([(wish.kinds or KINDS).get(kind, 0.0) for kind in KINDS])
    kinds = rng.choice(list(KINDS), D, p=weights / weights.sum()).astype(object)
    taken = rng.permutation(D).tolist()
    groups: list[list[int]] = []
    while len(taken) >= 3 and rng.random() < wish.groups:
        size = int(rng.integers(2, min(4, len(taken) - 1) + 1))
        group = [taken.pop() for _ in range(size)]
        x[group] = 0.0
        x[rng.choice(group)] = 1.0
        kinds[group] = "group"
        groups.append(group)
    grids = [d for d in range(D) if kinds[d] in ("integer", "step")]
    kinds[grids[wish.grids :]] = "free"
    found: dict[str, Any] = {name: [] for name in ("integer", "frozen", "increase", "decrease")}
    found |= {"bounds": {}, "step": {}, "one_of": groups}
    endless = 0
    for d in range(D):
        kind = kinds[d]
        if kind in ("bounds", "one side"):
            found["bounds"][d] = _pair(rng, wish, float(x[d]), one=kind == "one side")
        elif kind in ("increase", "decrease", "frozen"):
            found[kind].append(d)
        elif kind in ("integer", "step"):
            step = 1.0 if kind == "integer" else float(rng.choice(STEPS))
            if kind == "integer":
                found["integer"].append(d)
            else:
                found["step"][d] = step
            ends = rng.random() < wish.ends or endless >= MOST_ENDLESS
            endless += not ends
            x[d] = _on_grid(rng, wish, float(x[d]), step)
            pair = _grid_pair(rng, wish, float(x[d]), step, ends=ends)
            if pair != (None, None):
                found["bounds"][d] = pair
            if rng.random() < 0.15:
                found[str(rng.choice(["increase", "decrease"]))].append(d)
    return {key: value for key, value in found.items() if value}


def _pair(rng: np.random.Generator, wish: Wish, v: float, *, one: bool) -> tuple[float | None, float | None]:
    """Bounds around a number, or beside it."""
    low, high = v - float(rng.exponential(1.0)), v + float(rng.exponential(1.0))
    if rng.random() < wish.outside:
        shift = float(rng.choice([-1, 1])) * (high - low)
        low, high = low + shift, high + shift
    elif rng.random() < 0.1:
        low, high = (v, high) if rng.random() < 0.5 else (low, v)  # just within
    if one:
        return (low, None) if rng.random() < 0.5 else (None, high)
    return low, high


def _on_grid(rng: np.random.Generator, wish: Wish, v: float, step: float) -> float:
    """A source on a grid, or as far off it as is wished."""
    n = round(v / step)
    v = n * step if rng.random() < 0.5 else round(n * step, 10)
    if wish.off == "ulp":
        return float(np.nextafter(v, rng.choice([-np.inf, np.inf])))
    if wish.off == "1e-12":
        return float(v + rng.choice([-1, 1]) * 1e-12)
    if wish.off == "all" or (wish.off == "some" and rng.random() < 0.2):
        return float(v + step * rng.uniform(-0.5, 0.5))
    return float(v)


def _grid_pair(rng: np.random.Generator, wish: Wish, v: float, step: float, *, ends: bool) -> tuple[float | None, float | None]:
    """Bounds of a feature on a grid: on the grid, a little off it, or between; few enough values."""
    n, (down, up) = round(v / step), rng.integers(0, MOST_VALUES // 2 + 1, 2)
    if rng.random() < wish.outside:
        shift = int(rng.choice([-1, 1])) * int(down + up + 1)
        n += shift
    off = float(rng.choice([0.0, 0.01 * step, 1e-12, 0.4 * step]))
    low, high = round(float((n - down) * step), 10) - off, round(float((n + up) * step), 10) + off
    if wish.room:
        low, high = min(low, v - wish.room * step), max(high, v + wish.room * step)
    if ends:
        return low, high
    return {0: (None, None), 1: (low, None), 2: (None, high)}[int(rng.integers(3))]


def _rule(rng: np.random.Generator, wish: Wish, x: np.ndarray, actions: dict[str, Any]) -> tuple[dict[int, float], str, float]:
    """A rule that the source keeps, just keeps or breaks."""
    D = x.size
    some = rng.choice(D, int(rng.integers(1, min(4, D) + 1)), replace=False).tolist()
    row = {int(d): float(np.rint(10 * rng.normal()) / 10 or 0.5) for d in some}
    now = float(sum(v * x[d] for d, v in row.items()))
    still = set(actions.get("frozen", ())) | set(actions.get("integer", ())) | set(actions.get("step", ()))
    still |= {d for group in actions.get("one_of", ()) for d in group}
    sense = "==" if rng.random() < wish.equal else str(rng.choice(["<=", ">="]))
    if sense == "==":  # an equation needs something to move, or holds as it is
        loose = set(row) - still and rng.random() < 0.4
        return row, sense, now + (float(rng.normal() * 0.5) if loose else 0.0)
    room = 0.0 if rng.random() < wish.just else float(rng.exponential(0.7)) * float(rng.choice([1, 1, 1, -0.3]))
    return row, sense, now + room if sense == "<=" else now - room


# ---- families ----

Family = Callable[[np.random.Generator], Problem]
DISCRETE = {"free": 2.0, "bounds": 1.0, "integer": 4.0, "step": 3.0}


def steps_of(actions: dict[str, Any]) -> dict[int, float]:
    """The features on grids, and their steps."""
    return {**dict.fromkeys(actions.get("integer", ()), 1.0), **actions.get("step", {})}


def wished(**wish: Any) -> Family:
    """Problems with something settled beforehand."""
    return lambda rng: draw(rng, Wish(**wish))


def equations(rng: np.random.Generator) -> Problem:
    """An equation with many solutions on grids, which a source keeps that is off these: so they miss it by next to nothing."""
    off = str(rng.choice(["never", "ulp", "1e-12", "1e-12"]))
    problem = draw(rng, Wish(kinds={"integer": 2.0, "step": 1.0}, off=off, D=int(rng.integers(2, 5)), groups=0.0, outside=0.0))
    row = {d: float(rng.choice([-2.0, -0.5, -0.1, 0.1, 0.4, 0.5, 1.0])) for d in range(problem.x.size)}
    now = float(sum(v * problem.x[d] for d, v in row.items()))
    return replace(problem, actions={**problem.actions, "linear": [(row, "==", now)]})


def pinched(rng: np.random.Generator) -> Problem:
    """Bounds of features on grids that leave them one value: both next to one grid point, on the same side of it or not."""
    kinds, off = {**DISCRETE, "increase": 1.0}, str(rng.choice(["never", "ulp", "1e-12", "all"]))
    problem = draw(rng, Wish(kinds=kinds, D=int(rng.integers(2, 5)), off=off))
    steps = steps_of(problem.actions)
    bounds = dict(problem.actions.get("bounds", {}))
    for d, step in steps.items():
        point = (round(problem.x[d] / step) + int(rng.integers(-2, 3))) * step
        ends = [point + float(rng.choice([-1e-12, 0.0, 1e-12])) * step, np.nextafter(point, float(rng.choice([-9e9, 9e9])))]
        if rng.random() < 0.7:
            bounds[d] = tuple(float(v) for v in sorted(rng.choice(ends, 2)))
    return replace(problem, actions={**problem.actions, "bounds": bounds})


def far_grids(rng: np.random.Generator) -> Problem:
    """Millions of steps from 0, as amounts in cents are: a rounding of such a number is more than a billionth of its step.

    Rules are about other features: the judge makes them tighter by a share of their terms.
    """
    off = str(rng.choice(["never", "ulp"]))
    problem = draw(rng, Wish(kinds={**DISCRETE, "increase": 1.0}, off="never", outside=0.1))
    actions, x = dict(problem.actions), problem.x.copy()
    steps = steps_of(actions)
    far = np.zeros(x.size)
    for d, step in steps.items():
        far[d] = float(Fraction(step).limit_denominator(10**6) * round(10 ** rng.uniform(5, 9)) * int(rng.choice([-1, 1])))
        x[d] = x[d] + far[d] if off == "never" else np.nextafter(x[d] + far[d], float(rng.choice([-9e99, 9e99])))
    if "bounds" in actions:
        pairs = actions["bounds"].items()
        actions["bounds"] = {d: tuple(None if v is None else float(v + far[d]) for v in pair) for d, pair in pairs}
    actions["linear"] = [rule for rule in actions.pop("linear", ()) if not far[list(rule[0])].any()]
    return replace(problem, x=x, actions=actions, b=problem.b - problem.A @ far)


def common_part(rng: np.random.Generator) -> Problem:
    """Every row of A has the same large part, and a small one of its own."""
    problem = draw(rng)
    return replace(problem, A=problem.A + rng.normal(size=problem.x.size) * 10 ** rng.uniform(4, 8))


def close_rows(rng: np.random.Generator) -> Problem:
    """A rival's row is the target's, up to 1e-12 or 1e-6 or nothing; sometimes its offset too."""
    problem = draw(rng)
    A, b, k = problem.A.copy(), problem.b.copy(), problem.target
    other = int(rng.choice(np.delete(np.arange(len(b)), k)))
    A[other] = A[k] + rng.normal(size=problem.x.size) * float(rng.choice([0.0, 1e-12, 1e-6]))
    if rng.random() < 0.3:
        b[other] = b[k]
    return replace(problem, A=A, b=b)


def zero_rows(rng: np.random.Generator) -> Problem:
    """Some rows of A are zero: the target's, a rival's, or all."""
    problem = draw(rng)
    A = problem.A.copy()
    which = {0: [problem.target], 1: [(problem.target + 1) % len(A)], 2: list(range(len(A)))}
    A[which[int(rng.choice(3, p=[0.45, 0.45, 0.1]))]] = 0.0
    return replace(problem, A=A)


def decades(rng: np.random.Generator) -> Problem:
    """Weights, and costs, over many powers of ten."""
    problem = draw(rng)
    D = problem.x.size
    A = problem.A * 10 ** rng.uniform(-5, 3, D)
    cost = problem.cost
    if cost is not None and "scale" in cost:
        cost = {**cost, "scale": (np.array(cost["scale"]) * 10 ** rng.uniform(-3, 3, D)).tolist()}
    return replace(problem, A=A, cost=cost)


def all_frozen(rng: np.random.Generator) -> Problem:
    """Nothing may move."""
    problem = draw(rng, Wish(kinds={"frozen": 1.0}, groups=0.0))
    if rng.random() < 0.3:  # groups and grids, frozen too
        problem = draw(rng, Wish(outside=0.0))
        problem.actions["frozen"] = list(range(problem.x.size))
    return problem


def out_of_reach(goal: str) -> Family:
    """Limits so narrow that a high goal is out of reach, or nearly."""

    def family(rng: np.random.Generator) -> Problem:
        kinds = {"bounds": 3.0, "frozen": 2.0, "integer": 2.0, "step": 2.0, "increase": 0.3, "decrease": 0.3}
        problem = draw(rng, Wish(goal=goal, kinds=kinds, ends=1.0, outside=0.1))
        want = float(rng.choice([0.9, 0.99, 1 - 1e-6])) if goal == "prob" else float(rng.uniform(1, 10))
        return replace(problem, A=problem.A * 0.3, want=want)

    return family


def contradictory(rng: np.random.Generator) -> Problem:
    """Limits that contradict each other, in one of many ways; some of them do not after all."""
    kinds = {"free": 2.0, "bounds": 2.0, "integer": 1.0, "step": 1.0, "increase": 1.0}
    problem = draw(rng, Wish(rules=(1.0, 0.0, 0.0), kinds=kinds))
    actions, x, D = dict(problem.actions), problem.x, problem.x.size
    grouped = {d for group in actions.get("one_of", ()) for d in group}
    d = int(rng.choice([d for d in range(D) if d not in grouped] or range(D)))
    way = str(rng.choice(["rules", "frozen outside", "few", "wrong way", "between", "rule and bounds", "equation on a grid"]))
    v = float(x[d])
    if way == "rules":
        actions["linear"] = [({d: 1.0}, "<=", v - 1.0), ({d: 1.0}, ">=", v + float(rng.choice([1.0, -1.0])))]
    elif way == "frozen outside":
        actions |= {"frozen": [d], "bounds": {**actions.get("bounds", {}), d: (v + 1.0, v + 2.0)}}
    elif way == "few":
        actions["bounds"] = {
            **actions.get("bounds", {}),
            **{e: (float(x[e]) + 1.0, float(x[e]) + 3.0) for e in range(D) if e not in grouped},
        }
        return replace(problem, actions=actions, max_changes=int(rng.integers(0, D)))
    elif way == "wrong way":
        actions |= {"increase": [d], "bounds": {**actions.get("bounds", {}), d: (v - 3.0, v - 1.0)}}
    elif way == "between":
        actions |= {"integer": [d], "bounds": {**actions.get("bounds", {}), d: (math.floor(v) + 0.2, math.floor(v) + 0.8)}}
        actions["step"] = {e: s for e, s in actions.get("step", {}).items() if e != d}
    elif way == "rule and bounds":
        actions["bounds"] = {
            **actions.get("bounds", {}),
            **{e: (float(x[e]) - 1.0, float(x[e]) + 1.0) for e in range(D) if e not in grouped},
        }
        some = [e for e in range(D) if e not in grouped]
        actions["linear"] = [(dict.fromkeys(some, 1.0), ">=", float(x[some].sum()) + len(some) * float(rng.uniform(0.8, 1.3)))]
    else:
        actions["integer"] = [*actions.get("integer", []), d]
        actions["linear"] = [({d: 2.0}, "==", 2.0 * round(v) + float(rng.choice([1.0, 2.0])))]
        actions["step"] = {e: s for e, s in actions.get("step", {}).items() if e != d}
    return replace(problem, actions=actions)


def units(rng: np.random.Generator) -> Problem:
    """Every feature in a unit of its own, from a millionth to a million: weights, sources, grids, rules and costs."""
    problem = draw(rng, Wish(kinds={**KINDS, "step": 3.0}))
    actions, grouped = dict(problem.actions), [d for group in problem.actions.get("one_of", ()) for d in group]
    powers = rng.integers(-6, 7, problem.x.size)
    powers[grouped] = 0
    unit = np.array([float(f"1e{n}") for n in powers])
    steps = steps_of(actions)
    if steps:
        actions.pop("integer", None)
        actions["step"] = {d: float(f"{v!r}e{powers[d]}") for d, v in steps.items()}
    if "bounds" in actions:
        pairs = actions["bounds"].items()
        actions["bounds"] = {d: tuple(None if v is None else v * float(unit[d]) for v in pair) for d, pair in pairs}
    if "linear" in actions:
        actions["linear"] = [({d: v / float(unit[d]) for d, v in row.items()}, *rest) for row, *rest in actions["linear"]]
    Q, cost = problem.price[0], {"l1": problem.cost["l1"]} if problem.cost and "l1" in problem.cost else {}
    if problem.cost and "matrix" in problem.cost:
        cost["matrix"] = (Q / np.multiply.outer(unit, unit)).tolist()
    else:
        cost["scale"] = (np.sqrt(np.diag(Q)) / unit).tolist()
    return replace(problem, A=problem.A / unit, x=problem.x * unit, actions=actions, cost=cost)


def ties(rng: np.random.Generator) -> Problem:
    """Weights and offsets of halves, values on grids: goals that are met to the last bit, and missed by it."""
    problem = draw(rng, Wish(K=int(rng.choice([2, 2, 3])), D=3, kinds={"integer": 2.0, "step": 1.0}, off="never", ends=1.0))
    want = {"prob": 0.5, "margin": float(rng.choice([0.0, 0.5, 1.0]))}.get(problem.goal, problem.want)
    actions = {**problem.actions, "step": dict.fromkeys(problem.actions.get("step", {}), 0.5)}
    A, b = np.rint(2 * problem.A) / 2 + 0.0, np.rint(2 * problem.b) / 2 + 0.0
    return replace(problem, A=A, b=b, x=np.rint(problem.x), want=want, actions=actions)


def groups_with_bounds(rng: np.random.Generator) -> Problem:
    """Options that are ruled out, or in, by bounds, directions and freezing of their columns."""
    problem = draw(rng, Wish(D=int(rng.integers(4, 9)), groups=0.9))
    actions = {key: dict(value) if isinstance(value, dict) else list(value) for key, value in problem.actions.items()}
    for group in actions.get("one_of", ()):
        d, way = int(rng.choice(group)), str(rng.choice(["bounds", "frozen", "increase", "decrease", "none"]))
        if way == "bounds":
            pairs = [(0.0, 0.0), (0.0, 0.5), (None, 0.7), (0.0, 1.0), (-1.0, 3.0), (float(problem.x[d]),) * 2]
            actions.setdefault("bounds", {})[d] = pairs[int(rng.integers(len(pairs)))]
        elif way != "none":
            actions.setdefault(way, []).append(d)
    return replace(problem, actions=actions)


def larger(rng: np.random.Generator) -> Problem:
    """As many features and classes as users have: choices are often too many to try, but not what an answer says of itself."""
    return draw(rng, Wish(K=int(rng.integers(2, 11)), D=int(rng.integers(9, 61))))


FAMILIES: dict[str, Family] = {
    "anything": draw,
    "larger": larger,
    "one ulp off the grid": wished(kinds=DISCRETE, off="ulp"),
    "1e-12 off the grid": wished(kinds=DISCRETE, off="1e-12"),
    "outside bounds": wished(outside=0.6, kinds={**KINDS, "bounds": 6.0}),
    "rules that just hold": wished(rules=(0.0, 0.5, 0.5), just=0.9),
    "equations": equations,
    "pinched": pinched,
    "far grids": far_grids,
    "common part": common_part,
    "close rows": close_rows,
    "zero rows": zero_rows,
    "all frozen": all_frozen,
    "no changes": lambda rng: replace(draw(rng, Wish(outside=0.05, off="ulp")), max_changes=0),
    "few, with a matrix": wished(few=True, cost="matrix"),
    "endless grids, with a matrix": wished(
        D=4, cost="matrix", ends=0.0, groups=0.0, outside=0.0, kinds={"free": 1.0, "integer": 2.0, "step": 0.5, "bounds": 0.5}
    ),
    "margin, discrete": wished(goal="margin", kinds=DISCRETE, groups=0.4),
    "two classes": wished(K=2, groups=0.3, rules=(0.4, 0.3, 0.3)),
    "decades": decades,
    "probability out of reach": out_of_reach("prob"),
    "margin out of reach": out_of_reach("margin"),
    "contradictory": contradictory,
    "continuous": wished(kinds={k: v for k, v in KINDS.items() if k not in ("integer", "step")}, groups=0.0, few=False),
    "weighed": wished(goal="lam"),
    "units": units,
    "ties": ties,
    "all discrete, weighed": wished(goal="lam", D=3, kinds={"integer": 2.0, "step": 1.0}, ends=0.7, groups=0.3),
    "sources anywhere": wished(kinds=DISCRETE, off="all", outside=0.3),
    "groups with bounds": groups_with_bounds,
    "few of everything": wished(
        few=True, cost="matrix, l1", groups=0.5, rules=(0.2, 0.5, 0.3), kinds={**DISCRETE, "increase": 1.0, "one side": 1.0}
    ),
    "edges of p": lambda rng: replace(draw(rng, Wish(goal="prob")), want=float(rng.choice(EDGES))),
    "everything at once": wished(
        goal="margin", cost="matrix", groups=0.6, rules=(0.1, 0.5, 0.4), kinds={**DISCRETE, "increase": 1.0}
    ),
}
