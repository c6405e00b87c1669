"""Answers with a cost and limits: for one source, for many, and several different ones for the same source."""

import heapq
import math
import pickle
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ifonly.answers.answer import Counterfactual, Counterfactuals, Path
from ifonly.answers.claim import Within, Withins
from ifonly.engines import limited
from ifonly.engines.limited_problem import Budget, Ground, LimitedProblem, Plan
from ifonly.engines.probability import needed_logit
from ifonly.engines.progress import Progress
from ifonly.engines.threads import available
from ifonly.model import Model, Scaling
from ifonly.model.errors import InputError
from ifonly.model.numerics import EPS
from ifonly.native import Rows
from ifonly.problem.actions import Actions
from ifonly.problem.cost import Cost
from ifonly.problem.question import NEAREST, Wish, Wishes
from ifonly.problem.status import Status
from ifonly.rows.sources import Sources, check_out

__all__ = ["diverse", "ground_for", "invert_within", "measured", "path_within", "seconds"]

Floats = NDArray[np.float64]

MOST_NOTABLE = 8  # features of an answer that the next one may do without, one at a time: all, or of more than these …
NOTABLE = 0.05  # … those with this share of the cost
MAIN_SHARE = 0.5  # where no feature is notable, the dearest that make up this much are left out together
CHUNK_ROWS = 4096
FEW_NODES = 1024  # a few milliseconds


def measured(model: Model, cost: Cost) -> Model:
    """The same classifier over features in units of cost: all that a scale without limits needs."""
    per_unit = cost.per_unit(model)
    scaling = model.scaling
    shift, scale = (
        (np.zeros(model.n_features), np.ones(model.n_features)) if scaling is None else (scaling.shift, scaling.scale)
    )
    units = Scaling(shift, 1 / per_unit, None if scaling is None else scaling.rough)
    more = {"encoding": model.encoding, "hard": model.hard, "precision": model.precision}
    found = Model(model.A / (scale * per_unit), model.b, model.classes, model.feature_names, scaling=units, **more)
    found.origin = (model, per_unit)
    return found


def ground_for(
    model: Model,
    cost: Cost | None,
    actions: Actions | None,
    max_changes: int | None,
    margin: float | None = None,
    *,
    fast: bool | None = None,
) -> Ground:
    """Model, cost and limits, checked; with the compiled search where it is worth loading (``fast=None``) or asked for."""
    if max_changes is not None and not (isinstance(max_changes, (int, np.integer)) and max_changes >= 0):
        raise InputError(f"max_changes must be a whole number ≥ 0; got {max_changes!r}")
    if cost is not None and not isinstance(cost, Cost):
        raise InputError(f"cost must be a Cost; got {type(cost).__name__}")
    if actions is not None and not isinstance(actions, Actions):
        raise InputError(f"actions must be Actions; got {type(actions).__name__}")
    if margin is not None and not (isinstance(margin, (int, float, np.number)) and 0 <= float(margin) < np.inf):
        raise InputError(f"margin must be a number ≥ 0; got {margin!r}")
    try:  # by content: what an Actions holds may have been changed in place since
        key = pickle.dumps((cost, actions, max_changes, margin, fast))
    except (pickle.PicklingError, TypeError, AttributeError):
        key = None
    known, ground = model.memo.get("ground", (None, None))
    if key is None or key != known:
        ground = Ground(model, cost, actions, max_changes, margin=None if margin is None else float(margin))
        if model.n_classes == 2 and ground.separable and (fast or (fast is None and ground.discrete)):
            ground.kernel = _compiled() or ground.kernel
        model.memo["ground"] = key, ground
    return ground


def _compiled() -> Any:
    """The compiled search, where Numba is to be had."""
    try:
        from ifonly.native import one_multiplier as compiled
    except ImportError:
        return None
    return compiled.compiled


