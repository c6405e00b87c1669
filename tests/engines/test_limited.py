"""Costs and limits without whole numbers: against a conic solver and 50-digit arithmetic."""

import warnings
from itertools import product

import cvxpy as cp
import mpmath as mp
import numpy as np
import pytest
from helpers.limits import COSTS, LIMITS, attempt, make, sound

from ifonly import Actions, Status

pytestmark = pytest.mark.usefixtures("loops")

# ---- against the conic solver ----


def conic(case, best=False):
    """(x, allowance) by cvxpy and Clarabel: the allowance is what its own small violations are worth by its multipliers.

    ``best`` asks for the largest probability instead.
    """
    D = len(case.source)
    unit = 1 / np.sqrt(np.diag(case.Q))
    y = cp.Variable(D)  # the change, in units of cost
    change = cp.multiply(unit, y)
    z = case.model.logits(case.source) + case.slope @ change
    loss = cp.log_sum_exp(z - z[case.k])
    root = np.linalg.cholesky(case.Q).T * unit
    square, sparse = 0.5 * cp.sum_squares(root @ y), cp.sum(cp.multiply(case.weights, cp.abs(change)))
    limits, excess = [], []
    for row, sense, rest in case.rules:
        dense = np.zeros(D)
        dense[list(row)] = list(row.values())
        left = dense @ change + (dense @ case.source - rest)
        limits.append(left <= 0 if sense == "<=" else left >= 0 if sense == ">=" else left == 0)
        excess.append((lambda x, row=row, rest=rest: sum(v * x[d] for d, v in row.items()) - rest, sense))
    bounded = [d for d in range(D) if np.isfinite(case.lo[d]) and case.lo[d] < case.hi[d]]
    capped = [d for d in range(D) if np.isfinite(case.hi[d]) and case.lo[d] < case.hi[d]]
    fixed = [d for d in range(D) if case.lo[d] == case.hi[d]]
    low, high = ((bound - case.source) / unit for bound in (case.lo, case.hi))
    extra = [y[bounded] >= low[bounded]] if bounded else []  # one constraint for all features: cvxpy takes long over each
    extra += [y[capped] <= high[capped]] if capped else []
    extra += [y[fixed] == low[fixed]] if fixed else []
    if case.prob is not None and not best:
        reach = loss <= -np.log(case.prob)
        limits.append(reach)
        excess.append((lambda x: case.loss(x) + np.log(case.prob), "<="))
    goal = loss if best else square + sparse if case.lam is None else case.lam * square + sparse + loss
    problem = cp.Problem(cp.Minimize(goal), limits + extra)
    tight = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12, "max_iter": 200}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")  # it is: the tolerances are beyond what it can do
        try:
            problem.solve(solver=cp.CLARABEL, **tight)
        except cp.error.SolverError:
            return None, 0.0
    if y.value is None or problem.status not in ("optimal", "optimal_inaccurate"):
        return None, 0.0
    x = np.clip(case.source + unit * y.value, case.lo, case.hi)
    allowance = 0.0
    for limit, (over, sense) in zip(limits, excess, strict=True):
        value = float(over(x))
        wrong = max(value, 0.0) if sense == "<=" else max(-value, 0.0) if sense == ">=" else abs(value)
        allowance += 1.01 * wrong * abs(float(limit.dual_value))  # to first order; the violations are 1e-9 or so
    return x, allowance


# Clarabel is good to 1e-8 or so; its point is clipped into the bounds, what it still violates is charged at its own
# multipliers, and then ours may not be above it by more than the 1e-9 that is promised. 1e-12 is for objectives near 0.
RELATIVE, ABSOLUTE = 1e-9, 1e-12
# A gap is claimed from the least subgradient, ‖ξ‖²/2λ, and allows for rounding of x: at λ = 1e-4 and behind a matrix with a
# condition of up to 1e6, as here, that is more than the gap is.
CLAIMED = 1e-6


def broken(x, rule):
    """By how much a rule is broken at x."""
    row, sense, rest = rule
    over = sum(v * x[d] for d, v in row.items()) - rest
    return {"<=": over, ">=": -over, "==": abs(over)}[sense]


def compare(case):
    """Ours against the conic solver's."""
    cf = attempt(case)
    if cf is None:  # random rules may contradict each other: then the conic solver has no point either, or one that breaks them
        x, _ = conic(case)
        assert x is None or max(broken(x, rule) for rule in case.rules) > 1e-3
        return
    sound(case, cf)
    if cf.status is Status.UNREACHABLE:
        p = cf.proba[case.k]
        assert p < cf.prob
        x, _ = conic(case, best=True)
        if x is not None:  # p is the largest there is, or the message says how much there can be at most
            best = np.exp(-case.loss(x))
            assert p >= best * (1 - 2e-5) or (
                "and there is none above" in cf.message and cf.within.best_bound >= best * (1 - 1e-6)
            )
        if cf.within is not None:
            assert p <= cf.within.best_bound < cf.prob
        return
    assert cf.status.ok  # CONVERGED where rounding leaves more than EXACT allows, as behind a matrix of condition 1e6
    ours = case.value(cf.x)
    assert cf.gap <= CLAIMED * abs(ours) + ABSOLUTE
    x, allowance = conic(case)
    if x is None:  # the conic solver gave up
        return
    theirs = case.value(x)
    assert ours <= theirs + allowance + RELATIVE * abs(theirs) + ABSOLUTE
    assert theirs <= ours * (1 + 1e-4) + 1e-6  # it was the same problem