def _solve(
    ground: Ground, source: Floats, k: int, lam: float | None, prob: float | None, budget: Budget, tol: float | None
) -> Plan:
    problem = LimitedProblem(ground, source, k)
    if ground.margin is not None:
        return limited.ahead(problem, budget)
    if prob is not None:
        return limited.reach(problem, prob, budget)
    assert lam is not None
    return limited.solve(problem, lam, budget, tol=tol)


def _solve_row(
    ground: Ground,
    source: Floats,
    k: int,
    lam: float | None,
    prob: float | None,
    budget: Budget,
    tol: float | None,
    among: NDArray[np.intp] | None = None,
) -> tuple[int, Plan]:
    """One source, for a class, the nearest of a set, or the nearest other."""
    if k != NEAREST:
        return k, _solve(ground, source, k, lam, prob, budget, tol)
    now = int(ground.model.scores(source).argmax())
    classes = [j for j in range(ground.model.n_classes) if j != now] if among is None else among.tolist()
    plans = [(j, _solve(ground, source, j, lam, prob, budget, tol)) for j in classes]

    def rank(found: tuple[int, Plan]) -> tuple[bool, float]:
        plan = found[1]
        missed = plan.status in (Status.UNREACHABLE,) or not np.isfinite(plan.cost)
        return missed, -float(plan.proba[found[0]]) if missed else plan.cost if lam is None else plan.objective

    return min(plans, key=rank)


def invert_within(
    ground: Ground,
    x: Sources | Iterator[Any],
    wishes: Wishes,
    budget: Budget,
    *,
    tol: float | None,
    threads: int | None,
    out: np.ndarray | None,
    progress: bool | None,
) -> Counterfactual | Counterfactuals:
    """`invert` with a cost and limits."""
    model = ground.model
    sources = x if isinstance(x, Sources) else Sources.joined(model, [Sources.read(model, table) for table in x])
    if sources.single and wishes.per_source == 1 and out is None:
        wishes.check(1)
        wish = wishes.rows(0, 1)
        source = sources.dense(0)
        if not np.isfinite(source).all():
            raise sources.reject(0)
        lam, prob = (None if v is None else float(v[0]) for v in (wish.lam, wish.prob))
        k, plan = _solve_row(ground, source, int(wish.targets[0]), lam, prob, budget.anew(), tol, wish.among)
        return Counterfactual.planned(plan, ground, sources, k, prob=prob)
    N, K, D = len(sources), wishes.per_source, model.n_features
    wishes.check(N)
    wish = wishes.rows(0, N)
    check_out(out, N * K, D)
    made = np.empty((N * K, D)) if out is None else out
    rows = Rows.empty(model, wish.targets, 0)
    within = Withins(ground, N * K)
    with Progress(N, progress) as bar:
        for a in range(0, N, CHUNK_ROWS):
            b = min(a + CHUNK_ROWS, N)
            X = sources.part(a, b).table()
            X = X if K == 1 else np.repeat(X, K, axis=0)
            place = np.arange(a * K, b * K)
            made[a * K : b * K] = np.nan
            _solve_chunk(ground, X, wish.take(place), place, rows, made, within, budget, tol, threads)
            bar.advance(b - a)
    if sources.single and K == 1 and rows.status[0] == Status.INVALID:
        raise sources.reject(0)
    answers = Counterfactuals(model, sources, rows, wish.prob, K, made=made, within=within)
    return answers[0] if sources.single and K == 1 else answers