# Each limit with every cost: with two of these by the compiled loops, in turn, and with one of the others by NumPy; for a
# matrix there are no compiled loops.
WISHES = [[(2, "lam"), ("more", "prob")], [(2, "prob"), ("more", "lam")]]
PAIRS = [(i + j, cost, limits) for (i, cost), (j, limits) in product(enumerate(COSTS), enumerate(LIMITS))]
FORMS = [("compiled", cost, limits, *WISHES[n % 2][n // 2 % 2]) for n, cost, limits in PAIRS]
FORMS += [("NumPy", cost, limits, *WISHES[1 - n % 2][n // 2 % 2]) for n, cost, limits in PAIRS if not cost.startswith("matrix")]


@pytest.mark.parametrize(("loops", "cost", "limits", "K", "wish"), FORMS, indirect=["loops"])
def test_no_point_of_the_conic_solver_is_better(rng, loops, cost, limits, K, wish):
    compare(make(rng, cost, limits, K if K == 2 else int(rng.integers(3, 9)), wish))


# Problems that were hard once, and why.
HARD = [
    (0, "array, l1 each", "<=", None, "prob", "λ = 2e-8: λt is a difference of larger numbers, and no λ hits the aim"),
    (0, "matrix, l1", "both sides", None, "prob", "33 rows in 11 dimensions: bounds and ℓ1 terms took turns"),
    (0, "raw", "outside", None, "prob", "out of reach, with features that have no bound: proved by pinning multipliers"),
    (0, "none", "==", None, "prob", "λ is lost in rounding beside the rest of the class-space matrix"),
    (5, "matrix", "none", None, "prob", "a matrix of condition 1e6"),
    (27, "none", "mixed", None, "prob", "out of reach: λ goes down a staircase"),
    (39, "matrix, l1", ">=", 2, "lam", "every feature is held by its ℓ1 term, and a rule asks for one to move"),
    (40, "l1", ">=", 2, "lam", "the same, without a matrix"),
    (60, "matrix, l1", "one way", 2, "prob", "a bound and an ℓ1 term that hold at the same point"),
    (108, "matrix, l1", "one way", None, "lam", "the residual stalls in rounding while the gap falls"),
    (110, "matrix, l1", "<=", None, "prob", "out of reach, and at first the ℓ1 terms keep p where it is"),
    (169, "array", "mixed", 2, "prob", "a point between two must not leave the bounds of the first"),
]


@pytest.mark.parametrize(("seed", "cost", "limits", "K", "wish", "why"), HARD)
def test_problems_that_were_hard_once(seed, cost, limits, K, wish, why):
    rng = np.random.default_rng([seed, COSTS.index(cost), LIMITS.index(limits), K or 0, wish == "lam"])
    compare(make(rng, cost, limits, K or int(rng.integers(3, 9)), wish))


@pytest.mark.seconds
def test_most_of_these_problems_are_solved_by_both():
    """The tests above skip what one side cannot solve: that is rare."""
    solved = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        case = make(rng, COSTS[seed % 9], LIMITS[seed % 10], 2 + seed % 5, ["lam", "prob"][seed % 2])
        cf = attempt(case)
        solved += cf is not None and cf.status is Status.EXACT and conic(case)[0] is not None
    assert solved >= 24


# ---- against 50-digit arithmetic ----


def exact_value(case, cf, lam, weight):
    """The least of λ/2‖t‖² + weight·Σμ|t| − ln p within the limits, in 50 digits, and whether that is proved.

    The answer tells which features are free and which rules hold; with these fixed, Newton on the optimality conditions gives
    the optimum to 50 digits, and the signs of all multipliers prove it.
    """
    D, m = len(case.source), mp.mpf
    rivals = [j for j in range(case.model.n_classes) if j != case.k]
    scaling = case.model.scaling
    shift, unit = ([0.0] * D, [1.0] * D) if scaling is None else (scaling.shift.tolist(), scaling.scale.tolist())
    A, b = case.model.A.tolist(), case.model.b.tolist()
    source = [m(v) for v in case.source.tolist()]
    c = [mp.sqrt(m(float(case.Q[d, d]))) for d in range(D)]
    mu = [m(weight) * m(float(case.weights[d])) / c[d] for d in range(D)]
    seen = [(source[d] - m(shift[d])) / m(unit[d]) for d in range(D)]
    z = [mp.fdot([m(v) for v in A[j]], seen) + m(b[j]) for j in range(len(A))]
    B = [[(m(A[j][d]) - m(A[case.k][d])) / m(unit[d]) / c[d] for d in range(D)] for j in rivals]
    margins = [z[j] - z[case.k] for j in rivals]
    rules = [
        ([m(row.get(d, 0.0)) * (-1 if sense == ">=" else 1) / c[d] for d in range(D)],
         (m(rest) - mp.fsum(m(v) * source[d] for d, v in row.items())) * (-1 if sense == ">=" else 1), sense)
        for row, sense, rest in case.rules
    ]  # fmt: skip
    x = cf.x
    fixed, sign = {}, [m(0)] * D
    for d in range(D):
        if x[d] <= case.lo[d] or x[d] >= case.hi[d]:
            fixed[d] = (m(float(x[d])) - source[d]) * c[d]
        elif x[d] == case.source[d] and mu[d] > 0:
            fixed[d] = m(0)
        else:
            sign[d] = m(int(np.sign(x[d] - case.source[d])))
    holds = [i for i, (_, _, sense) in enumerate(rules) if sense == "==" or cf.within.nu[i] > 0]
    n, a, free = len(rivals), len(holds), [d for d in range(D) if d not in fixed]

    def answer(q, nu):
        pull = [mp.fsum(q[j] * B[j][d] for j in range(n)) + mp.fsum(nu[i] * rules[r][0][d] for i, r in enumerate(holds))
                for d in range(D)]  # fmt: skip
        t = [fixed[d] if d in fixed else -(pull[d] + mu[d] * sign[d]) / lam for d in range(D)]
        s = [margins[j] + mp.fdot(B[j], t) for j in range(n)]
        top = max([m(0), *s])
        e = [mp.exp(v - top) for v in s]
        total = mp.exp(-top) + mp.fsum(e)
        return pull, t, [v / total for v in e], top + mp.log(total)

    p = case.model.predict_proba(x)
    y = mp.matrix([m(float(p[j])) for j in rivals] + [m(float(cf.within.nu[r])) for r in holds])
    for _ in range(60):
        q, nu = list(y[:n]), list(y[n:]) if a else []
        _, t, p, _ = answer(q, nu)
        F = mp.matrix([q[j] - p[j] for j in range(n)] + [mp.fdot(rules[r][0], t) - rules[r][1] for r in holds])
        rows = [B[j] for j in range(n)] + [rules[r][0] for r in holds]
        J = mp.matrix(n + a, n + a)
        for i in range(n + a):
            dt = {d: -rows[i][d] / lam for d in free}
            ds = [mp.fsum(B[j][d] * dt[d] for d in free) for j in range(n)]
            mean = mp.fdot(p, ds)
            for j in range(n):
                J[j, i] = (1 if i == j else 0) - p[j] * (ds[j] - mean)
            for k, r in enumerate(holds):
                J[n + k, i] = mp.fsum(rules[r][0][d] * dt[d] for d in free)
        step = mp.lu_solve(J, F)
        y -= step
        if max(abs(v) for v in step) < mp.mpf(10) ** -40:
            break
    pull, t, p, loss = answer(list(y[:n]), list(y[n:]) if a else [])
    tiny = mp.mpf(10) ** -30
    proved = all(y[n + k] >= -tiny or rules[r][2] == "==" for k, r in enumerate(holds))
    proved &= all(mp.fdot(row, t) <= rest + tiny for row, rest, sense in rules if sense != "==")
    for d in range(D):
        slope = lam * t[d] + pull[d]
        least = slope - mu[d] if t[d] == 0 else slope + mu[d] * mp.sign(t[d])
        most = slope + mu[d] if t[d] == 0 else least
        proved &= (least <= tiny or x[d] <= case.lo[d]) and (most >= -tiny or x[d] >= case.hi[d])
        proved &= d in fixed or (sign[d] * t[d] >= 0 and case.lo[d] <= source[d] + t[d] / c[d] <= case.hi[d])
    value = mp.fsum(lam / 2 * v * v + u * abs(v) for u, v in zip(mu, t, strict=True)) + loss
    # … and the same at the answer itself
    change = [(m(float(x[d])) - source[d]) * c[d] for d in range(D)]
    s = [margins[j] + mp.fdot(B[j], change) for j in range(n)]
    top = max([m(0), *s])
    ours = top + mp.log(mp.exp(-top) + mp.fsum(mp.exp(v - top) for v in s))
    cost = mp.fsum(v * v / 2 + m(float(case.weights[d])) / c[d] * abs(v) for d, v in enumerate(change))
    value_here = mp.fsum(lam / 2 * v * v + u * abs(v) for u, v in zip(mu, change, strict=True)) + ours
    return value, value_here, cost, ours, proved


@pytest.mark.parametrize("seed", range(24))
def test_the_gap_is_a_true_bound_in_50_digits(seed):
    """E − E* (or cost − least cost) in 50 digits is at least 0 and at most what is claimed."""
    rng = np.random.default_rng(1000 + seed)
    kinds = ["none", "frozen", "both sides", "one way", "<=", "mixed", "==", ">="]
    cost = ["l1", "array, l1 each", "mapping", "array", "raw"][seed % 5]
    wish = ["lam", "prob"][seed // 8 % 2]
    case = make(rng, cost, kinds[seed % 8], 2 + seed % 4, wish, D=5)
    if case.actions is None:
        case.actions = Actions()
    cf = sound(case, case.solve())
    if cf.status is Status.UNREACHABLE or np.isinf(cf.lam):
        return  # of 24, a few
    with mp.workdps(50):
        lam = mp.mpf(cf.lam)
        best, here, cost_here, loss, proved = exact_value(case, cf, lam, 1 if wish == "lam" else lam)
        assert proved
        assert here >= best - mp.mpf(10) ** -28 or any(sense == "==" for _, sense, _ in case.rules)
        if wish == "lam":
            assert here - best <= cf.gap
        else:  # every point with p ≥ τ costs at least (E* + ln τ)/λ
            assert loss <= -mp.log(mp.mpf(cf.prob))
            assert cost_here - (best + mp.log(mp.mpf(cf.prob))) / lam <= cf.gap