def _solve_chunk(
    ground: Ground,
    X: Floats,
    wish: Wish,
    place: NDArray[np.intp],
    rows: Rows,
    made: np.ndarray,
    within: Withins,
    budget: Budget,
    tol: float | None,
    threads: int | None,
) -> None:
    """Fill in the answers for some rows; a row that cannot be solved stays INVALID and NaN."""
    model, targets = ground.model, wish.targets.copy()
    if model.n_classes == 2 and wish.among is not None:  # a set of one
        targets[:] = wish.among[0]
    reaches = wish.prob is not None or ground.margin is not None
    several = len(X) > 1 or "ifonly.native.intervals" in sys.modules  # one row alone is not worth loading Numba
    together = model.n_classes == 2 and reaches and ground.separable and several and not ground.limits.uneven
    boxed = together and _is_boxed(ground)
    left = _reach_boxed(ground, X, targets, wish.prob, place, rows, made, within, threads) if boxed else None
    if left is None:
        with np.errstate(invalid="ignore", over="ignore"):
            left = np.asarray(np.isfinite(model.scores(X)).all(axis=1) & np.isfinite(X).all(axis=1))
        near = (targets == NEAREST) & left & together
        targets[near] = 1 - model.scores(X[near]).argmax(axis=1)
        for k in (0, 1) if together else ():
            here = np.flatnonzero(left & (targets == k))
            if len(here):
                prob = None if wish.prob is None else wish.prob[here]
                done = _reach_rows(ground, X[here], k, prob, place[here], rows, made, within, budget, threads)
                left[here[done]] = False
    for i in np.flatnonzero(left):
        lam, prob = (None if v is None else float(v[i]) for v in (wish.lam, wish.prob))
        try:
            k, plan = _solve_row(ground, X[i], int(targets[i]), lam, prob, budget.anew(), tol, wish.among)
        except InputError:  # the source contradicts the limits: its row says INVALID
            continue
        n = int(place[i])
        rows.target[n] = k
        made[n] = plan.x
        rows.put(n, plan.solution)
        within.put(n, Within.of(plan, ground))


def _is_boxed(ground: Ground) -> bool:
    """Whether there is nothing but intervals: no grids, categories or mapped numbers, any number of which may move."""
    mapped = any(column.maps or column.missing is not None for column in ground.model.encoding.columns)
    return not (mapped or ground.discrete or ground.limits.groups)


def _reach_boxed(
    ground: Ground,
    X: Floats,
    targets: NDArray[np.intp],
    prob: Floats | None,
    place: NDArray[np.intp],
    rows: Rows,
    made: np.ndarray,
    within: Withins,
    threads: int | None,
) -> NDArray[np.bool_] | None:
    """Two classes and intervals: all rows in a kernel of their own; which are left, or None where there is no Numba."""
    try:
        from ifonly.native import intervals as boxed
    except ImportError:
        return None
    margin = np.full(len(X), -(ground.margin or 0.0))
    logits, probs = (margin, margin) if prob is None else (needed_logit(prob, ground.model), prob)
    x, ended, numbers = boxed.reach(ground, X, targets, logits, probs, available(threads))
    done = (ended == boxed.REACHED) | (ended == boxed.UNREACHABLE)
    at, found = place[done], dict(zip(boxed.COLUMNS, numbers[done].T, strict=True))
    made[at] = x[done]
    k = found["target"].astype(np.intp)
    rows.target[at], rows.proba[at, k], rows.proba[at, 1 - k] = k, found["p_target"], found["p_rival"]
    for name in ("lam", "distance", "objective", "grad_norm"):
        getattr(rows, name)[at] = found[name]
    rows.status[at] = np.where(ended[done] == boxed.REACHED, Status.EXACT, Status.UNREACHABLE)
    within.cost[at], within.bound[at], within.gap[at] = found["cost"], found["bound"], found["gap"]
    within.best_bound[at] = found["best"]
    if within.w is not None:
        within.w[at] = found["w"]
    return ended == boxed.LEFT


def _reach_rows(
    ground: Ground,
    X: Floats,
    k: int,
    prob: Floats | None,
    place: NDArray[np.intp],
    rows: Rows,
    made: np.ndarray,
    within: Withins,
    budget: Budget,
    threads: int | None,
) -> NDArray[np.bool_]:
    """Two classes, limits on features one by one: all rows in the compiled kernel; which of them are done.

    Without ``prob`` it is the ground's margin that has to be reached.

    Left to `LimitedProblem`: rows that only have to be moved into their limits, or cannot reach the probability.
    """
    try:
        from ifonly.native import one_multiplier as compiled
    except ImportError:
        return np.zeros(len(X), dtype=bool)
    model = ground.model
    lo, hi, wrong = ground.around(X)
    done = np.zeros(len(X), dtype=bool)
    done[list(wrong)] = True  # INVALID
    z = model.scores(X)
    margins = z[:, 1 - k] - z[:, k]
    logit = needed_logit(prob, model) if prob is not None else np.full(len(X), -(ground.margin or 0.0))
    short = margins > logit - ground.rounding(X, X, np.abs(margins))
    stay = np.flatnonzero(~done & ~short & ~ground.limits.must_move(X, lo, hi).any(axis=1))
    _stay(ground, margins[stay], k, place[stay], rows, within)
    made[place[stay]] = X[stay]
    done[stay] = True
    todo = np.flatnonzero(~done & short)
    g = -ground.rows(k)[0]
    items, t_lo, t_hi = ground.items(X, lo, hi, g)
    cap = len(items.g) + len(items.first) - 1 if ground.max_changes is None else ground.max_changes
    timed = not math.isinf(budget.seconds)  # rows that take long are left to where the clock is looked at
    most = min(budget.nodes, FEW_NODES) if timed else budget.nodes
    x = X.copy()
    for _ in range(limited.CHASE):
        if not len(todo):
            break
        need = margins[todo] - logit[todo] + 1.5 * ground.rounding(X[todo], x[todo], np.abs(margins[todo]))
        per_row = {name: getattr(items, name)[todo] for name in ("anchor", "at_rest", "og", "oc", "moves")}
        t, choice, numbers = compiled.reach(
            need, items._replace(**per_row), t_lo[todo], t_hi[todo], cap, budget.gap, most, available(threads)
        )
        cost, w, nodes, bound, ended = numbers.T
        x[todo] = ground.placed(X[todo], t, choice, items.first, lo[todo], hi[todo])
        z = model.scores(x[todo])
        there = z[:, 1 - k] - z[:, k] <= logit[todo] - ground.rounding(X[todo], x[todo], np.abs(margins[todo]))
        sure = np.isfinite(cost) & (w > 0) & np.isfinite(w) & ((ended > 0) | (most == budget.nodes))
        there &= sure
        found = todo[there]
        _fill(
            ground,
            X[found],
            x[found],
            k,
            None if prob is None else prob[found],
            w[there],
            nodes[there],
            bound[there],
            ended[there],
            place[found],
            rows,
            within,
        )
        made[place[found]] = x[found]
        done[found] = True
        todo = todo[~there & sure]
    return done


def _stay(ground: Ground, margins: Floats, k: int, place: NDArray[np.intp], rows: Rows, within: Withins) -> None:
    """Rows that are there already and within their limits: they are their own answers."""
    loss = np.logaddexp(0.0, margins)
    rows.target[place] = k
    rows.proba[place, k], rows.proba[place, 1 - k] = np.exp(-loss), np.exp(-np.logaddexp(0.0, -margins))
    objective = loss if ground.margin is None else 0.0
    rows.lam[place], rows.distance[place], rows.objective[place], rows.grad_norm[place] = np.inf, 0.0, objective, 0.0
    rows.status[place] = Status.EXACT
    within.cost[place], within.bound[place], within.gap[place] = 0.0, 0.0, 0.0


def _fill(
    ground: Ground,
    X: Floats,
    x: Floats,
    k: int,
    prob: Floats | None,
    w: Floats,
    nodes: Floats,
    bound: Floats,
    ended: Floats,
    place: NDArray[np.intp],
    rows: Rows,
    within: Withins,
) -> None:
    """`LimitedProblem.plan` and `certificate` for many rows of a model with two classes."""
    model, c, mu = ground.model, ground.per_unit, ground.mu
    z = model.scores(x)
    s = z[:, 1 - k] - z[:, k]
    others = np.exp(-np.logaddexp(0.0, -s))
    loss = np.logaddexp(0.0, s)
    t = (x - X) * c
    square, sparse = np.vecdot(t, t), np.abs(t) @ mu
    cost = 0.5 * square + sparse
    # λ∇cost = (1 − p_k)·g at the answer; with a margin it is a rule like any other, with w for its multiplier
    lam, pull = (others / w, others) if ground.margin is None else (np.ones(len(x)), w)
    rows.target[place] = k
    rows.proba[place, k], rows.proba[place, 1 - k] = np.exp(-loss), others
    objective = lam * cost + loss if ground.margin is None else cost
    rows.lam[place], rows.distance[place], rows.objective[place] = lam, np.sqrt(square), objective
    if ground.discrete:
        bound = np.minimum(bound, cost)
        gap, norm = cost - bound, np.zeros(len(x))
        rows.status[place] = np.where((ended > 0) & (gap <= limited.SETTLED * (1 + cost)), Status.EXACT, Status.STOPPED)
    else:
        lo, hi, _ = ground.limits.around(X)
        row = ground.rows(k)[0]
        base = lam[:, None] * t + pull[:, None] * row
        soft = lam[:, None] * mu
        a = np.where(x <= lo, -np.inf, np.where(t == 0.0, base - soft, base + soft * np.sign(t)))
        b = np.where(x >= hi, np.inf, np.where(t == 0.0, base + soft, base + soft * np.sign(t)))
        xi = np.where(a > 0, a, np.where(b < 0, b, 0.0))
        margins = np.abs(model.scores(X)).max(axis=1)
        soft_pull = others * np.linalg.norm(row) if ground.margin is None else np.zeros(len(x))
        rounding = soft_pull * (2 * ground.rounding(X, x, margins) + 10 * EPS)
        rounding += 4 * EPS * lam * (np.sqrt(square) + np.linalg.norm(c * np.abs(X), axis=1))
        norm = np.sqrt(np.vecdot(xi, xi)) + rounding
        if prob is None:
            excess = w * (np.maximum(-s - (ground.margin or 0.0), 0.0) + ground.rounding(X, x, margins))
        else:
            excess = np.maximum(-loss - np.log(prob), 0.0) + others * ground.rounding(X, x, margins)
            excess += 4 * EPS * (loss - np.log(prob))
        gap = np.minimum((norm**2 / (2 * lam) + excess) / lam, cost)
        bound = cost - gap
        rows.status[place] = Status.EXACT
    rows.grad_norm[place] = norm
    within.cost[place], within.bound[place], within.gap[place] = cost, bound, gap
    if ground.discrete:
        within.n_nodes[place] = nodes
    elif within.w is not None:
        within.w[place] = w


def diverse(
    ground: Ground, sources: Sources, k: int, n: int, lam: float | None, prob: float | None, budget: Budget, tol: float | None
) -> Counterfactuals:
    """Up to n answers for one source that differ in which features move, the cheapest first.

    Each is exact for its own restriction: of an answer's main features one is frozen in turn, and the cheapest of what these
    restrictions give is next. Restrictions nest, so costs rise.
    """
    if not isinstance(n, (int, np.integer)) or n < 1:
        raise InputError(f"n must be a whole number ≥ 1; got {n!r}")
    source = sources.dense(0)
    if not np.isfinite(source).all():
        raise sources.reject(0)
    serial = count()
    frozen: frozenset[int] = frozenset(np.flatnonzero(ground.limits.frozen).tolist())
    heap: list[tuple[float, int, frozenset[int], int, Plan, Ground]] = []
    tried: set[frozenset[int]] = set()

    def consider(frozen: frozenset[int], here: Ground, k: int) -> None:
        if frozen in tried:
            return
        tried.add(frozen)
        k, plan = _solve_row(here, source, k, lam, prob, budget.anew(), tol)
        first = not heap and len(tried) == 1
        if first or (plan.status is not Status.UNREACHABLE and np.isfinite(plan.cost)):
            value = plan.cost if lam is None else plan.objective
            heapq.heappush(heap, (value, next(serial), frozen, k, plan, here))

    consider(frozen, ground, k)
    found: list[tuple[int, Plan, Ground]] = []
    supports: set[tuple[int, ...]] = set()
    while heap and len(found) < n:
        _, _, frozen, k, plan, here = heapq.heappop(heap)
        support = tuple(np.flatnonzero(plan.x != source).tolist())
        if support not in supports:
            supports.add(support)
            found.append((k, plan, here))
        if not support or plan.status is Status.UNREACHABLE:
            break
        for more in _main_features(ground, source, plan):
            wider = frozen | more
            actions = replace(ground.actions, frozen=_named(ground.model, wider))
            if wider not in tried:
                consider(wider, _again(ground, actions), k)
    rows = Rows.empty(ground.model, np.array([k for k, _, _ in found], dtype=np.intp), 0)
    for i, (_, plan, _) in enumerate(found):
        rows.put(i, plan.solution)
    made = np.stack([plan.x for _, plan, _ in found])
    probs = None if prob is None else np.full(len(found), prob)
    within = Withins.of(Within.of(plan, here) for _, plan, here in found)
    return Counterfactuals(ground.model, sources, rows, probs, len(found), made=made, within=within)


def _named(model: Model, features: frozenset[int]) -> list[Any]:
    """Features as `Actions` takes them: by name where numbers are those of the user's columns."""
    return [d if model.encoding.identity else model.feature_label(d) for d in sorted(features)]


def _again(ground: Ground, actions: Actions) -> Ground:
    return Ground(ground.model, ground.cost, actions, ground.max_changes, ground.kernel, ground.margin)


def _main_features(ground: Ground, source: Floats, plan: Plan) -> list[frozenset[int]]:
    """What to leave out next: features (a group as one) that make up much of a plan's cost, the dearest first."""
    t = np.abs(plan.x - source) * ground.per_unit
    price = 0.5 * t * t + ground.mu * t
    whole = [frozenset(group.tolist()) for group in ground.limits.groups]
    parts = whole + [frozenset([d]) for d in np.flatnonzero(~ground.grouped & (t > 0)).tolist()]
    priced = sorted(((float(price[sorted(part)].sum()), min(part), part) for part in parts), key=lambda p: (-p[0], p[1]))
    total = sum(value for value, _, _ in priced)
    priced = [entry for entry in priced if entry[0] > 0]
    few = len(priced) <= MOST_NOTABLE
    notable = [part for value, _, part in priced[:MOST_NOTABLE] if few or value >= NOTABLE * total]
    if notable or not priced:
        return notable
    shares = np.cumsum([value for value, _, _ in priced])
    dearest = priced[: int(np.searchsorted(shares, MAIN_SHARE * total)) + 1]
    return [frozenset().union(*(part for _, _, part in dearest))]


def path_within(ground: Ground, sources: Sources, k: int, lams: Floats, budget: Budget, tol: float | None) -> Path:
    """`path` with a cost and limits."""
    source = sources.dense(0)
    if not np.isfinite(source).all():
        raise sources.reject(0)
    if k == NEAREST:
        k, _ = _solve_row(ground, source, NEAREST, None, 0.5, budget.anew(), tol)
    problem = LimitedProblem(ground, source, k)
    plans = [limited.solve(problem, lam, budget.anew(), tol=tol) for lam in lams.tolist()]
    rows = Rows.empty(ground.model, np.full(len(plans), k), 0)
    for i, plan in enumerate(plans):
        rows.put(i, plan.solution)
    made = np.stack([plan.x for plan in plans])
    return Path(
        ground.model, sources, rows, None, problem, made=made, within=Withins.of(Within.of(plan, ground) for plan in plans)
    )


def seconds(time_limit: float | None) -> float:
    """A time limit in seconds, checked."""
    if time_limit is None:
        return math.inf
    if not float(time_limit) > 0:
        raise InputError(f"time_limit must be a number of seconds > 0; got {time_limit}")
    return float(time_limit)
